#include "nn/context_attention.h"

#include <gmock/gmock.h>

#include <map>

#include "base/error.h"
#include "comm/thread_world.h"
#include "nn/attention_pieces.h"
#include "ops/attention.h"
#include "ops/checks.h"
#include "ops/recompute.h"

namespace titan::nn {
namespace {

using at::Tensor;
using ops::distance;
using ops::seeded;

struct Case {
  int64_t size;
  ContextMethod method = ContextMethod::kAllGather;
  bool head_tail = true;
  at::ScalarType dtype = at::kDouble;
  int64_t batch = 3, heads = 4, kv_heads = 2, tokens = 24, head_dim = 8;
  bool packed = false;  // documents

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << "cp " << c.size << " method " << static_cast<int>(c.method) << " head_tail "
               << c.head_tail << " " << c.dtype << " heads " << c.heads << "/" << c.kv_heads
               << " packed " << c.packed;
  }
};

// Output and gradients of the whole sequence.
struct Whole {
  Tensor out;
  std::vector<Tensor> gradients;  // q, k, v
  std::vector<std::map<std::pair<std::string, std::string>, comm::Traffic::Sum>> traffic;
};

std::vector<Tensor> inputs_of(const Case& c) {
  return {seeded({c.batch, c.heads, c.tokens, c.head_dim}, c.dtype, 1),
          seeded({c.batch, c.kv_heads, c.tokens, c.head_dim}, c.dtype, 2),
          seeded({c.batch, c.kv_heads, c.tokens, c.head_dim}, c.dtype, 3),
          seeded({c.batch, c.heads, c.tokens, c.head_dim}, c.dtype, 4)};
}

// Sample 0: boundaries inside chunks. Sample 1: the last token alone, so that the blocks of other
// ranks are hidden from it and from all but its own. Others: one document.
std::optional<Tensor> documents_of(const Case& c) {
  if (!c.packed) return std::nullopt;
  Tensor documents = at::zeros({c.batch, c.tokens}, at::kLong);
  for (const int64_t start : {1, 7, 8, 17}) {
    documents[0].narrow(0, start, c.tokens - start).add_(1);
  }
  if (c.batch > 1) documents[1].narrow(0, c.tokens - 1, 1).fill_(5);
  return documents;
}

using Attend = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&,
                                    const ContextParallel&, const std::optional<Tensor>&)>;

Whole run_ranks(const Case& c, const Attend& attend = context_attention) {
  const auto whole = inputs_of(c);
  const auto documents = documents_of(c);
  const auto count = static_cast<size_t>(c.size);
  std::vector<std::vector<Tensor>> parts(4, std::vector<Tensor>(count));
  Whole result;
  result.traffic.resize(count);
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < c.size; ++rank) ranks.push_back(rank);
  const comm::ThreadWorld world(c.size);
  world.run([&](int64_t rank) {
    auto progress = std::make_shared<comm::RankContext>();
    const ContextParallel context{world.maker(rank, progress)("cp", "cp", ranks), c.method,
                                  c.head_tail};
    const auto part = [&](size_t i) {
      return shard_sequence(whole[i], 2, c.size, rank, c.head_tail).clone();
    };
    std::vector<Tensor> leaves;
    for (size_t i = 0; i < 3; ++i) leaves.push_back(part(i).set_requires_grad(true));
    const Tensor out = attend(leaves[0], leaves[1], leaves[2], context, documents);
    out.backward(part(3));
    const auto index = static_cast<size_t>(rank);
    parts[0][index] = out.detach();
    for (size_t i = 0; i < 3; ++i) parts[i + 1][index] = leaves[i].grad();
    result.traffic[index] = progress->traffic.sums();
  });
  result.out = join_sequence(parts[0], 2, c.head_tail);
  for (size_t i = 1; i < 4; ++i) {
    result.gradients.push_back(join_sequence(parts[i], 2, c.head_tail));
  }
  return result;
}

