#include "device/cuda/operators.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "base/error.h"
#include "device/cuda/kernels/launch.h"
#include "device/cuda/matmul.h"

namespace titan::device::cuda {
namespace {

using at::Tensor;
using c10::cuda::CUDAGuard;
using kernels::Element;
using OptionalTensor = std::optional<Tensor>;

Element element_of(const Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return Element::kFloat32;
    case at::kBFloat16:
      return Element::kBFloat16;
    case at::kHalf:
      return Element::kFloat16;
    default:
      fail_check(__FILE__, __LINE__, "a dtype with CUDA kernels", c10::toString(x.scalar_type()));
  }
}

cudaStream_t stream_of(const Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.device().index()).stream();
}

void check_whole(const Tensor& x, const char* name) {
  TITAN_CHECK(
      x.is_cuda() && x.is_contiguous() && reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0,
      "{} is not contiguous on a GPU, or starts between multiples of 16 bytes", name);
}

void check_alike(const Tensor& x, const Tensor& y, const char* name) {
  check_whole(x, name);
  TITAN_CHECK(x.scalar_type() == y.scalar_type() && x.device() == y.device(),
              "{} is of another dtype or device", name);
}

Tensor scalars(int64_t count, const Tensor& like) {
  return at::empty({count}, like.options().dtype(at::kFloat));
}

std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const int64_t dim = x.size(-1), rows = x.numel() / dim;
  check_whole(x, "x");
  check_alike(weight, x, "weight");
  TITAN_CHECK(weight.numel() == dim && kernels::rms_norm_serves(element_of(x), dim),
              "rows of {} elements, a weight of {}", dim, weight.numel());
  const CUDAGuard guard(x.device());
  Tensor y = at::empty_like(x);
  Tensor inverse_rms = scalars(rows, x);
  if (rows > 0) {
    kernels::rms_norm(element_of(x), x.const_data_ptr(), weight.const_data_ptr(), eps, rows, dim,
                      y.mutable_data_ptr(), inverse_rms.mutable_data_ptr<float>(), stream_of(x));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return {y, inverse_rms};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& dy, const Tensor& x,
                                             const Tensor& weight, const Tensor& inverse_rms,
                                             const OptionalTensor& residual) {
  const int64_t dim = x.size(-1), rows = x.numel() / dim;
  check_whole(x, "x");
  check_alike(dy, x, "dy");
  check_alike(weight, x, "weight");
  if (residual) check_alike(*residual, x, "residual");
  TITAN_CHECK(dy.numel() == x.numel() && inverse_rms.numel() == rows && weight.numel() == dim &&
                  (!residual || residual->numel() == x.numel()) &&
                  kernels::rms_norm_serves(element_of(x), dim),
              "gradient of {} for {} elements in rows of {}", dy.numel(), x.numel(), dim);
  const CUDAGuard guard(x.device());
  Tensor dx = at::empty_like(x), dw = at::empty_like(weight);
  if (rows == 0) return {dx, dw.zero_()};
  Tensor partial = at::empty({kernels::rms_norm_parts(element_of(x), rows, dim), dim},
                             x.options().dtype(at::kFloat));
  kernels::rms_norm_backward(element_of(x), dy.const_data_ptr(), x.const_data_ptr(),
                             weight.const_data_ptr(), inverse_rms.const_data_ptr<float>(),
                             residual ? residual->const_data_ptr() : nullptr, rows, dim,
                             dx.mutable_data_ptr(), partial.mutable_data_ptr<float>(),
                             dw.mutable_data_ptr(), stream_of(x));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, dw};
}

// Rows of the packed projections and how many rows of the tables they go round.
struct RotaryRows {
  int64_t rows, table_rows;
};
RotaryRows check_rotary(int64_t numel, const Tensor& like, const Tensor& cos, const Tensor& sin,
                        const kernels::Heads& heads) {
  check_whole(cos, "cos");
  check_whole(sin, "sin");
  const int64_t rows = numel / heads.width(), table_rows = cos.numel() / (heads.head_dim / 2);
  TITAN_CHECK(cos.scalar_type() == at::kFloat && sin.scalar_type() == at::kFloat &&
                  cos.numel() == sin.numel() && rows * heads.width() == numel && table_rows > 0 &&
                  rows % table_rows == 0 && kernels::rope_serves(element_of(like), heads),
              "{} elements in rows of {}, tables of {} angles", numel, heads.width(), cos.numel());
  return {rows, table_rows};
}

