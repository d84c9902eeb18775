#include "generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace titan::generate {
namespace {

// SplitMix64's finaliser (Steele, Lea, Flood 2014): every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

int32_t likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void check_finite(std::span<const float> logits) {
  float largest = -INFINITY;
  bool has_nan = false;
  for (const float logit : logits) {
    has_nan |= std::isnan(logit);
    largest = std::max(largest, logit);
  }
  if (has_nan || std::isinf(largest)) {
    throw Error(
        "[generate] the model's logits are not finite — the run that made this checkpoint has "
        "diverged, or --dtype "
        "is too narrow (try float32)");
  }
}

// The ids of the k largest logits, in no order.
std::vector<int32_t> take_top_k(std::span<const float> logits, int64_t k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (k <= 0 || k >= static_cast<int64_t>(ids.size())) return ids;
  std::nth_element(ids.begin(), ids.begin() + (k - 1), ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  ids.resize(static_cast<size_t>(k));
  return ids;
}

// Keeps the fewest likeliest that reach `share` of the sum: a heap gives them one by one.
void take_top_p(std::vector<Candidate>& all, double share) {
  const auto less_likely = [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability < b.probability : a.id > b.id;
  };
  double total = 0;
  for (const auto& candidate : all) total += candidate.probability;
  std::make_heap(all.begin(), all.end(), less_likely);
  double reached = 0;
  auto heap_end = all.end();
  while (heap_end != all.begin() && reached < share * total) {
    std::pop_heap(all.begin(), heap_end, less_likely);
    reached += (--heap_end)->probability;
  }
  all.erase(all.begin(), heap_end);
}

}  // namespace

void check(const SamplingOptions& options) {
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    throw Error("[generate] temperature is {} — it must be 0 (always the likeliest token) or more",
                options.temperature);
  }
  if (options.top_k < 0) {
    throw Error(
        "[generate] top_k is {} — it must be 0 (all tokens) or the number of tokens to choose from",
        options.top_k);
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw Error("[generate] top_p is {} — it must be above 0 and at most 1 (all tokens)",
                options.top_p);
  }
}

std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options) {
  TITAN_CHECK(!logits.empty(), "no logits");
  check_finite(logits);
  if (options.temperature == 0) return {{likeliest(logits), 1}};
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<Candidate> kept;
  for (const int32_t id : take_top_k(logits, options.top_k)) {
    kept.push_back(
        {id, std::exp((logits[static_cast<size_t>(id)] - largest) / options.temperature)});
  }
  if (options.top_p < 1) take_top_p(kept, options.top_p);
  std::sort(kept.begin(), kept.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  double total = 0;
  for (const auto& candidate : kept) total += candidate.probability;
  for (auto& candidate : kept) candidate.probability /= total;
  return kept;
}

double uniform(uint64_t seed, uint64_t row, uint64_t step) {
  const uint64_t bits = mix(mix(mix(seed) ^ row) ^ step);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

int32_t sample(std::span<const float> logits, const SamplingOptions& options, uint64_t row,
               uint64_t step) {
  const auto kept = candidates(logits, options);
  const double target = uniform(options.seed, row, step);
  double reached = 0;
  int32_t chosen = kept.front().id;
  for (const auto& [id, probability] : kept) {
    if (probability == 0) continue;
    chosen = id;  // the last one with any probability catches what rounding leaves
    reached += probability;
    if (reached > target) break;
  }
  return chosen;
}

}  // namespace titan::generate
