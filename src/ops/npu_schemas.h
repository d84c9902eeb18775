// The contract with torch_npu: the schemas that npu_ops.cpp is written for against the registered
// ones.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <string_view>

#include "ops/npu_ops.h"

namespace titan::ops::npu {

// One line that names the operator, the first argument that differs, and the version of torch_npu;
// nullopt when name, arguments, types, defaults and results are those of one of the two texts.
std::optional<std::string> schema_difference(const Schema& expected, std::string_view version);

// Whether the registered operator has an argument of this name: which form of the call it takes.
// REQUIRES that it is registered.
bool takes(const char* name, std::string_view argument);

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// An operator of Signature whose last arguments Added… an older torch_npu does not have. Which form
// is registered is told by `added`, the name of the first of them.
template <class Signature, class... Added>
class Grown;
template <class Result, class... Arguments, class... Added>
class Grown<Result(Arguments...), Added...> {
 public:
  Grown(const char* name, std::string_view added) : has_them_(takes(name, added)) {
    if (has_them_) {
      newer_.emplace(find<Result(Arguments..., Added...)>(name));
    } else {
      older_.emplace(find<Result(Arguments...)>(name));
    }
  }
  Result call(Arguments... arguments, Added... added) const {
    return has_them_ ? newer_->call(arguments..., added...) : older_->call(arguments...);
  }

 private:
  bool has_them_;
  std::optional<c10::TypedOperatorHandle<Result(Arguments..., Added...)>> newer_;
  std::optional<c10::TypedOperatorHandle<Result(Arguments...)>> older_;
};

// An operator that is registered with signature Second where it has the argument `telling`, else
// with First. One of the two is there.
template <class First, class Second>
struct Either {
  Either(const char* name, std::string_view telling) {
    if (takes(name, telling)) {
      second.emplace(find<Second>(name));
    } else {
      first.emplace(find<First>(name));
    }
  }
  std::optional<c10::TypedOperatorHandle<First>> first;
  std::optional<c10::TypedOperatorHandle<Second>> second;
};

}  // namespace titan::ops::npu
