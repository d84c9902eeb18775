#include "ops/partial_attention.h"

#include "ops/attention.h"
#include "ops/checks.h"
#include "ops/document_tiles.h"
#include "ops/partial_attention_kernels.h"

namespace titan::ops {
namespace {

using at::Tensor;

struct PartialShape {
  int64_t batch, heads, kv_heads, queries, keys, head_dim;
};

const std::vector<PartialShape> kPartialShapes = {
    {1, 1, 1, 1, 1, 1}, {2, 4, 2, 3, 17, 8}, {1, 6, 1, 33, 5, 3}, {3, 3, 3, 70, 70, 16}};

Tensor query_of(const PartialShape& s, at::ScalarType dtype) {
  return seeded({s.batch, s.heads, s.queries, s.head_dim}, dtype, 1);
}
Tensor key_of(const PartialShape& s, at::ScalarType dtype, uint64_t seed) {
  return seeded({s.batch, s.kv_heads, s.keys, s.head_dim}, dtype, seed);
}

TEST(PartialAttention, KernelMatchesReferenceForwardAndBackward) {
  for (const auto& [dtype, tolerance] :
       std::vector<Precision>{{at::kDouble, 1e-12}, {at::kFloat, 5e-6}, {at::kBFloat16, 3e-2}}) {
    for (const auto& shape : kPartialShapes) {
      for (const bool causal : {false, true}) {
        if (causal && shape.queries != shape.keys) continue;
        const Tensor q = query_of(shape, dtype), k = key_of(shape, dtype, 2),
                     v = key_of(shape, dtype, 3), grad = seeded(q.sizes(), dtype, 4);
        const Visibility see{.causal = causal};
        ASSERT_NE(attention_kernel(q, shape.keys, false), AttentionKernel::kPlain);
        const auto got = partial_attention(q, k, v, see);
        const auto want = reference::partial_attention(q, k, v, see);
        EXPECT_EQ(got.out.scalar_type(), dtype);
        EXPECT_LE(distance(got.out, want.out), tolerance);
        EXPECT_LE(distance(got.logsumexp, want.logsumexp), tolerance);
        const auto back = partial_attention_backward(grad, q, k, v, want.out, want.logsumexp, see);
        const auto expected =
            reference::partial_attention_backward(grad, q, k, v, want.out, want.logsumexp, see);
        EXPECT_LE(distance(back.v, expected.v), tolerance);
        if (shape.keys == 1) continue;  // alone, a key's score has no effect
        EXPECT_LE(distance(back.q, expected.q), tolerance);
        EXPECT_LE(distance(back.k, expected.k), tolerance);
      }
    }
  }
}

// The reference of the parts against the reference of the whole and the autograd of libtorch.
TEST(PartialAttention, ReferenceMatchesAttention) {
  const PartialShape shape{2, 4, 2, 9, 9, 8};
  const Inputs in = {query_of(shape, at::kDouble), key_of(shape, at::kDouble, 2),
                     key_of(shape, at::kDouble, 3)};
  const auto want = run([](const Inputs& i) { return reference::attention(i[0], i[1], i[2]); }, in);
  const Visibility see{.causal = true};
  const auto got = reference::partial_attention(in[0], in[1], in[2], see);
  EXPECT_LE(distance(got.out, want.output), 1e-13);
  const auto back =
      reference::partial_attention_backward(seeded(want.output.sizes(), at::kDouble, 99), in[0],
                                            in[1], in[2], got.out, got.logsumexp, see);
  EXPECT_LE(distance(back.q, want.gradients[0]), 1e-13);
  EXPECT_LE(distance(back.k, want.gradients[1]), 1e-13);
  EXPECT_LE(distance(back.v, want.gradients[2]), 1e-13);
}

TEST(PartialAttention, PartsMergeToTheWhole) {
  for (const auto& [dtype, tolerance] :
       std::vector<Precision>{{at::kDouble, 1e-13}, {at::kFloat, 2e-6}}) {
    const PartialShape shape{2, 4, 2, 5, 24, 8};
    // Scores far apart: an average without weights would be far off.
    const Tensor q = query_of(shape, dtype) * 4, k = key_of(shape, dtype, 2),
                 v = key_of(shape, dtype, 3);
    const auto want = partial_attention(q, k, v, {});
    const auto part = [&](int64_t first, int64_t count) {
      return partial_attention(q, k.narrow(2, first, count), v.narrow(2, first, count), {});
    };
    auto [out, logsumexp] = part(0, 7);
    merge_partial_attention(out, logsumexp, part(7, 1));
    merge_partial_attention(out, logsumexp, part(8, 16));
    EXPECT_LE(distance(out, want.out), tolerance);
    EXPECT_LE(distance(logsumexp, want.logsumexp), tolerance);
    EXPECT_GT(distance((part(0, 7).out + part(7, 1).out + part(8, 16).out) / 3, want.out), 1e-2);
  }
}

// Ids of the queries and of the keys, [2, T] and [2, S]; with `ascending` the CPU's tiles apply.
Visibility packed(int64_t num_queries, int64_t num_keys, bool causal, bool ascending) {
  const auto ids = [&](int64_t count, int64_t length) {
    const Tensor column = at::arange(count, at::kLong);
    const Tensor rows = at::stack({column.floor_divide(length), column.floor_divide(length + 2)});
    return ascending ? rows : rows.flip(1);
  };
  Visibility see{.causal = causal, .query_documents = ids(num_queries, 5)};
  see.key_documents = causal ? see.query_documents : ids(num_keys, 3) + 1;
  return see;
}

TEST(PartialAttention, DocumentsMatchReferenceForwardAndBackward) {
  for (const auto& [dtype, tolerance] :
       std::vector<Precision>{{at::kDouble, 1e-12}, {at::kFloat, 5e-6}, {at::kBFloat16, 3e-2}}) {
    for (const auto& shape : std::vector<PartialShape>{{2, 4, 2, 17, 9, 8}, {2, 3, 3, 33, 33, 6}}) {
      for (const bool causal : {false, true}) {
        for (const bool ascending : {true, false}) {
          if (causal && shape.queries != shape.keys) continue;
          const Tensor q = query_of(shape, dtype), k = key_of(shape, dtype, 2),
                       v = key_of(shape, dtype, 3), grad = seeded(q.sizes(), dtype, 4);
          const Visibility see = packed(shape.queries, shape.keys, causal, ascending);
          EXPECT_EQ(document_tiles(see).has_value(), ascending);
          const auto got = partial_attention(q, k, v, see);
          const auto want = reference::partial_attention(q, k, v, see);
          // What a row that sees nothing gives is not said, but for its weight.
          const Tensor seen = want.logsumexp.gt(kUnseen / 2);
          if (causal) {
            EXPECT_TRUE(seen.all().item<bool>());
          }
          EXPECT_TRUE(at::equal(got.logsumexp.gt(kUnseen / 2), seen));
          EXPECT_LE(distance(got.out * seen.unsqueeze(-1), want.out * seen.unsqueeze(-1)),
                    tolerance);
          EXPECT_LE(distance(got.logsumexp * seen, want.logsumexp * seen), tolerance);
          // The whole softmax has keys that every row sees.
          const auto whole = reference::partial_attention(q, k, v, {});
          const auto& out = causal ? want.out : whole.out;
          const auto& logsumexp = causal ? want.logsumexp : whole.logsumexp;
          const auto back = partial_attention_backward(grad, q, k, v, out, logsumexp, see);
          const auto expected =
              reference::partial_attention_backward(grad, q, k, v, out, logsumexp, see);
          EXPECT_LE(distance(back.q, expected.q), tolerance);
          EXPECT_LE(distance(back.k, expected.k), tolerance);
          EXPECT_LE(distance(back.v, expected.v), tolerance);
        }
      }
    }
  }
}

TEST(PartialAttention, DocumentTilesAreTheScoresThatAreSeen) {
  const Visibility see = packed(12, 12, false, true);
  const Tensor visible = see.query_documents.unsqueeze(2).eq(see.key_documents.unsqueeze(1));
  Tensor covered = at::zeros({2, 12, 12}, at::kLong);
  const auto tiles = document_tiles(see);
  ASSERT_TRUE(tiles);
  for (const auto& tile : *tiles) {
    covered[tile.sample]
        .narrow(0, tile.first_query, tile.num_queries)
        .narrow(1, tile.first_key, tile.num_keys)
        .add_(1);
  }
  EXPECT_TRUE(at::equal(covered, visible.to(at::kLong)));
  Visibility other = packed(12, 12, true, true);
  other.key_documents = other.key_documents + 1;
  EXPECT_FALSE(document_tiles(other));  // a causal part of other keys
}

TEST(PartialAttention, RowsThatSeeNothingAreFiniteAndWeighNothing) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const PartialShape shape{2, 2, 1, 6, 6, 8};
    const Tensor q = query_of(shape, dtype), k = key_of(shape, dtype, 2),
                 v = key_of(shape, dtype, 3), grad = seeded(q.sizes(), dtype, 4);
    const Tensor ones = at::ones({2, 6}, at::kLong);
    const Visibility none{.query_documents = ones, .key_documents = ones + 1};
    const auto hidden = partial_attention(q, k, v, none);
    EXPECT_TRUE(hidden.out.isfinite().all().item<bool>());
    EXPECT_TRUE(hidden.logsumexp.isfinite().all().item<bool>());
    const auto seen = partial_attention(q, k, v, {});
    const Tensor wide = seen.out.to(seen.logsumexp.scalar_type());
    Tensor out = wide.clone(), logsumexp = seen.logsumexp.clone();
    merge_partial_attention(out, logsumexp, hidden);
    EXPECT_TRUE(at::equal(out, wide));
    EXPECT_TRUE(at::equal(logsumexp, seen.logsumexp));
    out = hidden.out.to(wide.scalar_type());  // and the other way round
    logsumexp = hidden.logsumexp.clone();
    merge_partial_attention(out, logsumexp, seen);
    EXPECT_TRUE(at::equal(out, wide));
    const auto back = partial_attention_backward(grad, q, k, v, seen.out, seen.logsumexp, none);
    for (const auto& gradient : {back.q, back.k, back.v}) {
      EXPECT_EQ(gradient.to(at::kDouble).abs().max().item<double>(), 0);
    }
  }
}

}  // namespace
}  // namespace titan::ops
