#include "observe/flops.h"

#include <gtest/gtest.h>

namespace titan::observe {
namespace {

// Llama 3 debugmodel: 2048 x 256 embedding, 6 layers of 16 heads of 16, and 6,163,712 parameters.
TransformerSize debug_model() {
  return {.parameters = 6163712,
          .embedding_parameters = 2048 * 256,
          .num_layers = 6,
          .num_heads = 16,
          .head_dim = 16,
          .seq_len = 2048};
}

TEST(Flops, FollowTheFormula) {
  const FlopsPerToken flops = flops_per_token(debug_model());
  EXPECT_EQ(flops.matrices, 33836544.0);
  EXPECT_EQ(flops.attention, 37748736.0);
  EXPECT_EQ(flops.total(), 71585280.0);
}

TEST(Flops, CountTheOutputProjectionOfATiedModel) {
  TransformerSize tied = debug_model();
  tied.parameters -= tied.embedding_parameters;  // the output matrix is the embedding
  tied.tied = true;
  EXPECT_EQ(flops_per_token(tied).total(), flops_per_token(debug_model()).total());
}

TEST(Flops, StayExactForLargeModels) {
  // Llama 3 405B at 8192: 6 * (405,853,388,800 - 128,256 * 16,384) + 12 * 126 * 16,384 * 8,192.
  const TransformerSize size = {.parameters = 405853388800,
                                .embedding_parameters = 2101346304,
                                .num_layers = 126,
                                .num_heads = 128,
                                .head_dim = 128,
                                .seq_len = 8192};
  EXPECT_EQ(flops_per_token(size).total(), 6.0 * 403752042496.0 + 202937204736.0);
}

}  // namespace
}  // namespace titan::observe
