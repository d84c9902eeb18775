#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "generate/sampling.h"

namespace titan::generate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<int32_t> ids_of(const std::vector<Candidate>& candidates) {
  std::vector<int32_t> ids;
  for (const auto& candidate : candidates) ids.push_back(candidate.id);
  return ids;
}

// Logits of these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

const std::vector<double> kShares{0.05, 0.4, 0.1, 0.25, 0.2};

TEST(Candidates, OfTopKAreTheLikeliest) {
  const auto logits = logits_of(kShares);
  EXPECT_THAT(ids_of(candidates(logits, {.top_k = 1})), ElementsAre(1));
  EXPECT_THAT(ids_of(candidates(logits, {.top_k = 3})), ElementsAre(1, 3, 4));
  EXPECT_THAT(ids_of(candidates(logits, {.top_k = 0})), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(ids_of(candidates(logits, {.top_k = 99})), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_NEAR(candidates(logits, {.top_k = 3})[0].probability, 0.4 / 0.85, 1e-6);
}

TEST(Candidates, OfTopPAreTheFewestThatReachIt) {
  const auto logits = logits_of(kShares);
  EXPECT_THAT(ids_of(candidates(logits, {.top_p = 0.01})), ElementsAre(1));
  EXPECT_THAT(ids_of(candidates(logits, {.top_p = 0.39})), ElementsAre(1));
  EXPECT_THAT(ids_of(candidates(logits, {.top_p = 0.41})), ElementsAre(1, 3));
  EXPECT_THAT(ids_of(candidates(logits, {.top_p = 0.84})), ElementsAre(1, 3, 4));
  EXPECT_THAT(ids_of(candidates(logits, {.top_p = 0.96})), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_NEAR(candidates(logits, {.top_p = 0.41})[1].probability, 0.25 / 0.65, 1e-6);
}

// 0.4, 0.25, 0.2 of 0.85: the share is of what top-k has left. Of the whole, 0.7 would need all
// three.
TEST(Candidates, OfTopPAreTakenFromThoseOfTopK) {
  EXPECT_THAT(ids_of(candidates(logits_of(kShares), {.top_k = 3, .top_p = 0.7})),
              ElementsAre(1, 3));
  EXPECT_THAT(ids_of(candidates(logits_of(kShares), {.top_p = 0.7})), ElementsAre(1, 3, 4));
}

TEST(Candidates, FollowTheTemperature) {
  const auto logits = logits_of({0.2, 0.8});
  EXPECT_NEAR(candidates(logits, {.temperature = 0.5})[1].probability, 0.64 / 0.68, 1e-6);
  EXPECT_NEAR(candidates(logits, {.temperature = 2})[1].probability,
              std::sqrt(.8) / (std::sqrt(.8) + std::sqrt(.2)), 1e-6);
  // Before top-p, which then keeps less.
  EXPECT_THAT(ids_of(candidates(logits, {.temperature = 0.5, .top_p = 0.9})), ElementsAre(1));
  EXPECT_THAT(ids_of(candidates(logits, {.temperature = 1, .top_p = 0.9})), ElementsAre(0, 1));
  EXPECT_THAT(ids_of(candidates(logits, {.temperature = 1e-300, .top_p = 1})), ElementsAre(0, 1));
  EXPECT_EQ(candidates(logits, {.temperature = 1e-300})[1].probability, 1);
}

TEST(Candidates, OfEqualLogitsAreTheLowerIds) {
  const std::vector<float> flat(6, 0.5F);
  EXPECT_THAT(ids_of(candidates(flat, {.temperature = 0})), ElementsAre(0));
  EXPECT_THAT(ids_of(candidates(flat, {.top_k = 2})), ElementsAre(0, 1));
  EXPECT_THAT(ids_of(candidates(flat, {.top_p = 0.4})), ElementsAre(0, 1, 2));
}

TEST(Candidates, RefuseLogitsThatAreNotFinite) {
  for (const float bad : {NAN, INFINITY}) {
    EXPECT_THAT(
        [&] {
          candidates(std::vector<float>{0, bad, 1}, {});
        },
        ThrowsMessage<Error>(HasSubstr("not finite")));
    EXPECT_THAT(
        [&] {
          candidates(std::vector<float>{0, bad, 1}, {.temperature = 0});
        },
        ThrowsMessage<Error>(HasSubstr("not finite")));
  }
  EXPECT_THAT(ids_of(candidates(std::vector<float>{-INFINITY, 0, 1}, {.top_p = 0.99})),
              ElementsAre(1, 2));
}

// Pearson's statistic of `draws` samples against the shares; 4 degrees of freedom: above 23.5 once
// in 10,000 seeds.
double chi_square(const SamplingOptions& options, const std::vector<double>& shares, int64_t rows,
                  int64_t steps) {
  const auto logits = logits_of(kShares);
  std::vector<double> counts(shares.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t step = 0; step < steps; ++step) {
      ++counts[static_cast<size_t>(
          sample(logits, options, static_cast<uint64_t>(row), static_cast<uint64_t>(step)))];
    }
  }
  double sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double expected = shares[i] * static_cast<double>(rows * steps);
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0);
    } else {
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return sum;
}

TEST(Sample, DrawsTheModelsDistribution) {
  EXPECT_LT(chi_square({.seed = 1}, kShares, 1, 40000), 23.5);  // along one text
  EXPECT_LT(chi_square({.seed = 2}, kShares, 40000, 1), 23.5);  // over prompts
  EXPECT_LT(chi_square({.seed = 3}, kShares, 200, 200), 23.5);
  const double total = 0.4 + 0.25 + 0.2;
  EXPECT_LT(
      chi_square({.top_k = 3, .seed = 4}, {0, 0.4 / total, 0, 0.25 / total, 0.2 / total}, 200, 200),
      23.5);
  // The bound notices one percent moved from the likeliest token to the next.
  EXPECT_GT(chi_square({.seed = 1}, {0.05, 0.38, 0.1, 0.27, 0.2}, 1, 40000), 23.5);
}

TEST(Sample, TakesTheLikeliestAtTemperatureZero) {
  for (uint64_t step = 0; step < 100; ++step) {
    EXPECT_EQ(sample(logits_of(kShares), {.temperature = 0, .top_k = 3, .seed = 9}, 0, step), 1);
  }
}

TEST(Uniform, IsAFunctionOfSeedRowAndStep) {
  EXPECT_EQ(uniform(1, 2, 3), uniform(1, 2, 3));
  EXPECT_NE(uniform(1, 2, 3), uniform(2, 2, 3));
  EXPECT_NE(uniform(1, 2, 3), uniform(1, 3, 2));
  double sum = 0, product = 0;
  constexpr int kCount = 20000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double u = uniform(5, 0, i), v = uniform(5, 1, i);
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
    product += (u - 0.5) * (v - 0.5);
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.01);
  EXPECT_NEAR(product / kCount, 0, 0.003) << "two rows are drawn together";
}

TEST(SamplingOptions, OutOfRangeAreRefusedWithTheirValue) {
  const auto message = [](const SamplingOptions& options, const char* part) {
    EXPECT_THAT([&] { check(options); }, ThrowsMessage<Error>(HasSubstr(part)));
  };
  message({.temperature = -0.5}, "temperature is -0.5");
  message({.temperature = NAN}, "temperature is nan");
  message({.temperature = INFINITY}, "temperature is inf");
  message({.top_k = -1}, "top_k is -1");
  message({.top_p = 0}, "top_p is 0");
  message({.top_p = 1.5}, "top_p is 1.5");
  message({.top_p = NAN}, "top_p is nan");
  EXPECT_NO_THROW(check(SamplingOptions{.temperature = 0, .top_k = 0, .top_p = 1}));
}

}  // namespace
}  // namespace titan::generate
