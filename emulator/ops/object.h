// The objects that operators take. A tensor is an ATen view of device memory, which is host memory
// here. Every object begins with a word that names its kind: a caller whose arguments differ from
// an entry's becomes an error, not a wrong number.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

template <int kKind>
struct AclObject {
  int kind = kKind;
};

struct aclTensor : AclObject<0x54656e73> {
  at::Tensor view;
  int format = 0;
  std::vector<int64_t>
      shape;  // as asked by aclGetViewShape; an operator with a result of unknown size sets it
};
struct aclScalar : AclObject<0x5363616c> {
  at::Scalar value;
};
struct aclIntArray : AclObject<0x496e7473> {
  std::vector<int64_t> values;
};
struct aclFloatArray : AclObject<0x466c7473> {
  std::vector<float> values;
};
struct aclBoolArray : AclObject<0x426f6f6c> {
  std::vector<char> values;
};
struct aclTensorList : AclObject<0x546c7374> {
  std::vector<at::Tensor> values;
};
struct aclScalarList : AclObject<0x536c7374> {
  std::vector<at::Scalar> values;
};
struct aclOpExecutor {
  const char* name;
  std::function<void()> run;
};

namespace cannemu::ops {

// The type behind an aclDataType; throws for those that ATen has no type for.
at::ScalarType scalar_type(int acl_type);

}  // namespace cannemu::ops
