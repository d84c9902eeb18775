// Tiny models whose weights and tokens come from an integer hash, the same one as in
// tools/make_goldens.py.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "models/model.h"
#include "support/hash.h"

namespace titan::models {

inline ModelArgs tiny_args(const nlohmann::json& a) {
  ModelArgs args;
  args.family = a.at("family");
  args.flavor = "tiny";
  args.dim = a.at("dim");
  args.num_layers = a.at("num_layers");
  args.num_heads = a.at("num_heads");
  args.num_kv_heads = a.at("num_kv_heads");
  args.head_dim = a.at("head_dim");
  args.hidden_dim = a.at("hidden_dim");
  args.vocab_size = a.at("vocab_size");
  args.norm_eps = a.at("norm_eps");
  args.rope_theta = a.at("rope_theta");
  args.rope_style = a.at("interleaved").get<bool>() ? RopeStyle::kInterleaved : RopeStyle::kHalves;
  args.qk_norm = a.at("qk_norm");
  args.tied = a.at("tied");
  args.max_seq_len = 16;
  if (const auto& s = a.at("rope_scaling"); !s.is_null()) {
    args.rope_scaling = RopeScaling{s.at("factor"), s.at("low_freq_factor"),
                                    s.at("high_freq_factor"), s.at("original_max_positions")};
  }
  return args;
}

// The weights of the goldens: norms around 1, matrices in [-0.5, 0.5).
inline std::unique_ptr<Model> tiny_model(const ModelArgs& args, at::ScalarType dtype) {
  auto model = make_model_uninitialized(args, dtype, at::kCPU);
  uint32_t salt = 0;
  model->visit([&](const std::string&, at::Tensor& parameter, const nn::Init&) {
    at::Tensor values = at::empty(parameter.sizes(), at::kDouble);
    for (int64_t i = 0; i < values.numel(); ++i) {
      const double value = centred(static_cast<uint32_t>(i), salt);
      values.mutable_data_ptr<double>()[i] = values.dim() == 1 ? 1 + 0.25 * value : value;
    }
    parameter.detach().copy_(values);
    ++salt;
  });
  return model;
}

struct TinyBatch {
  at::Tensor inputs, labels;  // [rows, time] int64
  int64_t valid_tokens = 0;
};

inline TinyBatch tiny_batch(int64_t rows, int64_t time, int64_t vocab, int64_t step) {
  TinyBatch batch{at::empty({rows, time}, at::kLong), at::empty({rows, time}, at::kLong)};
  const auto id = [&](int64_t b, int64_t t) {
    return static_cast<int64_t>(
        mix(static_cast<uint32_t>(b * (time + 1) + t), static_cast<uint32_t>(1000 + step)) %
        static_cast<uint32_t>(vocab));
  };
  for (int64_t b = 0; b < rows; ++b) {
    for (int64_t t = 0; t < time; ++t) {
      const bool ignored = (b * time + t) % 11 < step % 4;
      batch.inputs[b][t] = id(b, t);
      batch.labels[b][t] = ignored ? -100 : id(b, t + 1);
      batch.valid_tokens += ignored ? 0 : 1;
    }
  }
  return batch;
}

inline std::map<std::string, at::Tensor> gradients_of(Model& model) {
  std::map<std::string, at::Tensor> out;
  model.visit([&](const std::string& name, at::Tensor& parameter, const nn::Init&) {
    out[name] = parameter.grad();
  });
  return out;
}

}  // namespace titan::models
