#include "ops/object.h"

#include <ATen/ops/from_blob.h>
#include <acl/acl_base.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <exception>

#include "runtime/report.h"

namespace cannemu::ops {

at::ScalarType scalar_type(int acl_type) {
  switch (acl_type) {
    case ACL_FLOAT:
      return at::kFloat;
    case ACL_FLOAT16:
      return at::kHalf;
    case ACL_BF16:
      return at::kBFloat16;
    case ACL_DOUBLE:
      return at::kDouble;
    case ACL_INT8:
      return at::kChar;
    case ACL_INT16:
      return at::kShort;
    case ACL_INT32:
      return at::kInt;
    case ACL_INT64:
      return at::kLong;
    case ACL_UINT8:
      return at::kByte;
    case ACL_UINT16:
      return at::kUInt16;
    case ACL_UINT32:
      return at::kUInt32;
    case ACL_UINT64:
      return at::kUInt64;
    case ACL_BOOL:
      return at::kBool;
    case ACL_COMPLEX64:
      return at::kComplexFloat;
    case ACL_COMPLEX128:
      return at::kComplexDouble;
    case ACL_FLOAT8_E5M2:
      return at::kFloat8_e5m2;
    case ACL_FLOAT8_E4M3FN:
      return at::kFloat8_e4m3fn;
    case ACL_FLOAT8_E8M0:
      return at::kFloat8_e8m0fnu;
    default:
      TORCH_CHECK(false, "aclDataType ", acl_type, " is not emulated");
  }
}

namespace {

constexpr int kNotMade = 561103;

std::vector<int64_t> contiguous_strides(at::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t next = 1;
  for (size_t dim = sizes.size(); dim-- > 0; next *= sizes[dim]) strides[dim] = next;
  return strides;
}

at::Scalar read_scalar(const void* value, int acl_type) {
  switch (scalar_type(acl_type)) {
    case at::kFloat:
      return *static_cast<const float*>(value);
    case at::kDouble:
      return *static_cast<const double*>(value);
    case at::kHalf:
      return static_cast<float>(*static_cast<const at::Half*>(value));
    case at::kBFloat16:
      return static_cast<float>(*static_cast<const at::BFloat16*>(value));
    case at::kLong:
      return *static_cast<const int64_t*>(value);
    case at::kInt:
      return *static_cast<const int32_t*>(value);
    case at::kShort:
      return *static_cast<const int16_t*>(value);
    case at::kChar:
      return *static_cast<const int8_t*>(value);
    case at::kByte:
      return *static_cast<const uint8_t*>(value);
    case at::kBool:
      return *static_cast<const bool*>(value);
    case at::kComplexFloat:
      return *static_cast<const c10::complex<float>*>(value);
    case at::kComplexDouble:
      return *static_cast<const c10::complex<double>*>(value);
    default:
      TORCH_CHECK(false, "a scalar of aclDataType ", acl_type, " is not emulated");
  }
}

// Makes an object by `fill`; null, with the reason reported, when that throws.
template <class Object, class Fill>
Object* made(const char* function, Fill fill) {
  auto object = std::make_unique<Object>();
  try {
    fill(*object);
    return object.release();
  } catch (const std::exception& error) {
    fail(kNotMade, std::string(function) + ": " + error.what());
    return nullptr;
  }
}

}  // namespace
}  // namespace cannemu::ops

using namespace cannemu::ops;

#define ACL_OBJECT extern "C" __attribute__((visibility("default")))

ACL_OBJECT aclTensor* aclCreateTensor(const int64_t* sizes, uint64_t dims, int type,
                                      const int64_t* strides, int64_t offset, int format,
                                      const int64_t*, uint64_t, void* data) {
  return made<aclTensor>("aclCreateTensor", [&](aclTensor& tensor) {
    static char nothing[64];  // an empty tensor has no address
    const at::IntArrayRef shape(sizes, dims);
    const at::ScalarType scalar = scalar_type(type);
    auto* address =
        data ? static_cast<char*>(data) + offset * static_cast<int64_t>(c10::elementSize(scalar))
             : nothing;
    c10::impl::ExcludeDispatchKeyGuard without_python(c10::python_ks);
    tensor.view = at::from_blob(
        address, shape,
        strides ? std::vector<int64_t>(strides, strides + dims) : contiguous_strides(shape),
        [](void*) {}, at::TensorOptions(scalar), at::Device(at::kCPU));
    tensor.format = format;
    tensor.shape = shape.vec();
  });
}

ACL_OBJECT aclScalar* aclCreateScalar(void* value, int type) {
  return made<aclScalar>("aclCreateScalar",
                         [&](aclScalar& scalar) { scalar.value = read_scalar(value, type); });
}

ACL_OBJECT aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t count) {
  return made<aclIntArray>("aclCreateIntArray", [&](aclIntArray& array) {
    array.values.assign(values, values + count);
  });
}

ACL_OBJECT aclFloatArray* aclCreateFloatArray(const float* values, uint64_t count) {
  return made<aclFloatArray>("aclCreateFloatArray", [&](aclFloatArray& array) {
    array.values.assign(values, values + count);
  });
}

ACL_OBJECT aclBoolArray* aclCreateBoolArray(const bool* values, uint64_t count) {
  return made<aclBoolArray>("aclCreateBoolArray", [&](aclBoolArray& array) {
    array.values.assign(values, values + count);
  });
}

// A list owns its members, as CANN's does.
ACL_OBJECT aclTensorList* aclCreateTensorList(const aclTensor* const* tensors, uint64_t count) {
  return made<aclTensorList>("aclCreateTensorList", [&](aclTensorList& list) {
    for (uint64_t at = 0; at < count; ++at) {
      list.values.push_back(tensors[at] ? tensors[at]->view : at::Tensor());
      delete tensors[at];
    }
  });
}

ACL_OBJECT aclScalarList* aclCreateScalarList(const aclScalar* const* scalars, uint64_t count) {
  return made<aclScalarList>("aclCreateScalarList", [&](aclScalarList& list) {
    for (uint64_t at = 0; at < count; ++at) {
      list.values.push_back(scalars[at]->value);
      delete scalars[at];
    }
  });
}

#define ACL_DESTROY(name, type)             \
  ACL_OBJECT int name(const type* object) { \
    delete object;                          \
    return 0;                               \
  }
ACL_DESTROY(aclDestroyTensor, aclTensor)
ACL_DESTROY(aclDestroyScalar, aclScalar)
ACL_DESTROY(aclDestroyIntArray, aclIntArray)
ACL_DESTROY(aclDestroyFloatArray, aclFloatArray)
ACL_DESTROY(aclDestroyBoolArray, aclBoolArray)
ACL_DESTROY(aclDestroyTensorList, aclTensorList)
ACL_DESTROY(aclDestroyScalarList, aclScalarList)
ACL_DESTROY(aclDestroyAclOpExecutor, aclOpExecutor)

// The caller frees the array with delete[].
ACL_OBJECT int aclGetViewShape(const aclTensor* tensor, int64_t** sizes, uint64_t* dims) {
  *dims = tensor->shape.size();
  *sizes = new int64_t[*dims + 1];
  std::copy(tensor->shape.begin(), tensor->shape.end(), *sizes);
  return 0;
}

ACL_OBJECT int InitHugeMemThreadLocal(void*, bool) { return 0; }
ACL_OBJECT void UnInitHugeMemThreadLocal(void*, bool) {}
ACL_OBJECT void ReleaseHugeMem(void*, bool) {}