// In one process, plain maths. `mask` replaces the mask of the case; `weight` the gradient.
Whole run_alone(const Case& c, const std::optional<Tensor>& mask = std::nullopt,
                const std::optional<Tensor>& weight = std::nullopt) {
  const auto whole = inputs_of(c);
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < 3; ++i) leaves.push_back(whole[i].clone().set_requires_grad(true));
  const auto documents = documents_of(c);
  const auto visible = mask        ? mask
                       : documents ? std::optional<Tensor>(document_mask(*documents))
                                   : std::nullopt;
  const Tensor out = ops::reference::attention(leaves[0], leaves[1], leaves[2], visible);
  out.backward(weight.value_or(whole[3]));
  Whole result{out.detach(), {}, {}};
  for (const auto& leaf : leaves) result.gradients.push_back(leaf.grad());
  return result;
}

double farthest(const Whole& a, const Whole& b) {
  double most = distance(a.out, b.out);
  for (size_t i = 0; i < 3; ++i) most = std::max(most, distance(a.gradients[i], b.gradients[i]));
  return most;
}

const std::vector<ContextMethod> kMethods = {ContextMethod::kAllGather, ContextMethod::kRing,
                                             ContextMethod::kUlysses};

double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-11 : dtype == at::kFloat ? 1e-6 : 2e-2;
}

// The cases of a method: 12 heads so that Ulysses can deal them to 2, 3 and 4 ranks.
std::vector<Case> cases(ContextMethod method) {
  std::vector<Case> all;
  for (const int64_t size : {1, 2, 3, 4}) {
    for (const bool head_tail : {true, false}) {
      for (const bool packed : {false, true}) {
        Case c{.size = size, .method = method, .head_tail = head_tail, .packed = packed};
        c.heads = 12;
        c.kv_heads = 4;
        all.push_back(c);
      }
    }
  }
  return all;
}

TEST(SequenceParts, HeadTailDealsTheFirstAndLastChunks) {
  const auto positions = [](int64_t rank, bool head_tail) {
    const Tensor p = context_positions(12, 3, rank, head_tail, at::kCPU);
    return std::vector<int64_t>(p.data_ptr<int64_t>(), p.data_ptr<int64_t>() + p.numel());
  };
  EXPECT_THAT(positions(0, true), testing::ElementsAre(0, 1, 10, 11));
  EXPECT_THAT(positions(1, true), testing::ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(positions(2, true), testing::ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(positions(1, false), testing::ElementsAre(4, 5, 6, 7));
}

TEST(SequenceParts, JoinUndoesShard) {
  const Tensor x = seeded({2, 24, 3});
  for (const int64_t size : {1, 2, 3, 4}) {
    for (const bool head_tail : {true, false}) {
      std::vector<Tensor> parts;
      for (int64_t rank = 0; rank < size; ++rank) {
        parts.push_back(shard_sequence(x, 1, size, rank, head_tail));
        const Tensor positions = context_positions(24, size, rank, head_tail, at::kCPU);
        EXPECT_TRUE(at::equal(parts.back(), x.index_select(1, positions)));
      }
      EXPECT_TRUE(at::equal(join_sequence(parts, 1, head_tail), x));
    }
  }
}

TEST(SequenceParts, PositionsRestartInEveryDocument) {
  const Tensor documents = at::tensor({4, 4, 4, 9, 4, 4, 0, 0, 0, 0}).to(at::kLong).view({2, 5});
  const Tensor want = at::tensor({0, 1, 2, 0, 0, 0, 0, 1, 2, 3}).to(at::kLong).view({2, 5});
  EXPECT_TRUE(at::equal(document_positions(documents), want)) << document_positions(documents);
  EXPECT_TRUE(at::equal(document_positions(documents.narrow(1, 0, 1)), want.narrow(1, 0, 1)));
}

TEST(ContextAttention, EqualsOneProcessInEveryLayout) {
  for (const auto method : kMethods) {
    for (Case c : cases(method)) {
      for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
        c.dtype = dtype;
        SCOPED_TRACE(testing::Message() << c);
        EXPECT_LE(farthest(run_ranks(c), run_alone(c)), tolerance_of(dtype));
      }
    }
  }
}

TEST(ContextAttention, TakesAnyGroupingOfHeads) {
  for (const auto method : kMethods) {
    for (const auto& [heads, kv_heads] :
         std::vector<std::pair<int64_t, int64_t>>{{6, 6}, {6, 1}, {6, 2}, {6, 3}, {12, 4}}) {
      for (const bool packed : {false, true}) {
        Case c{.size = 3, .method = method, .packed = packed};
        c.heads = heads;
        c.kv_heads = kv_heads;
        c.batch = 2;
        SCOPED_TRACE(testing::Message() << c);
        EXPECT_LE(farthest(run_ranks(c), run_alone(c)), 1e-11);
      }
    }
  }
}

// The comparison would notice a block of keys that is lost between two ranks, in the output and in
// each gradient.
TEST(ContextAttention, ALostBlockOfKeysIsNoticed) {
  for (const auto method : kMethods) {
    const Case c{.size = 4, .method = method};
    const auto got = run_ranks(c);
    EXPECT_LE(farthest(got, run_alone(c)), 1e-11);
    const int64_t chunk = c.tokens / (2 * c.size);
    for (const int64_t query_chunk : {1, 6}) {
      Tensor mask = at::ones({c.tokens, c.tokens}, at::kBool).tril();
      mask.narrow(0, query_chunk * chunk, chunk).narrow(1, 0, chunk).fill_(false);
      const auto broken = run_alone(c, mask.view({1, 1, c.tokens, c.tokens}));
      EXPECT_GT(distance(got.out, broken.out), 1e-3);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_GT(distance(got.gradients[i], broken.gradients[i]), 1e-3) << i;
      }
    }
  }
}

