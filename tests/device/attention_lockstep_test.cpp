// The attention kernels for small heads, thread by thread on a CPU, against the formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "device/cuda/kernels/attention.cuh"

namespace titan::device::cuda::kernels {
namespace {

using T = __nv_bfloat16;

struct Sizes {
  int batch, heads, kv_heads, tokens, head_dim;
};

// [batch, tokens, heads, head_dim] of bfloat16, as projections leave them.
struct Array {
  Array(const Sizes& s, int heads)
      : sizes(s), heads(heads), bits(static_cast<size_t>(count()), T{0x7fc0}) {}
  int64_t count() const { return int64_t{1} * sizes.batch * sizes.tokens * heads * sizes.head_dim; }
  void fill(unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (auto& x : bits) x = {rounded(normal(generator))};
  }
  size_t index(int b, int t, int h, int d) const {
    return static_cast<size_t>(((int64_t{b} * sizes.tokens + t) * heads + h) * sizes.head_dim + d);
  }
  double at(int b, int t, int h, int d) const { return widened(bits[index(b, t, h, d)].bits); }
  template <class E>
  HeadView<E> view() {
    const int64_t token = int64_t{heads} * sizes.head_dim;
    return {bits.data(), token * sizes.tokens, token};
  }
  Sizes sizes;
  int heads;
  std::vector<T> bits;
};

struct Wide {
  explicit Wide(const Array& like) : like(like), values(static_cast<size_t>(like.count()), 0.0) {}
  double& at(int b, int t, int h, int d) { return values[like.index(b, t, h, d)]; }
  const Array& like;
  std::vector<double> values;
};

// || got - want || / || want ||
double off(const Array& got, const Wide& want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double d = static_cast<double>(widened(got.bits[i].bits)) - want.values[i];
    difference += d * d;
    norm += want.values[i] * want.values[i];
  }
  return std::isfinite(difference) ? std::sqrt(difference / norm) : INFINITY;
}

template <int D>
void check(const Sizes& s) {
  SCOPED_TRACE(testing::Message() << s.batch << " x " << s.tokens << ", heads " << s.heads << "/"
                                  << s.kv_heads << " of " << D);
  Array q(s, s.heads), k(s, s.kv_heads), v(s, s.kv_heads), grad(s, s.heads), out(s, s.heads),
      dq(s, s.heads), dk(s, s.kv_heads), dv(s, s.kv_heads);
  q.fill(1), k.fill(2), v.fill(3), grad.fill(4);
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  const auto numbers = static_cast<size_t>(s.batch * s.heads * s.tokens);
  std::vector<float> logsumexp(numbers, NAN), delta(numbers, NAN);
  AttentionArguments<T> p{.q = q.view<const T>(),
                          .k = k.view<const T>(),
                          .v = v.view<const T>(),
                          .out = out.view<const T>(),
                          .grad = grad.view<const T>(),
                          .out_to = out.view<T>(),
                          .dq = dq.view<T>(),
                          .dk = dk.view<T>(),
                          .dv = dv.view<T>(),
                          .logsumexp = logsumexp.data(),
                          .delta = delta.data(),
                          .tokens = s.tokens,
                          .heads = s.heads,
                          .heads_per_kv = s.heads / s.kv_heads,
                          .scale = scale};
  const auto tiles = static_cast<unsigned>((s.tokens + kAttentionTile - 1) / kAttentionTile),
             heads = static_cast<unsigned>(s.heads), kv_heads = static_cast<unsigned>(s.kv_heads),
             batch = static_cast<unsigned>(s.batch);
  lockstep::launch({tiles, heads, batch}, kAttentionThreads, [&] { attention_forward<T, D>(p); });
  lockstep::launch({tiles, heads, batch}, kAttentionThreads,
                   [&] { attention_backward_queries<T, D>(p); });
  lockstep::launch({tiles, kv_heads, batch}, kAttentionThreads,
                   [&] { attention_backward_keys<T, D>(p); });

  Wide want_out(out), want_dq(dq), want_dk(dk), want_dv(dv);
  for (int b = 0; b < s.batch; ++b) {
    for (int h = 0; h < s.heads; ++h) {
      const int g = h / p.heads_per_kv;
      for (int i = 0; i < s.tokens; ++i) {
        std::vector<double> weight(static_cast<size_t>(i + 1)), d(static_cast<size_t>(i + 1));
        double sum = 0, dot = 0;
        for (int j = 0; j <= i; ++j) {
          double score = 0, dp = 0;
          for (int e = 0; e < D; ++e) {
            score += q.at(b, i, h, e) * k.at(b, j, g, e);
            dp += grad.at(b, i, h, e) * v.at(b, j, g, e);
          }
          const auto at = static_cast<size_t>(j);
          weight[at] = std::exp(score * static_cast<double>(scale));
          d[at] = dp;
          sum += weight[at];
        }
        for (size_t j = 0; j < weight.size(); ++j) dot += (weight[j] /= sum) * d[j];
        const auto number = static_cast<size_t>((b * s.heads + h) * s.tokens + i);
        EXPECT_NEAR(logsumexp[number], std::log2(sum), 1e-2);
        for (int j = 0; j <= i; ++j) {
          const auto at = static_cast<size_t>(j);
          const double ds = weight[at] * (d[at] - dot) * static_cast<double>(scale);
          for (int e = 0; e < D; ++e) {
            want_out.at(b, i, h, e) += weight[at] * v.at(b, j, g, e);
            want_dq.at(b, i, h, e) += ds * k.at(b, j, g, e);
            want_dk.at(b, j, g, e) += ds * q.at(b, i, h, e);
            want_dv.at(b, j, g, e) += weight[at] * grad.at(b, i, h, e);
          }
        }
      }
    }
  }
  EXPECT_LT(off(out, want_out), 6e-3);
  EXPECT_LT(off(dq, want_dq), 1e-2);
  EXPECT_LT(off(dk, want_dk), 1e-2);
  EXPECT_LT(off(dv, want_dv), 6e-3);
}

TEST(AttentionLockstep, EqualsTheFormulas) {
  check<16>({1, 1, 1, 64, 16});
  check<16>({2, 2, 1, 130, 16});
  check<16>({1, 4, 2, 200, 16});
  check<32>({1, 2, 2, 129, 32});
  check<32>({1, 3, 1, 70, 32});
  check<16>({1, 1, 1, 5, 16});
}

}  // namespace
}  // namespace titan::device::cuda::kernels
