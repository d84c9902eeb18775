// Small random models whose logits are far from flat, and a tokenizer of bytes, for the tests of
// this area.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/tokenizer/tokenizer.h"
#include "models/model.h"
#include "support/tiny_args.h"

namespace titan::generate {

// Rows of vocabulary for every byte, and positions for what a test generates.
inline models::ModelArgs small(models::ModelArgs args) {
  args.vocab_size = 260;
  args.max_seq_len = 64;
  return args;
}

inline models::ModelArgs small_llama3() {
  auto args = small(models::tiny_llama3());
  args.dim = 32;
  args.head_dim = 8;
  args.hidden_dim = 48;
  args.rope_theta = 500000;
  return args;
}

inline models::ModelArgs small_qwen3() {
  auto args = small(models::tiny_qwen3());
  args.dim = 24;
  args.num_layers = 2;
  args.head_dim = 16;
  args.hidden_dim = 40;
  args.norm_eps = 1e-6;
  args.rope_theta = 1000000;
  return args;
}

// As initialised, but with projections large enough that attention is peaked and every position
// matters.
inline std::unique_ptr<models::Model> small_model(const models::ModelArgs& args,
                                                  at::ScalarType dtype = at::kFloat) {
  auto model = models::make_model(args, dtype, at::kCPU, 7);
  const at::NoGradGuard no_grad;
  model->visit([&](const std::string& name, at::Tensor& parameter, const nn::Init&) {
    if (name.find("layers.") == 0 && parameter.dim() == 2) parameter.mul_(12);
  });
  return model;
}

// Ids 0-255 are bytes, 256 is BOS, 257 EOS; the model has rows up to 259, which no text has.
class ByteTokenizer : public data::Tokenizer {
 public:
  explicit ByteTokenizer(bool has_bos = true) : has_bos_(has_bos) {}
  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string bytes;
    for (const int32_t id : ids) bytes += token_bytes(id);
    return text::to_valid_utf8(bytes);
  }
  int64_t vocab_size() const override { return 258; }
  std::optional<int32_t> bos_id() const override {
    return has_bos_ ? std::optional<int32_t>(256) : std::nullopt;
  }
  std::optional<int32_t> eos_id() const override { return 257; }
  std::string token_bytes(int32_t id) const override {
    if (id < 0 || id > 257) throw Error("[tokenizer] no token has the id {}", id);
    return id == 256 ? "<bos>" : id == 257 ? "<eos>" : std::string(1, static_cast<char>(id));
  }

 private:
  bool has_bos_;
};

}  // namespace titan::generate
