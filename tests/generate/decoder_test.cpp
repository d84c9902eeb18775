// Generation computes what training computes: logits through the cache against the plain causal
// forward, in every way the tokens can arrive. Each claim has a mutation that shows the bound would
// notice.
#include <gtest/gtest.h>

#include <functional>

#include "generate/decoder.h"
#include "generate/small_models.h"
#include "nn/rotary.h"
#include "ops/rope.h"

namespace titan::generate {
namespace {

using at::Tensor;

constexpr double kBound = 1e-5;

struct Case {
  const char* name;
  models::ModelArgs args;
};

class CachedLogits : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { model_ = small_model(GetParam().args); }

  std::vector<int32_t> tokens(int64_t count, int32_t seed) const {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < count; ++i)
      ids.push_back((seed + static_cast<int32_t>(i * i) * 31) % 258);
    return ids;
  }
  static Tensor as_tensor(std::span<const int32_t> ids) {
    Tensor t = at::empty({1, static_cast<int64_t>(ids.size())}, at::kLong);
    std::copy(ids.begin(), ids.end(), t.mutable_data_ptr<int64_t>());
    return t;
  }
  Tensor project(const Tensor& hidden) { return at::matmul(hidden, model_->output_weight().t()); }

  // [T, vocab] by the forward pass that training uses, with gradients recorded as there.
  Tensor training_logits(const std::vector<int32_t>& ids) {
    nn::PlainRunner runner(at::kFloat);
    return project(model_->hidden(as_tensor(ids), runner)).squeeze(0).detach();
  }

  nn::KvCache empty_cache(int64_t capacity) const {
    nn::KvCache cache;
    const auto& args = GetParam().args;
    for (int64_t i = 0; i < args.num_layers; ++i) {
      // Whatever was in the memory must not matter.
      cache.k.push_back(at::full({1, args.num_kv_heads, capacity, args.head_dim}, 1e4));
      cache.v.push_back(at::full({1, args.num_kv_heads, capacity, args.head_dim}, 1e4));
    }
    return cache;
  }

  // [T, vocab] through the cache, in chunks of these lengths; `between` may change the cache before
  // each chunk but the first.
  Tensor cached_logits(const std::vector<int32_t>& ids, const std::vector<int64_t>& chunks,
                       const std::function<void(nn::KvCache&)>& between = {}) {
    const at::NoGradGuard no_grad;
    nn::PlainRunner runner(at::kFloat);
    nn::KvCache cache = empty_cache(static_cast<int64_t>(ids.size()) + 4);
    std::vector<Tensor> parts;
    int64_t begin = 0;
    for (const int64_t count : chunks) {
      if (begin > 0 && between) between(cache);
      parts.push_back(project(model_->hidden(as_tensor(ids).narrow(1, begin, count), runner, cache))
                          .squeeze(0));
      begin += count;
    }
    return at::cat(parts);
  }

  static double distance(const Tensor& a, const Tensor& b) {
    return (a - b).abs().max().item<double>();
  }

  std::unique_ptr<models::Model> model_;
};

TEST_P(CachedLogits, EqualTrainingAtEveryPositionTokenByToken) {
  const auto ids = tokens(23, 5);
  const Tensor expected = training_logits(ids);
  EXPECT_GT(expected.std().item<double>(), 0.1) << "logits too flat to tell anything";
  EXPECT_LT(distance(cached_logits(ids, std::vector<int64_t>(23, 1)), expected), kBound);
}

TEST_P(CachedLogits, EqualTrainingAtEveryPositionInChunks) {
  const auto ids = tokens(23, 90);
  const Tensor expected = training_logits(ids);
  for (const auto& chunks :
       std::vector<std::vector<int64_t>>{{23}, {7, 5, 1, 10}, {1, 22}, {22, 1}, {2, 1, 1, 19}}) {
    EXPECT_LT(distance(cached_logits(ids, chunks), expected), kBound)
        << testing::PrintToString(chunks);
  }
}

// A key that is missing, and a position that is one too far, are seen.
TEST_P(CachedLogits, AreWrongWithAMutatedCache) {
  const auto ids = tokens(23, 5);
  const Tensor expected = training_logits(ids);
  const auto lose_a_token = [](nn::KvCache& cache) { cache.length -= 1; };
  EXPECT_GT(distance(cached_logits(ids, {12, 11}, lose_a_token), expected), 100 * kBound);
  // Only the keys of the past are turned on by one position.
  const auto& args = GetParam().args;
  const auto tables =
      nn::make_rotary_tables(args.head_dim, 2, args.rope_theta, std::nullopt, at::kCPU)
          .narrow(1, 1);
  const auto shift_keys = [&](nn::KvCache& cache) {
    for (auto& k : cache.k) {
      const Tensor past = k.narrow(2, 0, cache.length);
      const auto row = [&](const Tensor& t) {
        return t.expand({cache.length, t.size(1)}).contiguous();
      };
      const Tensor turned = ops::rope(past.transpose(1, 2), row(tables.cos), row(tables.sin),
                                      args.rope_style == models::RopeStyle::kInterleaved);
      past.copy_(turned.transpose(1, 2));
    }
  };
  EXPECT_GT(distance(cached_logits(ids, {12, 11}, shift_keys), expected), 100 * kBound);
}

