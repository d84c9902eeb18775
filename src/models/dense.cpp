#include "models/dense.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "nn/embedding.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace titan::models {
namespace {

using at::Tensor;

constexpr nn::Init kOnes{.kind = nn::Init::Kind::kOnes};

nn::Init normal(double std) { return {.std = std, .bound = 2}; }

// Output projections start as a normal cut at three standard deviations of dim^-1/2.
nn::Init output_init(const ModelArgs& args) {
  const double std = 1 / std::sqrt(static_cast<double>(args.dim));
  return {.std = std, .bound = 3 * std};
}

nn::AttentionSizes attention_sizes(const ModelArgs& args) {
  return {args.num_heads, args.num_kv_heads, args.head_dim, args.norm_eps,
          args.rope_style == RopeStyle::kInterleaved};
}

// Weights that are read as one matrix are in float8 together or not at all.
ops::Float8Products float8_products(const nn::BlockRunner& runner, const std::string& prefix,
                                    std::initializer_list<const char*> into, const char* out_of) {
  ops::Float8Products products{.into = runner.float8(prefix + *into.begin()),
                               .out_of = runner.float8(prefix + out_of)};
  for (const char* name : into) {
    if (!runner.float8(prefix + name)) products.into.reset();
  }
  return products;
}

Tensor block_forward(const DenseBlock& block, int64_t layer, const ModelArgs& args, const Tensor& x,
                     nn::BlockRunner& runner, const nn::RotaryTables& rotary,
                     const nn::CacheView& view) {
  const nn::Axes& axes = runner.axes();
  const std::string prefix = "layers." + std::to_string(layer);
  const Tensor h =
      nn::attention_half(runner.parameter(block.attention_norm), block.attention.with(runner),
                         attention_sizes(args), x, rotary, axes, view,
                         float8_products(runner, prefix + ".attention.", {"wq", "wk", "wv"}, "wo"));
  return nn::feed_forward_half(
      runner.parameter(block.ffn_norm), args.norm_eps, block.feed_forward.with(runner), h, axes,
      float8_products(runner, prefix + ".feed_forward.", {"w1", "w3"}, "w2"));
}

// [B, 1, T, length + T]: a token sees itself and what came before it, except left padding. Padding
// sees itself only, so that its rows stay finite.
Tensor cache_mask(const nn::KvCache& cache, int64_t count, at::Device device) {
  if (!cache.padded && (cache.length == 0 || count == 1)) return {};
  const Tensor columns =
      at::arange(cache.length + count, at::TensorOptions(at::kLong).device(device));
  const Tensor rows = columns.narrow(0, cache.length, count).unsqueeze(1);
  const Tensor causal = columns.unsqueeze(0) <= rows;
  if (!cache.padded) return causal.view({1, 1, count, cache.length + count});
  const Tensor real = columns.view({1, 1, -1}) >= cache.padding.view({-1, 1, 1});
  return causal.logical_and(real).logical_or(columns.unsqueeze(0) == rows).unsqueeze(1);
}

}  // namespace

void DenseModel::visit(const ParameterVisitor& visitor) {
  // A tied output of a part without the embedding is a copy of the embedding.
  if (part_.embedding || (part_.output && args_.tied)) {
    visitor("tok_embeddings.weight", tok_embeddings_,
            args_.tied ? output_init(args_) : nn::Init{.std = 1});
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto layer = static_cast<size_t>(part_.first_layer) + i;
    const std::string at = "layers." + std::to_string(layer) + ".";
    // Projections into the residual stream start smaller the deeper they are.
    const nn::Init into_residual = normal(0.02 / std::sqrt(2.0 * static_cast<double>(layer + 1)));
    auto& [attention_norm, ffn_norm, attention, feed_forward] = blocks_[i];
    visitor(at + "attention.wq.weight", attention.wq, normal(0.02));
    visitor(at + "attention.wk.weight", attention.wk, normal(0.02));
    visitor(at + "attention.wv.weight", attention.wv, normal(0.02));
    visitor(at + "attention.wo.weight", attention.wo, into_residual);
    if (args_.qk_norm) {
      visitor(at + "attention.q_norm.weight", attention.q_norm, kOnes);
      visitor(at + "attention.k_norm.weight", attention.k_norm, kOnes);
    }
    visitor(at + "feed_forward.w1.weight", feed_forward.w1, normal(0.02));
    visitor(at + "feed_forward.w2.weight", feed_forward.w2, into_residual);
    visitor(at + "feed_forward.w3.weight", feed_forward.w3, into_residual);
    visitor(at + "attention_norm.weight", attention_norm, kOnes);
    visitor(at + "ffn_norm.weight", ffn_norm, kOnes);
  }
  if (part_.norm) visitor("norm.weight", norm_, kOnes);
  if (part_.output && !args_.tied) visitor("output.weight", output_, output_init(args_));
}

