// Plain structs in the context of an autograd function, which holds IValues only.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>

namespace titan::nn {

template <typename T>
struct AutogradData : torch::CustomClassHolder {
  explicit AutogradData(T value) : value(std::move(value)) {}
  T value;
};

template <typename T>
void keep_data(torch::autograd::AutogradContext* ctx, const std::string& key, T value) {
  ctx->saved_data[key] =
      c10::IValue::make_capsule(c10::make_intrusive<AutogradData<T>>(std::move(value)));
}

template <typename T>
const T& kept_data(torch::autograd::AutogradContext* ctx, const std::string& key) {
  const auto capsule = ctx->saved_data[key].toCapsule();
  return static_cast<const AutogradData<T>*>(capsule.get())->value;  // ctx keeps it alive
}

}  // namespace titan::nn
