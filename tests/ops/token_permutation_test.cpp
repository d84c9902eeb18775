#include "ops/token_permutation.h"

#include "ops/mixture.h"

namespace titan::ops {
namespace {

using at::Tensor;

struct Sizes {
  int64_t tokens, top_k, experts, idle;
};
const std::vector<Sizes> kSizes = {{7, 2, 5, 0}, {6, 1, 4, 0}, {5, 3, 3, 0},
                                   {9, 2, 6, 3}, {1, 4, 4, 0}, {0, 2, 3, 0}};

TEST(TokenPermutation, RowsLieByExpertAndThenByToken) {
  const Tensor experts = at::tensor({2, 0, 1, 2, 0, 1}, at::kLong).view({3, 2});
  const Tensor x = at::tensor({10.0f, 11.0f, 12.0f}).view({3, 1});
  const auto [rows, position] = permute_tokens(x, experts);
  EXPECT_TRUE(at::equal(rows.view(-1), at::tensor({10.0f, 12.0f, 11.0f, 12.0f, 10.0f, 11.0f})));
  EXPECT_TRUE(at::equal(position, at::tensor({4, 0, 2, 5, 1, 3}, at::kInt)));
  EXPECT_TRUE(at::equal(count_tokens(experts, 4), at::tensor({2, 2, 2, 0}, at::kLong)));
  const Tensor weights = at::tensor({1, 2, 3, 4, 5, 6}, at::kFloat).view({3, 2});
  EXPECT_TRUE(at::equal(permute_weights(weights, position),
                        at::tensor({2.0f, 5.0f, 3.0f, 6.0f, 1.0f, 4.0f})));
  EXPECT_TRUE(at::equal(unpermute_tokens(rows, position, 2, weights).view(-1),
                        at::tensor({30.0f, 77.0f, 132.0f})));
}

TEST(TokenPermutation, MatchesReferenceInEveryDtype) {
  for (const auto& [dtype, tolerance] : precisions()) {
    for (const auto& [tokens, top_k, count, idle] : kSizes) {
      SCOPED_TRACE(testing::Message()
                   << dtype << " " << tokens << " tokens, " << top_k << " of " << count);
      const int64_t k = top_k;
      const Tensor experts = seeded_experts(tokens, k, count, idle);
      const Function there = [&](const Inputs& in) { return permute_tokens(in[0], experts).rows; };
      const Function plain_there = [&](const Inputs& in) {
        return reference::permute_tokens(in[0], experts).rows;
      };
      const Tensor x = seeded({tokens, 6}, dtype);
      const Result expected = run(plain_there, {x});
      expect_close(run(there, {x}), expected, tolerance, "permute");
      expect_close(run(there, {strided(x)}), expected, tolerance, "permute, strided");

      const Tensor position = permute_tokens(x, experts).position;
      EXPECT_TRUE(at::equal(position, reference::permute_tokens(x, experts).position));
      const Tensor rows = seeded({tokens * k, 6}, dtype, 2);
      const Tensor weights = seeded({tokens, k}, at::promote_types(dtype, at::kFloat), 3);
      const Function back = [&](const Inputs& in) {
        return unpermute_tokens(in[0], position, k, in[1]);
      };
      const Function plain_back = [&](const Inputs& in) {
        return reference::unpermute_tokens(in[0], position, k, in[1]);
      };
      const Result sums = run(plain_back, {rows, weights});
      expect_close(run(back, {rows, weights}), sums, tolerance, "unpermute");
      expect_close(run(back, {strided(rows), strided(weights)}), sums, tolerance,
                   "unpermute, strided");
      const Function sum = [&](const Inputs& in) { return unpermute_tokens(in[0], position, k); };
      const Function plain_sum = [&](const Inputs& in) {
        return reference::unpermute_tokens(in[0], position, k);
      };
      expect_close(run(sum, {rows}), run(plain_sum, {rows}), tolerance, "unpermute, no weights");
    }
  }
}

// Tokens that nothing happens to come back times the sum of their weights.
TEST(TokenPermutation, ThereAndBack) {
  for (const auto& [tokens, top_k, count, idle] : kSizes) {
    const Tensor experts = seeded_experts(tokens, top_k, count, idle);
    const Tensor x = seeded({tokens, 6}, at::kDouble);
    const Tensor weights = seeded({tokens, top_k}, at::kDouble, 3);
    const auto [rows, position] = permute_tokens(x, experts);
    const Tensor expected = x * weights.sum(1, true);
    EXPECT_LE(distance(unpermute_tokens(rows, position, top_k, weights), expected), 1e-14);
    const Tensor scored = rows * permute_weights(weights, position).unsqueeze(1);
    EXPECT_LE(distance(unpermute_tokens(scored, position, top_k), expected), 1e-14);
    EXPECT_TRUE(at::equal(count_tokens(experts, count),
                          at::stack({at::one_hot(experts.reshape(-1), count).sum(0)}).view(-1)));
  }
}

TEST(TokenPermutation, HasTrueGradients) {
  const Tensor experts = seeded_experts(4, 2, 3);
  const Tensor position = permute_tokens(seeded({4, 1}), experts).position;
  expect_true_gradients([&](const Inputs& in) { return permute_tokens(in[0], experts).rows; },
                        {seeded({4, 3}, at::kDouble)});
  expect_true_gradients(
      [&](const Inputs& in) { return unpermute_tokens(in[0], position, 2, in[1]); },
      {seeded({8, 3}, at::kDouble), seeded({4, 2}, at::kDouble, 2)});
  expect_true_gradients([&](const Inputs& in) { return unpermute_tokens(in[0], position, 2); },
                        {seeded({8, 3}, at::kDouble)});
  expect_true_gradients([&](const Inputs& in) { return permute_weights(in[0], position); },
                        {seeded({4, 2}, at::kDouble)});
}

TEST(TokenPermutation, RefusesWhatDoesNotFit) {
  const Tensor experts = seeded_experts(4, 2, 3), rows = seeded({8, 3});
  const Tensor position = permute_tokens(seeded({4, 1}), experts).position;
  EXPECT_ANY_THROW(permute_tokens(seeded({5, 3}), experts));
  EXPECT_ANY_THROW(unpermute_tokens(rows, position, 3));
  EXPECT_ANY_THROW(unpermute_tokens(rows, position, 2, seeded({2, 4})));
  EXPECT_ANY_THROW(unpermute_tokens(seeded({6, 3}), position, 2));
  EXPECT_ANY_THROW(permute_weights(seeded({3, 2}), position));
}

}  // namespace
}  // namespace titan::ops
