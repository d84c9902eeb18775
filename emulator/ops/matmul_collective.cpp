// Matrix products fused with a collective of HCCL; the communicator is named. They run in the order
// of one stream and are numbered apart from the other collectives.
#include <ATen/ATen.h>

#include "hccl/collectives.h"
#include "ops/operator.h"

using namespace cannemu::ops;
namespace hccl = cannemu::hccl;

static HcclDataType hccl_type(const Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return HCCL_DATA_TYPE_FP32;
    case at::kHalf:
      return HCCL_DATA_TYPE_FP16;
    case at::kBFloat16:
      return HCCL_DATA_TYPE_BFP16;
    default:
      TORCH_CHECK(false, "a fused product of ", x.scalar_type(), " is not emulated");
  }
}

static Tensor product(const Tensor& a, const Tensor& b, const Tensor& bias) {
  const Tensor ab = at::mm(a, b);
  return present(bias) ? ab + bias : ab;
}

// out = this rank's rows of the sum over ranks of a @ b.
static void matmul_reduce_scatter(const Tensor& a, const Tensor& b, const Tensor& bias,
                                  const Text& group, const Text& op, const Tensor& out) {
  TORCH_CHECK(op == "sum", "a fused product with the reduction ", op, " is not emulated");
  const auto comm = hccl::find_communicator(group);
  const Tensor ab = product(a, b, bias).contiguous();
  const uint64_t bytes = ab.nbytes() / comm->size();
  hccl::Bytes sizes(comm->size(), bytes), offsets(comm->size());
  for (int rank = 0; rank < comm->size(); ++rank) offsets[rank] = rank * bytes;
  const Tensor mine = at::empty_like(out, at::MemoryFormat::Contiguous);
  hccl::reduce_scatter(*comm, comm->next_fused_number(), ab.data_ptr(), sizes, offsets,
                       mine.data_ptr(), mine.numel(), {hccl_type(ab), HCCL_REDUCE_SUM});
  put(out, mine);
}

// out = (rows of all ranks' a) @ b; `gathered` are those rows, when asked for.
static void all_gather_matmul(const Tensor& a, const Tensor& b, const Tensor& bias,
                              const Text& group, int64_t which, const Tensor& out,
                              const Tensor& gathered) {
  TORCH_CHECK(which == 0, "a fused product that gathers its second operand is not emulated");
  const auto comm = hccl::find_communicator(group);
  const Tensor own = a.contiguous();
  hccl::Bytes sizes(comm->size(), own.nbytes()), offsets(comm->size());
  for (int rank = 0; rank < comm->size(); ++rank) offsets[rank] = rank * own.nbytes();
  const Tensor rows = at::empty({own.size(0) * comm->size(), own.size(1)}, own.options());
  hccl::all_gather(*comm, comm->next_fused_number(), own.data_ptr(), rows.data_ptr(), sizes,
                   offsets);
  put(out, product(rows, b, bias));
  if (present(gathered)) put(gathered, rows);
}

static void not_quantised(const Tensor& a_scale, const Tensor& b_scale, const Tensor& out_scale) {
  TORCH_CHECK(!present(a_scale) && !present(b_scale) && !present(out_scale),
              "a quantised product with a collective is not emulated");
}

ACLNN(MatmulReduceScatter, Tensor a, Tensor b, Tensor bias, Text group, Text op, int64_t, int64_t,
      Tensor out) {
  matmul_reduce_scatter(a, b, bias, group, op, out);
}
ACLNN(MatmulReduceScatterV2, Tensor a, Tensor b, Tensor bias, Tensor a_scale, Tensor b_scale,
      Tensor out_scale, int64_t, Text group, Text op, int64_t, int64_t, int64_t, Text, Tensor out,
      Tensor) {
  not_quantised(a_scale, b_scale, out_scale);
  matmul_reduce_scatter(a, b, bias, group, op, out);
}
ACLNN(AllGatherMatmul, Tensor a, Tensor b, Tensor bias, Text group, int64_t which, int64_t, int64_t,
      Tensor out, Tensor gathered) {
  all_gather_matmul(a, b, bias, group, which, out, gathered);
}
ACLNN(AllGatherMatmulV2, Tensor a, Tensor b, Tensor bias, Tensor a_scale, Tensor b_scale,
      Tensor out_scale, int64_t, Text group, int64_t which, int64_t, int64_t, int64_t, Text,
      Tensor out, Tensor gathered, Tensor) {
  not_quantised(a_scale, b_scale, out_scale);
  all_gather_matmul(a, b, bias, group, which, out, gathered);
}