void rope_packed(Tensor& packed, const Tensor& cos, const Tensor& sin, int64_t queries,
                 int64_t keys, int64_t head_dim, bool interleaved) {
  const kernels::Heads heads{queries, keys, head_dim, interleaved};
  check_whole(packed, "packed");
  const auto [rows, table_rows] = check_rotary(packed.numel(), packed, cos, sin, heads);
  if (rows == 0) return;
  const CUDAGuard guard(packed.device());
  kernels::rope(element_of(packed), packed.mutable_data_ptr(), cos.const_data_ptr<float>(),
                sin.const_data_ptr<float>(), rows, table_rows, heads, stream_of(packed));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// dq [B, T, queries, head_dim], dk and dv [B, T, keys, head_dim] -> [B, T, width].
Tensor rope_packed_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& cos,
                            const Tensor& sin, bool interleaved) {
  check_whole(dq, "dq");
  check_alike(dk, dq, "dk");
  check_alike(dv, dq, "dv");
  const kernels::Heads heads{dq.size(2), dk.size(2), dq.size(3), interleaved};
  TITAN_CHECK(dk.sizes() == dv.sizes() && dk.size(0) == dq.size(0) && dk.size(1) == dq.size(1) &&
                  dk.size(3) == dq.size(3),
              "gradients of {} queries' and {} keys' elements", dq.numel(), dk.numel());
  const CUDAGuard guard(dq.device());
  Tensor packed = at::empty({dq.size(0), dq.size(1), heads.width()}, dq.options());
  const auto [rows, table_rows] = check_rotary(packed.numel(), packed, cos, sin, heads);
  if (rows == 0) return packed;
  kernels::rope_backward(element_of(dq), dq.const_data_ptr(), dk.const_data_ptr(),
                         dv.const_data_ptr(), cos.const_data_ptr<float>(),
                         sin.const_data_ptr<float>(), rows, table_rows, heads,
                         packed.mutable_data_ptr(), stream_of(dq));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return packed;
}

int64_t check_gate_up(const Tensor& gate_up) {
  check_whole(gate_up, "gate_up");
  const int64_t width = gate_up.size(-1) / 2;
  const int64_t per_vector = gate_up.scalar_type() == at::kFloat ? 4 : 8;
  TITAN_CHECK(gate_up.size(-1) % (2 * per_vector) == 0, "rows of {} elements", gate_up.size(-1));
  return width;
}

Tensor swiglu(const Tensor& gate_up) {
  const int64_t width = check_gate_up(gate_up);
  const CUDAGuard guard(gate_up.device());
  auto shape = gate_up.sizes().vec();
  shape.back() = width;
  Tensor y = at::empty(shape, gate_up.options());
  if (y.numel() == 0) return y;
  kernels::swiglu(element_of(gate_up), gate_up.const_data_ptr(), y.numel() / width, width,
                  y.mutable_data_ptr(), stream_of(gate_up));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Tensor swiglu_backward(const Tensor& dy, const Tensor& gate_up) {
  const int64_t width = check_gate_up(gate_up);
  check_alike(dy, gate_up, "dy");
  TITAN_CHECK(2 * dy.numel() == gate_up.numel(), "a gradient of {} elements for {}", dy.numel(),
              gate_up.numel());
  const CUDAGuard guard(gate_up.device());
  Tensor d_gate_up = at::empty_like(gate_up);
  if (dy.numel() == 0) return d_gate_up;
  kernels::swiglu_backward(element_of(gate_up), dy.const_data_ptr(), gate_up.const_data_ptr(),
                           dy.numel() / width, width, d_gate_up.mutable_data_ptr(),
                           stream_of(gate_up));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return d_gate_up;
}

Tensor cross_entropy(Tensor& logits, const Tensor& labels, int64_t ignored,
                     const OptionalTensor& scale) {
  check_whole(logits, "logits");
  TITAN_CHECK(logits.dim() == 2 && labels.is_cuda() && labels.is_contiguous() &&
                  labels.numel() == logits.size(0) && labels.scalar_type() == at::kLong &&
                  (!scale || (scale->numel() == 1 && scale->scalar_type() == at::kFloat)),
              "{} labels for {} logits", labels.numel(), logits.numel());
  const CUDAGuard guard(logits.device());
  Tensor losses = scalars(logits.size(0), logits);
  if (logits.numel() == 0) return losses.zero_();
  kernels::cross_entropy(element_of(logits), logits.mutable_data_ptr(),
                         labels.const_data_ptr<int64_t>(), ignored,
                         scale ? scale->const_data_ptr<float>() : nullptr, logits.size(0),
                         logits.size(1), losses.mutable_data_ptr<float>(), stream_of(logits));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return losses;
}

// x [rows, columns] -> float8 [rows, columns], its transpose [columns, rows] (undefined where not
// asked for), and what to multiply the numbers with, [4] so that it keeps its alignment.
std::tuple<Tensor, Tensor, Tensor> float8_cast(const Tensor& x, at::ScalarType dtype, bool by_row,
                                               bool by_column) {
  check_whole(x, "x");
  TITAN_CHECK(x.dim() == 2 && x.size(0) % 16 == 0 && x.size(1) % 16 == 0 && x.numel() > 0 &&
                  (dtype == at::kFloat8_e4m3fn || dtype == at::kFloat8_e5m2) &&
                  x.element_size() == 2,
              "{} elements to float8", x.numel());
  const CUDAGuard guard(x.device());
  const auto format = dtype == at::kFloat8_e4m3fn ? kernels::Float8::kE4M3 : kernels::Float8::kE5M2;
  const auto bytes = x.options().dtype(dtype);
  Tensor rows, columns;
  if (by_row) rows = at::empty(x.sizes(), bytes);
  if (by_column) columns = at::empty({x.size(1), x.size(0)}, bytes);
  const Tensor amax = scalars(1, x), inverse_scale = scalars(4, x);
  kernels::largest_magnitude(element_of(x), x.const_data_ptr(), x.numel(),
                             amax.mutable_data_ptr<float>(), stream_of(x));
  kernels::cast_to_float8(element_of(x), format, x.const_data_ptr(), amax.const_data_ptr<float>(),
                          x.size(0), x.size(1), by_row ? rows.mutable_data_ptr() : nullptr,
                          by_column ? columns.mutable_data_ptr() : nullptr,
                          inverse_scale.mutable_data_ptr<float>(), stream_of(x));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {rows, columns, inverse_scale};
}

kernels::AttentionArray heads_of(const Tensor& x, const char* name) {
  // [B, heads, T, head_dim] whose heads lie behind each other in a token.
  TITAN_CHECK(x.is_cuda() && x.dim() == 4 && x.stride(3) == 1 &&
                  (x.size(1) == 1 || x.stride(1) == x.size(3)) && x.stride(0) % 8 == 0 &&
                  x.stride(2) % 8 == 0 && reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0,
              "{}: heads of a token that do not lie behind each other", name);
  return {x.const_data_ptr(), x.stride(0), x.stride(2)};
}

kernels::AttentionSizes check_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const kernels::AttentionSizes sizes{q.size(0), q.size(1), k.size(1), q.size(2), q.size(3)};
  TITAN_CHECK(
      k.sizes() == v.sizes() && k.size(0) == q.size(0) && k.size(2) == q.size(2) &&
          k.size(3) == q.size(3) && q.scalar_type() == k.scalar_type() &&
          q.scalar_type() == v.scalar_type() && kernels::attention_serves(element_of(q), sizes),
      "attention of {} heads over {} with {} elements each", q.size(1), k.size(1), q.size(3));
  return sizes;
}

