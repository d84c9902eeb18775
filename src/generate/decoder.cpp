#include "generate/decoder.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"

namespace titan::generate {
namespace {

using at::Tensor;

// Padded prompts need a mask [rows, 1, chunk, columns so far]: reading them in chunks bounds it.
constexpr int64_t kPaddedChunk = 512;

}  // namespace

int64_t cache_bytes(const models::ModelArgs& args, int64_t rows, int64_t capacity,
                    at::ScalarType dtype) {
  return 2 * args.num_layers * args.num_kv_heads * args.head_dim * rows * capacity *
         static_cast<int64_t>(c10::elementSize(dtype));
}

Decoder::Decoder(models::Model& model, at::ScalarType dtype, at::Device device)
    : model_(model), runner_(dtype), device_(device) {}

void Decoder::reserve(int64_t rows, int64_t capacity) {
  const auto& args = model_.args();
  cache_ = nn::KvCache{};
  const auto options = at::TensorOptions(runner_.compute_dtype()).device(device_);
  for (int64_t layer = 0; layer < args.num_layers; ++layer) {
    cache_.k.push_back(at::empty({rows, args.num_kv_heads, capacity, args.head_dim}, options));
    cache_.v.push_back(at::empty({rows, args.num_kv_heads, capacity, args.head_dim}, options));
  }
}

Tensor Decoder::prefill(std::span<const std::vector<int32_t>> prompts, int64_t max_new_tokens) {
  const at::NoGradGuard no_grad;
  rows_ = static_cast<int64_t>(prompts.size());
  size_t longest = 0, shortest = SIZE_MAX;
  for (const auto& prompt : prompts) {
    longest = std::max(longest, prompt.size());
    shortest = std::min(shortest, prompt.size());
  }
  TITAN_CHECK(rows_ > 0 && shortest > 0, "a prompt without tokens");
  const auto columns = static_cast<int64_t>(longest);
  reserve(rows_, columns + max_new_tokens);

  Tensor tokens = at::zeros({rows_, columns}, at::kLong);
  Tensor padding = at::zeros({rows_}, at::kLong);
  for (int64_t row = 0; row < rows_; ++row) {
    const auto& prompt = prompts[static_cast<size_t>(row)];
    const int64_t pad = columns - static_cast<int64_t>(prompt.size());
    padding.mutable_data_ptr<int64_t>()[row] = pad;
    std::copy(prompt.begin(), prompt.end(),
              tokens.mutable_data_ptr<int64_t>() + row * columns + pad);
  }
  cache_.padded = shortest < longest;
  cache_.padding = padding.to(device_);
  tokens = tokens.to(device_);

  const int64_t chunk = cache_.padded ? kPaddedChunk : columns;
  Tensor hidden;
  for (int64_t begin = 0; begin < columns; begin += chunk) {
    hidden = advance(tokens.narrow(1, begin, std::min(chunk, columns - begin)));
  }
  return logits(hidden);
}

Tensor Decoder::step(std::span<const int32_t> ids) {
  TITAN_CHECK(static_cast<int64_t>(ids.size()) == rows_, "{} tokens for {} rows", ids.size(),
              rows_);
  const at::NoGradGuard no_grad;
  Tensor tokens = at::empty({rows_, 1}, at::kLong);
  std::copy(ids.begin(), ids.end(), tokens.mutable_data_ptr<int64_t>());
  return logits(advance(tokens.to(device_)));
}

// Hidden state of the last column, [rows, dim].
Tensor Decoder::advance(const Tensor& tokens) {
  return model_.hidden(tokens, runner_, cache_).select(1, -1);
}

Tensor Decoder::logits(const Tensor& hidden) {
  // The copy to the host waits for the device: the next token is chosen there.
  return at::mm(hidden, runner_.parameter(model_.output_weight()).t())
      .to(at::kCPU, at::kFloat)
      .contiguous();
}

void Decoder::keep_rows(std::span<const int64_t> rows) {
  const at::NoGradGuard no_grad;
  Tensor index = at::empty({static_cast<int64_t>(rows.size())}, at::kLong);
  std::copy(rows.begin(), rows.end(), index.mutable_data_ptr<int64_t>());
  index = index.to(device_);
  for (auto* tensors : {&cache_.k, &cache_.v}) {
    for (auto& tensor : *tensors) tensor = tensor.index_select(0, index);
  }
  cache_.padding = cache_.padding.index_select(0, index);
  rows_ = static_cast<int64_t>(rows.size());
}

}  // namespace titan::generate
