// From the logits of one position to a token: temperature, then top-k, then top-p, then one draw.
// Plain C++ on the host, so that every device draws the same token from the same logits. The
// uniform numbers are a function of (seed, row, step): what a prompt gets does not depend on the
// prompts that share its batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace titan::generate {

struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: always the likeliest token
  int64_t top_k = 0;       // only the k likeliest tokens; 0: all
  double top_p = 1;        // of those, the fewest that together reach this share of the probability
  uint64_t seed = 0;
};

// Throws Error for a negative or infinite temperature, a negative top_k, a top_p outside (0, 1].
void check(const SamplingOptions& options);

struct Candidate {
  int32_t id = 0;
  double probability = 0;
};

// The tokens that may be drawn, by rising id, with probabilities that sum to 1. Among equal logits
// at the border of top-k or top-p the lower id stays. Linear in the vocabulary: the whole of it is
// never sorted. Throws Error when a logit is NaN or the largest is infinite.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options);

// In [0, 1), 53 bits, equally distributed over rows and steps.
double uniform(uint64_t seed, uint64_t row, uint64_t step);

// The token for `step` (0: the first new one) of prompt `row`.
int32_t sample(std::span<const float> logits, const SamplingOptions& options, uint64_t row,
               uint64_t step);

}  // namespace titan::generate