// … and gradients of keys and values that one rank does not send home.
TEST(ContextAttention, GradientsOfOneRankThatStayAwayAreNoticed) {
  for (const auto method : kMethods) {
    const Case c{.size = 4, .method = method};
    const auto got = run_ranks(c);
    for (int64_t rank = 0; rank < c.size; ++rank) {
      const Tensor positions = context_positions(c.tokens, c.size, rank, true, at::kCPU);
      const Tensor weight = inputs_of(c)[3].index_fill(2, positions, 0);
      const auto broken = run_alone(c, std::nullopt, weight);
      EXPECT_GT(distance(got.gradients[1], broken.gradients[1]), 1e-3);
      EXPECT_GT(distance(got.gradients[2], broken.gradients[2]), 1e-3);
    }
  }
}

TEST(ContextAttention, AWrongOrderOfTokensIsNoticed) {
  for (const auto method : kMethods) {
    const Case c{.size = 2, .method = method};
    const auto wrong = [](const Tensor& q, const Tensor& k, const Tensor& v,
                          ContextParallel context, const std::optional<Tensor>& documents) {
      context.head_tail = false;
      return context_attention(q, k, v, context, documents);
    };
    EXPECT_GT(farthest(run_ranks(c, wrong), run_alone(c)), 1e-3);
  }
}

TEST(ContextAttention, ForgottenDocumentsAreNoticed) {
  for (const auto method : kMethods) {
    Case c{.size = 2, .method = method, .packed = true};
    const auto forgetful = [](const Tensor& q, const Tensor& k, const Tensor& v,
                              const ContextParallel& context, const std::optional<Tensor>&) {
      return context_attention(q, k, v, context);
    };
    EXPECT_GT(farthest(run_ranks(c, forgetful), run_alone(c)), 1e-3);
  }
}

TEST(ContextAttention, EveryTokenItsOwnDocumentGivesItsOwnValue) {
  for (const auto method : kMethods) {
    for (const bool head_tail : {true, false}) {
      const Case c{.size = 4, .method = method, .head_tail = head_tail};
      const auto lonely = [&](const Tensor& q, const Tensor& k, const Tensor& v,
                              const ContextParallel& context, const std::optional<Tensor>&) {
        return context_attention(q, k, v, context,
                                 at::arange(c.tokens).expand({c.batch, c.tokens}));
      };
      const auto got = run_ranks(c, lonely);
      const auto whole = inputs_of(c);
      EXPECT_LE(distance(got.out, whole[2].repeat_interleave(c.heads / c.kv_heads, 1)), 1e-12);
      EXPECT_LE(got.gradients[0].abs().max().item<double>(), 1e-12);
      EXPECT_LE(got.gradients[1].abs().max().item<double>(), 1e-12);
    }
  }
}