// [B, heads, T, head_dim], by token in memory.
Tensor empty_heads(const Tensor& like, int64_t heads) {
  return at::empty({like.size(0), like.size(2), heads, like.size(3)}, like.options())
      .transpose(1, 2);
}

std::tuple<Tensor, Tensor> attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto sizes = check_attention(q, k, v);
  const CUDAGuard guard(q.device());
  const Tensor out = empty_heads(q, sizes.heads);
  const Tensor logsumexp =
      at::empty({sizes.batch, sizes.heads, sizes.tokens}, q.options().dtype(at::kFloat));
  if (q.numel() > 0) {
    kernels::attention(element_of(q), sizes, heads_of(q, "q"), heads_of(k, "k"), heads_of(v, "v"),
                       heads_of(out, "out"), logsumexp.mutable_data_ptr<float>(), stream_of(q));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return {out, logsumexp};
}

std::tuple<Tensor, Tensor, Tensor> attention_backward(const Tensor& grad, const Tensor& q,
                                                      const Tensor& k, const Tensor& v,
                                                      const Tensor& out, const Tensor& logsumexp) {
  const auto sizes = check_attention(q, k, v);
  TITAN_CHECK(grad.sizes() == q.sizes() && out.sizes() == q.sizes() &&
                  grad.scalar_type() == q.scalar_type() && out.scalar_type() == q.scalar_type() &&
                  logsumexp.is_contiguous() && logsumexp.numel() * q.size(3) == q.numel(),
              "gradient of {} elements for {}", grad.numel(), q.numel());
  const CUDAGuard guard(q.device());
  const Tensor dq = empty_heads(q, sizes.heads), dk = empty_heads(q, sizes.kv_heads),
               dv = empty_heads(q, sizes.kv_heads);
  if (q.numel() > 0) {
    const Tensor delta = at::empty_like(logsumexp);
    kernels::attention_backward(element_of(q), sizes, heads_of(grad, "grad"), heads_of(q, "q"),
                                heads_of(k, "k"), heads_of(v, "v"), heads_of(out, "out"),
                                logsumexp.mutable_data_ptr<float>(),
                                delta.mutable_data_ptr<float>(), heads_of(dq, "dq"),
                                heads_of(dk, "dk"), heads_of(dv, "dv"), stream_of(q));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return {dq, dk, dv};
}

void check_product(const Tensor& a, const Tensor& b) {
  TITAN_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && a.is_cuda() &&
                  a.device() == b.device() && a.scalar_type() == b.scalar_type(),
              "no product of {} and {} elements", a.numel(), b.numel());
}

}  // namespace

