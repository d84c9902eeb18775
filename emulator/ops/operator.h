// How an operator is written: one entry, the parameters in the order in which op-plugin passes them
// (README, "Adding an operator"), the body in ATen on views of device memory.
//   ACLNN(SwiGlu, Tensor x, int64_t dim, Tensor out) { put(out, …); }
// makes the two C functions aclnnSwiGlu and aclnnSwiGluGetWorkspaceSize. The first call converts
// the arguments and keeps them in an executor, the second runs the body on its stream. What the
// body throws is the stream's error.
#pragma once

#include <tuple>

#include "ops/object.h"
#include "runtime/report.h"

namespace cannemu::ops {

using at::Scalar;
using at::ScalarType;
using at::Tensor;
using OptionalScalar = std::optional<at::Scalar>;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Bools = std::vector<char>;
using Tensors = std::vector<at::Tensor>;
using Scalars = std::vector<at::Scalar>;
using Text = std::string;
using Result = aclTensor*;  // an output whose size the operator finds out, see put_sized

using AnyFunction = void (*)();
constexpr int kOperatorFailed = 561103;

int failed(const char* name, const char* why);
int execute(aclOpExecutor* executor, const char* name, void* stream);

template <class Object>
const Object& checked(const Object* object) {
  TORCH_CHECK(object, "an argument is null that may not be");
  TORCH_CHECK(object->kind == Object().kind,
              "wrong kind of argument: the caller's signature is another one");
  return *object;
}

// From the type of a C parameter to that of an entry's; plain numbers pass as they are.
template <class Value>
struct Argument {
  using C = Value;
  static Value get(C value) { return value; }
};
template <>
struct Argument<Tensor> {
  using C = const aclTensor*;
  static Tensor get(C tensor);  // undefined for null
};
template <>
struct Argument<Result> {
  using C = aclTensor*;
  static Result get(C tensor) { return checked(tensor), tensor; }
};
template <>
struct Argument<Scalar> {
  using C = const aclScalar*;
  static Scalar get(C scalar) { return checked(scalar).value; }
};
template <>
struct Argument<OptionalScalar> {
  using C = const aclScalar*;
  static OptionalScalar get(C scalar) {
    return scalar ? OptionalScalar(checked(scalar).value) : std::nullopt;
  }
};
template <>
struct Argument<ScalarType> {
  using C = int;
  static ScalarType get(C type) { return scalar_type(type); }
};
template <>
struct Argument<Text> {
  using C = const char*;
  static Text get(C text) { return text ? text : ""; }
};
template <class Object, class Value>
struct ArrayArgument {
  using C = const Object*;
  static Value get(C array) { return array ? checked(array).values : Value(); }
};
template <>
struct Argument<Ints> : ArrayArgument<aclIntArray, Ints> {};
template <>
struct Argument<Floats> : ArrayArgument<aclFloatArray, Floats> {};
template <>
struct Argument<Bools> : ArrayArgument<aclBoolArray, Bools> {};
template <>
struct Argument<Tensors> : ArrayArgument<aclTensorList, Tensors> {};
template <>
struct Argument<Scalars> : ArrayArgument<aclScalarList, Scalars> {};

template <auto kBody, const char* kName, class Signature>
struct Entry;
template <auto kBody, const char* kName, class... Parameters>
struct Entry<kBody, kName, void (*)(Parameters...)> {
  static int prepare(typename Argument<Parameters>::C... arguments, uint64_t* workspace_bytes,
                     aclOpExecutor** executor) {
    try {
      *workspace_bytes = 0;
      *executor = new aclOpExecutor{
          kName, [kept = std::make_tuple(Argument<Parameters>::get(arguments)...)] {
            std::apply(kBody, kept);
          }};
      return 0;
    } catch (const std::exception& error) {
      return failed(kName, error.what());
    }
  }
  static int run(void*, uint64_t, aclOpExecutor* executor, void* stream) {
    static std::atomic<uint64_t>& calls = counter(kName);
    calls.fetch_add(1, std::memory_order_relaxed);
    trace(kName);
    return execute(executor, kName, stream);
  }
};

// Writes a result; an output that the caller left out is undefined or empty.
void put(const Tensor& out, const Tensor& result);
void put(const Tensors& out, const Tensors& result);
// For a result of unknown size: into the front of the output's memory, whose shape becomes the
// result's.
void put_sized(Result out, const Tensor& result);

inline bool present(const Tensor& tensor) { return tensor.defined() && tensor.numel() > 0; }

}  // namespace cannemu::ops

// The exported names are resolved when the library is loaded, so the list of parameters is written
// once.
#define ACLNN(name, ...)                                                                         \
  static void op_##name(__VA_ARGS__);                                                            \
  static constexpr char name_of_##name[] = "aclnn" #name;                                        \
  using entry_of_##name = cannemu::ops::Entry<&op_##name, name_of_##name, decltype(&op_##name)>; \
  extern "C" {                                                                                   \
  static cannemu::ops::AnyFunction prepare_of_##name() {                                         \
    return reinterpret_cast<cannemu::ops::AnyFunction>(&entry_of_##name::prepare);               \
  }                                                                                              \
  static cannemu::ops::AnyFunction run_of_##name() {                                             \
    return reinterpret_cast<cannemu::ops::AnyFunction>(&entry_of_##name::run);                   \
  }                                                                                              \
  __attribute__((visibility("default"),                                                          \
                 ifunc("prepare_of_" #name))) void aclnn##name##GetWorkspaceSize();              \
  __attribute__((visibility("default"), ifunc("run_of_" #name))) void aclnn##name();             \
  }                                                                                              \
  static void op_##name(__VA_ARGS__)