// Attention inside a recomputed region, with an op before and after it that needs a replay.
Attend recomputed(ops::Kept kept) {
  return [kept](const Tensor& q, const Tensor& k, const Tensor& v, const ContextParallel& context,
                const std::optional<Tensor>& documents) {
    const auto body = [=](const Tensor& x) {
      const Tensor y = context_attention(x.sin().asin(), k, v, context, documents);
      return y.sin().asin();
    };
    return ops::recompute(body, q, kept);
  };
}

TEST(ContextAttention, RecomputedRegionsGiveTheSameAndSelectiveOnesSendNothingAgain) {
  ops::install_saved_tensor_hooks();
  const auto plain = [](const Tensor& q, const Tensor& k, const Tensor& v,
                        const ContextParallel& context, const std::optional<Tensor>& documents) {
    return context_attention(q.sin().asin(), k, v, context, documents).sin().asin();
  };
  for (const auto method : kMethods) {
    for (const bool packed : {false, true}) {
      Case c{.size = 3, .method = method, .packed = packed};
      c.heads = 6;
      const auto once = run_ranks(c, plain);
      const auto full = run_ranks(c, recomputed(ops::Kept::kNothing));
      const auto selective = run_ranks(c, recomputed(ops::Kept::kExpensive));
      SCOPED_TRACE(testing::Message() << c);
      EXPECT_EQ(farthest(full, once), 0);
      EXPECT_EQ(farthest(selective, once), 0);
      for (size_t rank = 0; rank < 3; ++rank) {
        int64_t sent_once = 0, sent_full = 0, sent_selective = 0;
        for (const auto& [key, sum] : once.traffic[rank]) sent_once += sum.bytes;
        for (const auto& [key, sum] : full.traffic[rank]) sent_full += sum.bytes;
        for (const auto& [key, sum] : selective.traffic[rank]) sent_selective += sum.bytes;
        EXPECT_GT(sent_once, 0);
        EXPECT_EQ(sent_selective, sent_once);
        EXPECT_GT(sent_full, sent_once);
      }
    }
  }
}

TEST(ContextAttention, AllGatherMovesEachBlockOnceForwardAndOnceBackward) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Case c{.size = 4, .dtype = dtype};
    const int64_t block = 2 * c.batch * c.kv_heads * c.tokens / c.size * c.head_dim *
                          static_cast<int64_t>(c10::elementSize(dtype));
    for (const auto& traffic : run_ranks(c).traffic) {
      ASSERT_EQ(traffic.size(), 2u);
      EXPECT_EQ(traffic.at({"cp", "all-gather"}).bytes, 3 * block);
      EXPECT_EQ(traffic.at({"cp", "reduce-scatter"}).bytes, 3 * block);
      EXPECT_EQ(traffic.at({"cp", "all-gather"}).calls, 1);
    }
  }
}

TEST(ContextAttention, RingSendsEachBlockToEachOtherRankAndItsGradientsBackInFloat32) {
  for (const bool head_tail : {true, false}) {
    const Case c{
        .size = 4, .method = ContextMethod::kRing, .head_tail = head_tail, .dtype = at::kBFloat16};
    const int64_t block = 2 * c.batch * c.kv_heads * c.tokens / c.size * c.head_dim;
    for (const auto& traffic : run_ranks(c).traffic) {
      EXPECT_EQ(traffic.at({"cp", "send"}).bytes, 2 * 3 * block * 2 + 3 * block * 4);
      EXPECT_EQ(traffic.at({"cp", "send"}).calls, 3 + 3 + 3);
      for (const auto& [key, sum] : traffic) {
        EXPECT_TRUE(key.second == "send" || key.second == "receive") << key.second;
      }
    }
  }
}