class Operators {
 public:
  Operators();

 private:
  std::shared_ptr<Matmul> matmul_;
  torch::Library library_;
};

std::shared_ptr<Operators> register_operators() { return std::make_shared<Operators>(); }

Operators::Operators()
    : matmul_(std::make_shared<Matmul>()),
      library_(torch::Library::DEF, "titan", std::nullopt, __FILE__, __LINE__) {
  const auto add = [this](const char* schema, auto&& function) {
    library_.def(schema, torch::dispatch(c10::DispatchKey::CUDA,
                                         std::forward<decltype(function)>(function)));
  };
  add("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)", &rms_norm);
  add("rms_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor inverse_rms, Tensor? residual) "
      "-> (Tensor, Tensor)",
      &rms_norm_backward);
  add("rope_packed_(Tensor(a!) packed, Tensor cos, Tensor sin, int queries, int keys, int "
      "head_dim, bool interleaved) -> ()",
      &rope_packed);
  add("rope_packed_backward(Tensor dq, Tensor dk, Tensor dv, Tensor cos, Tensor sin, bool "
      "interleaved) -> Tensor",
      &rope_packed_backward);
  add("attention(Tensor q, Tensor k, Tensor v) -> (Tensor, Tensor)", &attention);
  add("attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor "
      "logsumexp) -> (Tensor, Tensor, Tensor)",
      &attention_backward);
  add("swiglu(Tensor gate_up) -> Tensor", &swiglu);
  add("swiglu_backward(Tensor dy, Tensor gate_up) -> Tensor", &swiglu_backward);
  add("cross_entropy_(Tensor(a!) logits, Tensor labels, int ignored, Tensor? scale) -> Tensor",
      &cross_entropy);
  add("matmul(Tensor a, Tensor b, Tensor? added, ScalarType? dtype) -> Tensor",
      [matmul = matmul_](const Tensor& a, const Tensor& b, const OptionalTensor& added,
                         std::optional<at::ScalarType> dtype) {
        check_product(a, b);
        const CUDAGuard guard(a.device());
        Tensor out =
            at::empty({a.size(0), b.size(1)}, a.options().dtype(dtype.value_or(a.scalar_type())));
        TITAN_CHECK(
            !added || (added->sizes() == out.sizes() && added->scalar_type() == out.scalar_type()),
            "{} elements added to {}", added->numel(), out.numel());
        if (out.numel() > 0) matmul->product(a, b, added, out);
        return out;
      });
  add("float8_cast(Tensor x, ScalarType dtype, bool by_row, bool by_column) -> (Tensor, Tensor, "
      "Tensor)",
      &float8_cast);
  library_.def("has_float8(int device) -> bool", [](int64_t device) {
    int major = 0, minor = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                          static_cast<int>(device)));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                                          static_cast<int>(device)));
    return 10 * major + minor >= 89;
  });
  // a [m, k] and b [k, n], float8 and transposed; the products times both scales.
  add("float8_matmul(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? added, ScalarType "
      "dtype, bool fast_sums) -> Tensor",
      [matmul = matmul_](const Tensor& a, const Tensor& b, const Tensor& scale_a,
                         const Tensor& scale_b, const OptionalTensor& added, at::ScalarType dtype,
                         bool fast_sums) {
        TITAN_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && a.is_cuda() &&
                        a.device() == b.device() && a.element_size() == 1 && b.element_size() == 1,
                    "no float8 product of {} and {} elements", a.numel(), b.numel());
        const CUDAGuard guard(a.device());
        Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(dtype));
        matmul->product(a, b, added, out,
                        Matmul::Float8Scales{scale_a.const_data_ptr<float>(),
                                             scale_b.const_data_ptr<float>(), fast_sums});
        return out;
      });
  add("matmul_add_(Tensor(a!) sum, Tensor a, Tensor b) -> ()",
      [matmul = matmul_](Tensor& sum, const Tensor& a, const Tensor& b) {
        check_product(a, b);
        const CUDAGuard guard(a.device());
        TITAN_CHECK(sum.size(0) == a.size(0) && sum.size(1) == b.size(1),
                    "a product of {} x {} added to {} elements", a.size(0), b.size(1), sum.numel());
        if (sum.numel() > 0) matmul->product(a, b, sum, sum);
      });
}

}  // namespace titan::device::cuda