// Through the decoder: prompts of four lengths in one batch, then steps; every row against
// training, alone.
double worst_of_batch(models::Model& model, const std::vector<std::vector<int32_t>>& prompts,
                      const std::vector<std::vector<int32_t>>& more,
                      const std::vector<Tensor>& expected) {
  Decoder decoder(model, at::kFloat, at::kCPU);
  double worst = 0;
  const auto compare = [&](const Tensor& logits, int64_t extra) {
    for (size_t row = 0; row < prompts.size(); ++row) {
      const auto position = static_cast<int64_t>(prompts[row].size()) - 1 + extra;
      const auto difference = logits[static_cast<int64_t>(row)] - expected[row][position];
      worst = std::max(worst, difference.abs().max().item<double>());
    }
  };
  const auto steps = static_cast<int64_t>(more[0].size());
  compare(decoder.prefill(prompts, steps), 0);
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<int32_t> next;
    for (const auto& row : more) next.push_back(row[static_cast<size_t>(step)]);
    compare(decoder.step(next), step + 1);
  }
  return worst;
}

TEST_P(CachedLogits, OfAPaddedBatchEqualTraining) {
  std::vector<std::vector<int32_t>> prompts, more;
  std::vector<Tensor> expected;
  for (const auto& [length, seed] :
       std::vector<std::pair<int64_t, int32_t>>{{9, 3}, {1, 77}, {14, 120}, {6, 200}}) {
    prompts.push_back(tokens(length, seed));
    more.push_back(tokens(8, seed + 1));
    auto whole = prompts.back();
    whole.insert(whole.end(), more.back().begin(), more.back().end());
    expected.push_back(training_logits(whole));
  }
  EXPECT_LT(worst_of_batch(*model_, prompts, more, expected), kBound);
  // The mutation: the padding is read as part of the prompt.
  auto as_if_not_padded = prompts;
  for (auto& prompt : as_if_not_padded) prompt.insert(prompt.begin(), 14 - prompt.size(), 0);
  std::vector<Tensor> shifted = expected;
  for (size_t row = 0; row < shifted.size(); ++row) {
    const auto pad = static_cast<int64_t>(as_if_not_padded[row].size() - prompts[row].size());
    shifted[row] = at::cat({at::zeros({pad, expected[row].size(1)}), expected[row]});
  }
  EXPECT_GT(worst_of_batch(*model_, as_if_not_padded, more, shifted), 100 * kBound);
}

TEST_P(CachedLogits, OfTheRowsThatAreKeptDoNotChange) {
  const std::vector<std::vector<int32_t>> prompts{tokens(9, 3), tokens(2, 77), tokens(5, 120)};
  Decoder all(*model_, at::kFloat, at::kCPU), kept(*model_, at::kFloat, at::kCPU);
  all.prefill(prompts, 3);
  kept.prefill(prompts, 3);
  const Tensor expected = all.step(std::vector<int32_t>{10, 20, 30});
  kept.keep_rows(std::vector<int64_t>{0, 2});
  EXPECT_EQ(kept.rows(), 2);
  const Tensor got = kept.step(std::vector<int32_t>{10, 30});
  EXPECT_LT(distance(got[0], expected[0]), kBound);
  EXPECT_LT(distance(got[1], expected[2]), kBound);
  EXPECT_GT(distance(got[1], expected[1]), 100 * kBound);
}

TEST_P(CachedLogits, OfALongPaddedPromptAreReadInChunks) {
  const std::vector<std::vector<int32_t>> prompts{tokens(1100, 3), tokens(700, 77)};
  const Tensor logits = Decoder(*model_, at::kFloat, at::kCPU).prefill(prompts, 1);
  for (const int64_t row : {0, 1}) {
    const Tensor expected = training_logits(prompts[static_cast<size_t>(row)])[-1];
    EXPECT_LT(distance(logits[row], expected), 5 * kBound) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CachedLogits,
                         testing::Values(Case{"Llama3", small_llama3()},
                                         Case{"Qwen3", small_qwen3()}),
                         [](const auto& info) { return info.param.name; });

TEST(Decoder, ComputesInTheDtypeOfItsParameters) {
  const auto args = small_llama3();
  const std::vector<std::vector<int32_t>> prompts{{1, 2, 3, 4, 5}};
  auto wide = small_model(args);
  auto narrow = models::make_model_uninitialized(args, at::kBFloat16, at::kCPU);
  std::vector<Tensor> parameters;
  wide->visit(
      [&](const std::string&, Tensor& p, const nn::Init&) { parameters.push_back(p.detach()); });
  size_t next = 0;
  narrow->visit([&](const std::string&, Tensor& p, const nn::Init&) {
    p = parameters[next++].to(at::kBFloat16);
  });
  const Tensor expected = Decoder(*wide, at::kFloat, at::kCPU).prefill(prompts, 1);
  const Tensor got = Decoder(*narrow, at::kBFloat16, at::kCPU).prefill(prompts, 1);
  EXPECT_EQ(got.scalar_type(), at::kFloat);
  const double error = ((got - expected).norm() / expected.norm()).item<double>();
  EXPECT_LT(error, 0.1);
  EXPECT_GT(error, 1e-4);
}

TEST(Decoder, CacheBytesAreThoseOfTheTensors) {
  const auto args = small_llama3();  // 3 layers, 2 kv heads of 8
  EXPECT_EQ(cache_bytes(args, 5, 100, at::kFloat), 2 * 3 * 2 * 8 * 5 * 100 * 4);
  EXPECT_EQ(cache_bytes(args, 5, 100, at::kBFloat16), 2 * 3 * 2 * 8 * 5 * 100 * 2);
}

}  // namespace
}  // namespace titan::generate