TEST(ContextAttention, UlyssesExchangesEveryHeadOnceAndCopiesOnlyMissingKeyHeads) {
  for (const auto& [kv_heads, copies] :
       std::vector<std::pair<int64_t, int64_t>>{{8, 8}, {4, 4}, {2, 4}, {1, 4}}) {
    Case c{.size = 4, .method = ContextMethod::kUlysses, .dtype = at::kFloat};
    c.heads = 8;
    c.kv_heads = kv_heads;
    const int64_t head = c.batch * c.tokens / c.size * c.head_dim * 4;
    for (const auto& traffic : run_ranks(c).traffic) {
      ASSERT_EQ(traffic.size(), 1u);
      const auto sum = traffic.at({"cp", "all-to-all"});
      EXPECT_EQ(sum.calls, 4);
      EXPECT_EQ(sum.bytes, 2 * 3 * (2 * c.heads + 2 * copies) * head / 4);
    }
  }
}

// The pieces of the ring cover the causal triangle once, and head-tail costs each rank and step the
// same.
TEST(AttentionPieces, CoverTheCausalTriangleOnceAndEvenly) {
  for (const int64_t size : {1, 2, 3, 4}) {
    for (const bool head_tail : {true, false}) {
      const int64_t tokens = 24, local = tokens / size;
      Tensor of_blocks = at::zeros({tokens, tokens}), of_whole = at::zeros({tokens, tokens});
      for (int64_t rank = 0; rank < size; ++rank) {
        const Tensor mine = context_positions(tokens, size, rank, head_tail, at::kCPU);
        const auto add = [&](Tensor& to, const AttentionPiece& piece, const Tensor& keys) {
          Tensor seen = at::ones({piece.queries.count, piece.keys.count});
          if (piece.causal) seen.tril_();
          to.index_put_({mine.narrow(0, piece.queries.begin, piece.queries.count).unsqueeze(1),
                         keys.narrow(0, piece.keys.begin, piece.keys.count).unsqueeze(0)},
                        seen, true);
        };
        for (int64_t owner = 0; owner < size; ++owner) {
          const auto pieces = pieces_of_block(local, rank, owner, head_tail);
          EXPECT_LE(pieces.size(), 1u);
          for (const auto& piece : pieces) {
            add(of_blocks, piece, context_positions(tokens, size, owner, head_tail, at::kCPU));
            if (head_tail && owner != rank) {
              EXPECT_EQ(piece.queries.count * piece.keys.count, local * local / 2);
            }
          }
        }
        for (const auto& piece : pieces_of_whole(tokens, size, rank, head_tail)) {
          add(of_whole, piece, at::arange(tokens));
        }
      }
      EXPECT_TRUE(at::equal(of_blocks, at::ones({tokens, tokens}).tril()));
      EXPECT_TRUE(at::equal(of_whole, of_blocks));
    }
  }
}

TEST(ContextAttention, SaysWhatDoesNotDivideAndWhatWould) {
  EXPECT_TRUE(context_problems(ContextMethod::kRing, true, 1, 7, 3).empty());
  EXPECT_TRUE(context_problems(ContextMethod::kRing, true, 2, 8, 3).empty());
  EXPECT_THAT(context_problems(ContextMethod::kAllGather, true, 4, 30, 4),
              testing::ElementsAre(testing::AllOf(testing::HasSubstr("30 tokens"),
                                                  testing::HasSubstr("8 parts"),
                                                  testing::HasSubstr("24 or 32"))));
  EXPECT_TRUE(context_problems(ContextMethod::kAllGather, false, 4, 28, 4).empty());
  EXPECT_THAT(context_problems(ContextMethod::kUlysses, true, 4, 32, 6),
              testing::ElementsAre(testing::AllOf(testing::HasSubstr("6 heads"),
                                                  testing::HasSubstr("parallelism 4"),
                                                  testing::HasSubstr("1, 2, 3, 6"))));
  Case c{.size = 4};
  c.tokens = 20;
  const auto odd = [](const Tensor&, const Tensor& k, const Tensor& v,
                      const ContextParallel& context,
                      const std::optional<Tensor>&) { return context_attention(k, k, v, context); };
  c.head_tail = false;
  const auto misled = [&](const Tensor& q, const Tensor& k, const Tensor& v,
                          ContextParallel context, const std::optional<Tensor>& documents) {
    context.head_tail = true;
    return odd(q, k, v, context, documents);
  };
  EXPECT_THROW(run_ranks(c, misled), Error);
}

}  // namespace
}  // namespace titan::nn
