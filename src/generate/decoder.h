// A model that goes on with a batch of token sequences, a token at a time, without computing the
// past again. Keys and values lie in a cache whose memory is reserved at the start; prompts of
// different lengths are padded on the left, so that all rows end at the same column.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"
#include "nn/kv_cache.h"
#include "nn/plain_runner.h"

namespace titan::generate {

// Bytes of the keys and values of `rows` sequences of `capacity` tokens.
int64_t cache_bytes(const models::ModelArgs& args, int64_t rows, int64_t capacity,
                    at::ScalarType dtype);

class Decoder {
 public:
  // `model` must outlive the decoder; its parameters are used in `dtype`.
  Decoder(models::Model& model, at::ScalarType dtype, at::Device device);

  // Forgets everything and reads the prompts (none empty), with room for `max_new_tokens` more.
  // Returns the logits after the last token of each: [rows, vocab] float32 on the CPU.
  at::Tensor prefill(std::span<const std::vector<int32_t>> prompts, int64_t max_new_tokens);

  // Reads the next token of each row; logits as above. REQUIRES room left.
  at::Tensor step(std::span<const int32_t> ids);

  // Goes on with these rows only (indices into the present ones).
  void keep_rows(std::span<const int64_t> rows);

  int64_t rows() const { return rows_; }

 private:
  void reserve(int64_t rows, int64_t capacity);
  at::Tensor advance(const at::Tensor& tokens);
  at::Tensor logits(const at::Tensor& hidden);

  models::Model& model_;
  nn::PlainRunner runner_;
  at::Device device_;
  nn::KvCache cache_;
  int64_t rows_ = 0;
};

}  // namespace titan::generate
