#include "device/cuda/matmul.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include "base/error.h"

namespace titan::device::cuda {

using at::Tensor;

namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw EnvironmentError("[device] cuBLASLt cannot {}: status {}", what, static_cast<int>(status));
}

cudaDataType_t cuda_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return CUDA_R_32F;
    case at::kBFloat16:
      return CUDA_R_16BF;
    case at::kHalf:
      return CUDA_R_16F;
    case at::kFloat8_e4m3fn:
      return CUDA_R_8F_E4M3;
    case at::kFloat8_e5m2:
      return CUDA_R_8F_E5M2;
    default:
      fail_check(__FILE__, __LINE__, "a dtype with matrix products", c10::toString(type));
  }
}

// A row-major matrix, or the transposed view of one.
struct Stored {
  bool transposed;
  int64_t leading;  // elements between rows as stored
};

Stored stored(const Tensor& x) {
  const auto rows = x.size(0), columns = x.size(1);
  if (x.stride(1) == 1 && (rows == 1 || x.stride(0) >= columns)) {
    return {false, std::max(rows == 1 ? columns : x.stride(0), columns)};
  }
  TITAN_CHECK(x.stride(0) == 1 && (columns == 1 || x.stride(1) >= rows),
              "a matrix with strides {} and {}", x.stride(0), x.stride(1));
  return {true, std::max(columns == 1 ? rows : x.stride(1), rows)};
}

// The largest power of two up to 256 that divides the address.
uint32_t alignment(const Tensor& x) {
  const auto address = reinterpret_cast<uintptr_t>(x.const_data_ptr());
  return static_cast<uint32_t>(std::min<uintptr_t>(256, address & (~address + 1)));
}

class Layout {
 public:
  // A row-major matrix is a column-major one with its sizes exchanged.
  Layout(at::ScalarType type, int64_t rows, int64_t columns, int64_t leading) {
    check(cublasLtMatrixLayoutCreate(&layout_, cuda_type(type), static_cast<uint64_t>(columns),
                                     static_cast<uint64_t>(rows), leading),
          "describe a matrix");
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  operator cublasLtMatrixLayout_t() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

}  // namespace

struct Matmul::Plan {
  cublasLtMatmulDesc_t description = nullptr;
  Layout a, b, c, d;
  cublasLtMatmulAlgo_t algorithm{};

  // As stored: a transposed view has its rows and columns exchanged.
  explicit Plan(const Shape& s)
      : a(s.in, s.a_transposed ? s.k : s.m, s.a_transposed ? s.m : s.k, s.lda),
        b(s.in_b, s.b_transposed ? s.n : s.k, s.b_transposed ? s.k : s.n, s.ldb),
        c(s.out, s.m, s.n, s.ldc),
        d(s.out, s.m, s.n, s.ldd) {}
  ~Plan() {
    if (description) cublasLtMatmulDescDestroy(description);
  }
};

Matmul::Matmul() = default;

Matmul::~Matmul() {
  plans_.clear();
  if (handle_) cublasLtDestroy(handle_);
}

namespace {

bool is_float8(at::ScalarType type) {
  return type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2;
}

}  // namespace

void Matmul::set_scales(const Plan& plan, const Float8Scales& scales) {
  // The operands change places, see below.
  const std::pair<cublasLtMatmulDescAttributes_t, const float*> pointers[] = {
      {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales.b},
      {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales.a}};
  for (const auto& [attribute, pointer] : pointers) {
    check(cublasLtMatmulDescSetAttribute(plan.description, attribute, &pointer, sizeof pointer),
          "scale a product");
  }
}

// cuBLASLt counts columns first, so the operands change places: out^T = b^T a^T.
const Matmul::Plan& Matmul::plan_for(const Shape& shape) {
  auto& slot = plans_[shape];
  if (slot) return *slot;
  if (!handle_) check(cublasLtCreate(&handle_), "start");
  auto plan = std::make_unique<Plan>(shape);
  check(cublasLtMatmulDescCreate(&plan->description,
                                 shape.in == at::kFloat && shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                      : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
        "describe a product");
  const auto transpose = [](bool yes) { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const cublasOperation_t first = transpose(shape.b_transposed),
                          second = transpose(shape.a_transposed);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const cublasOperation_t& value) {
    check(cublasLtMatmulDescSetAttribute(plan->description, attribute, &value, sizeof value),
          "describe a product");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, first);
  set(CUBLASLT_MATMUL_DESC_TRANSB, second);
  if (is_float8(shape.in)) {
    const int8_t fast = shape.fast_sums ? 1 : 0;
    check(cublasLtMatmulDescSetAttribute(plan->description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
                                         sizeof fast),
          "describe a product");
    // Any pointer serves the search for an algorithm.
    set_scales(*plan, {reinterpret_cast<const float*>(256), reinterpret_cast<const float*>(256)});
  }
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "make a preference");
  const size_t bytes = kWorkspaceBytes;
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                       sizeof bytes);
  // The operands change places, see above.
  const std::pair<cublasLtMatmulPreferenceAttributes_t, uint32_t> alignments[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.align_b},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.align_a},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.align_c},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.align_d}};
  for (const auto& [attribute, align] : alignments) {
    cublasLtMatmulPreferenceSetAttribute(preference, attribute, &align, sizeof align);
  }
  const auto status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan->description, plan->b, plan->a, plan->c, plan->d,
                                     preference, 1, &result, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
    throw EnvironmentError("[device] cuBLASLt has no product of {} x {} x {} ({} -> {}): status {}",
                           shape.m, shape.n, shape.k, c10::toString(shape.in),
                           c10::toString(shape.out), static_cast<int>(status));
  }
  plan->algorithm = result.algo;
  slot = std::move(plan);
  return *slot;
}

void Matmul::product(const Tensor& a, const Tensor& b, const std::optional<Tensor>& added,
                     Tensor& out, const std::optional<Float8Scales>& scales) {
  const auto as = stored(a), bs = stored(b), ds = stored(out);
  const auto cs = added ? stored(*added) : ds;
  TITAN_CHECK(!cs.transposed && !ds.transposed, "the result of a product is row-major");
  const Plan& plan = plan_for(
      {a.size(0), b.size(1), a.size(1), as.leading, bs.leading, cs.leading, ds.leading,
       as.transposed, bs.transposed, added.has_value(), a.scalar_type(), b.scalar_type(),
       out.scalar_type(), at::globalContext().allowTF32CuBLAS(), scales && scales->fast_sums,
       alignment(a), alignment(b), alignment(added ? *added : out), alignment(out)});
  if (scales) set_scales(plan, *scales);
  const float one = 1, beta = added ? 1.0f : 0.0f;
  const auto stream = c10::cuda::getCurrentCUDAStream(out.device().index());
  const auto workspace = c10::cuda::CUDACachingAllocator::get()->allocate(kWorkspaceBytes);
  check(cublasLtMatmul(handle_, plan.description, &one, b.const_data_ptr(), plan.b,
                       a.const_data_ptr(), plan.a, &beta,
                       added ? added->const_data_ptr() : out.const_data_ptr(), plan.c,
                       out.mutable_data_ptr(), plan.d, &plan.algorithm, workspace.get(),
                       kWorkspaceBytes, stream.stream()),
        "multiply");
}

}  // namespace titan::device::cuda