const nn::RotaryTables& DenseModel::rotary(int64_t positions, at::Device device,
                                           at::ScalarType compute_dtype) {
  const auto dtype = at::promote_types(compute_dtype, at::kFloat);
  if (!rotary_.cos.defined() || rotary_.cos.size(0) < positions || rotary_.cos.device() != device ||
      rotary_.cos.scalar_type() != dtype) {
    std::optional<nn::FrequencyScaling> scaling;
    if (args_.rope_scaling) {
      const auto& s = *args_.rope_scaling;
      scaling = {s.factor, s.low_freq_factor, s.high_freq_factor, s.original_max_positions};
    }
    const auto tables =
        nn::make_rotary_tables(args_.head_dim, std::max(positions, args_.max_seq_len),
                               args_.rope_theta, scaling, at::kCPU, dtype);
    const bool interleaved = args_.rope_style == RopeStyle::kInterleaved;
    rotary_ = {ops::rotary_table(tables.cos, interleaved, device),
               ops::rotary_table(tables.sin, interleaved, device)};
  }
  return rotary_;
}

Tensor DenseModel::run_blocks(const Tensor& input, nn::BlockRunner& runner,
                              const nn::RotaryTables& rotary, const nn::CacheView& view) {
  Tensor x = input;
  if (part_.embedding) {
    x = nn::embedding(runner.table(tok_embeddings_), input, args_.vocab_size, runner.axes().tp)
            .to(runner.compute_dtype());
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    nn::CacheView block_view = view;
    block_view.layer = static_cast<int64_t>(i);
    x = runner.run(part_.first_layer + static_cast<int64_t>(i), x,
                   [this, i, &runner, rotary, block_view](const Tensor& block_input) {
                     return block_forward(blocks_[i], part_.first_layer + static_cast<int64_t>(i),
                                          args_, block_input, runner, rotary, block_view);
                   });
  }
  return part_.norm ? ops::rms_norm(x, runner.parameter(norm_), args_.norm_eps) : x;
}

Tensor DenseModel::hidden(const Tensor& x, nn::BlockRunner& runner, const nn::TokenPlaces& places) {
  // Between parts the tensor-parallel ranks split the sequence.
  const int64_t count = x.size(1) * (part_.embedding ? 1 : runner.axes().tp.size());
  const int64_t needed = count * runner.axes().context.group.size();
  const auto& tables = rotary(needed, x.device(), runner.compute_dtype());
  return run_blocks(x, runner, tables.rows(places.positions, count),
                    {.documents = places.documents});
}

Tensor DenseModel::hidden(const Tensor& tokens, nn::BlockRunner& runner, nn::KvCache& cache) {
  const int64_t count = tokens.size(1);
  TITAN_CHECK(cache.length + count <= cache.capacity(), "a cache of {} tokens is asked to hold {}",
              cache.capacity(), cache.length + count);
  const auto& tables = rotary(cache.capacity(), tokens.device(), runner.compute_dtype());
  nn::RotaryTables rows = tables.narrow(cache.length, count);
  if (cache.padded) {
    const Tensor columns = at::arange(cache.length, cache.length + count, cache.padding.options());
    rows = tables.gather((columns.unsqueeze(0) - cache.padding.unsqueeze(1)).clamp_min(0));
  }
  const Tensor x = run_blocks(tokens, runner, rows,
                              {.cache = &cache, .mask = cache_mask(cache, count, tokens.device())});
  cache.length += count;
  return x;
}

}  // namespace titan::models
