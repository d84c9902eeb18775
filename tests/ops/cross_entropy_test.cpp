#include "ops/cross_entropy.h"

#include "ops/checks.h"

namespace titan::ops {
namespace {

at::Tensor labels_for(int64_t tokens, int64_t vocab, bool some_ignored) {
  auto labels = (at::arange(tokens) * 7 + 3).remainder(vocab);
  if (some_ignored) labels = labels.masked_fill((at::arange(tokens) % 3).eq(1), kIgnoredLabel);
  return labels;
}

at::Tensor scale_of(double value, at::ScalarType dtype) {
  return at::full({}, value, at::TensorOptions(dtype == at::kDouble ? at::kDouble : at::kFloat));
}

struct Case {
  at::Tensor h, weight, labels, scale;
};

Case make_case(int64_t tokens, int64_t dim, int64_t vocab, at::ScalarType dtype,
               bool ignored = true) {
  return {seeded({tokens, dim}, dtype, 1), seeded({vocab, dim}, dtype, 2),
          labels_for(tokens, vocab, ignored), scale_of(0.25, dtype)};
}

Result ce_fused(const Case& c, int64_t chunk = 0) {
  return run(
      [&](const Inputs& in) {
        return linear_cross_entropy(in[0], in[1], c.labels, c.scale, chunk);
      },
      {c.h, c.weight});
}

Result ce_plain(const Case& c) {
  return run(
      [&](const Inputs& in) {
        return reference::linear_cross_entropy(in[0], in[1], c.labels, c.scale);
      },
      {c.h, c.weight});
}

TEST(LinearCrossEntropy, MatchesReferenceInEveryDtypeAndOddShapes) {
  for (const auto& [dtype, tolerance] :
       std::vector<Precision>{{at::kDouble, 1e-12}, {at::kFloat, 4e-6}, {at::kBFloat16, 3e-2}}) {
    for (const auto& [tokens, dim, vocab] : std::vector<std::array<int64_t, 3>>{
             {1, 1, 2}, {3, 17, 5}, {17, 3, 33}, {130, 8, 1000}, {7, 4, 9000}}) {
      const auto c = make_case(tokens, dim, vocab, dtype);
      SCOPED_TRACE(testing::Message() << dtype << " " << tokens << "x" << dim << "x" << vocab);
      expect_close(ce_fused(c), ce_plain(c), tolerance, "loss");
      expect_close(ce_fused({strided(c.h), strided(c.weight), c.labels, c.scale}), ce_plain(c),
                   tolerance, "strided");
    }
  }
}

TEST(LinearCrossEntropy, DoesNotDependOnTheChunks) {
  for (const auto& [dtype, tolerance] :
       std::vector<Precision>{{at::kDouble, 1e-14}, {at::kFloat, 1e-6}, {at::kBFloat16, 1e-2}}) {
    const auto c = make_case(50, 12, 40, dtype);
    const auto whole = ce_fused(c, 50);
    for (const int64_t chunk : {1, 7, 25, 49, 51, 1000}) {
      SCOPED_TRACE(testing::Message() << dtype << " chunk " << chunk);
      expect_close(ce_fused(c, chunk), whole, tolerance, "chunked");
    }
  }
}

TEST(LinearCrossEntropy, HasTrueGradients) {
  const auto c = make_case(4, 3, 5, at::kDouble);
  for (const int64_t chunk : {0, 3}) {
    expect_true_gradients(
        [&](const Inputs& in) {
          return linear_cross_entropy(in[0], in[1], c.labels, c.scale, chunk);
        },
        {c.h, c.weight});
  }
}

TEST(LinearCrossEntropy, AllLabelsIgnoredGiveZeroLossAndGradients) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    auto c = make_case(9, 4, 6, dtype);
    c.labels = at::full({9}, kIgnoredLabel);
    const auto result = ce_fused(c, 4);
    EXPECT_EQ(result.output.item<double>(), 0);
    for (const auto& gradient : result.gradients) EXPECT_EQ(gradient.abs().max().item<double>(), 0);
  }
}

TEST(LinearCrossEntropy, HugeLogitsStayExact) {
  // Logits of +-1e4: a softmax of zeros and ones, losses of up to 2e4.
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    Case c;
    c.h = at::tensor({1.0, -1.0, 1.0}).view({3, 1}).to(dtype);
    c.weight = at::tensor({1e4, -1e4, 0.0}).view({3, 1}).to(dtype);
    c.labels = at::tensor({int64_t{0}, int64_t{0}, int64_t{2}});
    c.scale = scale_of(1, dtype);
    const auto result = ce_fused(c);
    EXPECT_EQ(result.output.item<double>(), 0 + 2e4 + 1e4);
    expect_close(result, ce_plain(c), 1e-6, "huge");
  }
}

TEST(LinearCrossEntropy, NanAndInfinityReachTheLoss) {
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      auto c = make_case(6, 4, 7, dtype, false);
      c.h[3][2] = bad;
      EXPECT_FALSE(ce_fused(c).output.isfinite().item<bool>()) << bad << " " << dtype;
      // Hidden behind an ignored label it does no harm to the loss.
      c.labels[3] = kIgnoredLabel;
      EXPECT_TRUE(ce_fused(c).output.isfinite().item<bool>()) << bad << " " << dtype;
    }
  }
}

TEST(LinearCrossEntropy, ALossOfOneTokenIsItsSurprise) {
  const auto h = at::zeros({1, 3}), weight = seeded({8, 3});
  const auto loss = linear_cross_entropy(h, weight, at::tensor({int64_t{5}}), at::ones({}));
  EXPECT_NEAR(loss.item<double>(), std::log(8.0), 1e-6);
}

TEST(LinearCrossEntropy, WithoutGradientTheLossIsTheSame) {
  auto c = make_case(20, 5, 11, at::kFloat);
  const auto with = ce_fused(c).output;
  EXPECT_TRUE(at::equal(linear_cross_entropy(c.h, c.weight, c.labels, c.scale), with));
}

TEST(LinearCrossEntropy, RefusesLabelsOutsideTheVocabulary) {
  auto c = make_case(4, 3, 5, at::kFloat, false);
  for (const int64_t label : {5, -1, -99, 1 << 20}) {
    c.labels[2] = label;
    EXPECT_ANY_THROW(linear_cross_entropy(c.h, c.weight, c.labels, c.scale)) << label;
  }
  EXPECT_ANY_THROW(linear_cross_entropy(c.h, c.weight, at::zeros({3}, at::kLong), c.scale));
}

TEST(LinearCrossEntropy, LargeVocabulariesAreChunkedByThemselves) {
  EXPECT_EQ(loss_chunk_tokens(16384, 128256, 0, true), 523);
  EXPECT_EQ(loss_chunk_tokens(16384, 128256, 0, false), 4096);
  EXPECT_EQ(loss_chunk_tokens(9000, 128256, 0, false), 3072);
  EXPECT_EQ(loss_chunk_tokens(100, 128256, 0, false), 100);
  EXPECT_EQ(loss_chunk_tokens(100, 128256, 0, true), 100);
  EXPECT_EQ(loss_chunk_tokens(4096, 2048, 0, true), 4096);
  EXPECT_EQ(loss_chunk_tokens(4096, 2048, 77, true), 77);
  EXPECT_EQ(loss_chunk_tokens(50, 2048, 77, true), 50);
}

}  // namespace
}  // namespace titan::ops
