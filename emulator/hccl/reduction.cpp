#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "hccl/collectives.h"

namespace cannemu::hccl {
namespace {

at::ScalarType scalar_type(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return at::kChar;
    case HCCL_DATA_TYPE_UINT8:
      return at::kByte;
    case HCCL_DATA_TYPE_INT16:
      return at::kShort;
    case HCCL_DATA_TYPE_INT32:
      return at::kInt;
    case HCCL_DATA_TYPE_INT64:
      return at::kLong;
    case HCCL_DATA_TYPE_FP16:
      return at::kHalf;
    case HCCL_DATA_TYPE_BFP16:
      return at::kBFloat16;
    case HCCL_DATA_TYPE_FP32:
      return at::kFloat;
    case HCCL_DATA_TYPE_FP64:
      return at::kDouble;
    default:
      throw Failure(HCCL_E_NOT_SUPPORT, "a reduction of data type " + std::to_string(type));
  }
}

void accumulate(at::Tensor& sum, const at::Tensor& part, HcclReduceOp op) {
  switch (op) {
    case HCCL_REDUCE_SUM:
      sum.add_(part);
      return;
    case HCCL_REDUCE_PROD:
      sum.mul_(part);
      return;
    case HCCL_REDUCE_MAX:
      sum.copy_(at::maximum(sum, part));
      return;
    case HCCL_REDUCE_MIN:
      sum.copy_(at::minimum(sum, part));
      return;
    default:
      throw Failure(HCCL_E_NOT_SUPPORT, "reduction " + std::to_string(op));
  }
}

}  // namespace

void reduce(const std::vector<std::vector<char>>& parts, void* out, uint64_t count, Reduction how) {
  c10::impl::ForceDispatchKeyGuard bare(c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
                                        c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                            c10::autocast_dispatch_keyset | c10::python_ks);
  const at::ScalarType type = scalar_type(how.type);
  const at::ScalarType wide = type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
  auto view = [&](const void* data) {
    return at::from_blob(
        const_cast<void*>(data), {static_cast<int64_t>(count)}, [](void*) {},
        at::TensorOptions(type), at::Device(at::kCPU));
  };
  at::Tensor sum;
  for (const std::vector<char>& part : parts) {
    const at::Tensor x = view(part.data()).to(wide);
    if (sum.defined()) {
      accumulate(sum, x, how.op);
    } else {
      sum = x.clone();
    }
  }
  view(out).copy_(sum);
}

}  // namespace cannemu::hccl
