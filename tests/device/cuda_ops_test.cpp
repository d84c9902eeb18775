// titan's own CUDA operators against plain ATen in float64 on the CPU, forward and gradient. Needs
// a GPU; skipped without one.
#include <ATen/cuda/CUDAContext.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/cuda/operators.h"
#include "ops/attention.h"
#include "ops/block_halves.h"
#include "ops/checks.h"
#include "ops/cross_entropy.h"
#include "ops/cuda_ops.h"
#include "ops/linear.h"
#include "ops/recompute.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace titan::ops {
namespace {

using at::Tensor;

const at::Device kGpu(at::kCUDA, 0);

// Twice the spacing of the dtype's numbers, relative to the largest of the tensor, and something
// for sums.
double tolerance(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-5 : dtype == at::kHalf ? 2e-3 : 1.6e-2;
}

Tensor on_gpu(const Tensor& x) { return x.to(kGpu); }

// f on the GPU at `values` rounded to dtype, against `reference` in float64 at the same numbers.
void compare(const Function& f, const Function& reference, const Inputs& values,
             at::ScalarType dtype, const std::string& what, double slack = 1) {
  Inputs gpu, wide;
  for (const auto& value : values) {
    const Tensor rounded = value.to(dtype);
    gpu.push_back(on_gpu(rounded).set_requires_grad(true));
    wide.push_back(rounded.to(at::kDouble).set_requires_grad(true));
  }
  const Tensor got = f(gpu), want = reference(wide);
  const Tensor weight = seeded(want.sizes(), dtype, 99);
  got.backward(on_gpu(weight));
  want.backward(weight.to(at::kDouble));
  EXPECT_EQ(got.scalar_type(), dtype) << what;
  EXPECT_LE(distance(got.detach().cpu(), want.detach()), slack * tolerance(dtype)) << what;
  for (size_t i = 0; i < gpu.size(); ++i) {
    ASSERT_TRUE(gpu[i].grad().defined()) << what << ", gradient " << i;
    EXPECT_LE(distance(gpu[i].grad().cpu(), wide[i].grad()), slack * tolerance(dtype))
        << what << ", gradient " << i;
  }
}

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

class CudaOps : public testing::Test {
 protected:
  void SetUp() override {
    if (at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(CudaOps, RmsNorm) {
  for (const auto dtype : kDtypes) {
    for (const int64_t dim : {8, 24, 256, 264, 1024, 2048, 4096, 5120, 8192}) {
      for (const int64_t rows : {1, 3, 1000}) {
        const auto what = fmt::format("{} rows of {}, {}", rows, dim, c10::toString(dtype));
        ASSERT_TRUE(cuda::rms_norm_serves(at::empty({rows, dim}, at::dtype(dtype).device(kGpu))));
        compare([](const Inputs& in) { return rms_norm(in[0], in[1], 1e-5); },
                [](const Inputs& in) { return reference::rms_norm(in[0], in[1], 1e-5); },
                {seeded({rows, dim}), seeded({dim}, at::kFloat, 2) + 1}, dtype, what);
      }
    }
  }
  EXPECT_FALSE(cuda::rms_norm_serves(at::empty({2, 12}, at::dtype(at::kHalf).device(kGpu))));
}

TEST_F(CudaOps, RmsNormBackwardAddsTheResidual) {
  const Tensor x = on_gpu(seeded({70, 512}, at::kBFloat16)),
               w = on_gpu(seeded({512}, at::kBFloat16));
  const Tensor dy = on_gpu(seeded({70, 512}, at::kBFloat16, 3)),
               residual = on_gpu(seeded({70, 512}, at::kBFloat16, 4));
  const auto normed = cuda::rms_norm(x, w, 1e-6);
  const auto plain = cuda::rms_norm_backward(dy, x, w, normed.inverse_rms);
  const auto added = cuda::rms_norm_backward(dy, x, w, normed.inverse_rms, residual);
  EXPECT_LE(distance(added.dx, plain.dx.to(at::kDouble) + residual.to(at::kDouble)), 1e-2);
  EXPECT_TRUE(at::equal(added.dw, plain.dw));
}

TEST_F(CudaOps, RopeOfPackedProjections) {
  constexpr int64_t kBatch = 2, kTokens = 5, kHeads = 4, kKeys = 2;
  for (const auto dtype : kDtypes) {
    for (const int64_t head_dim : {16, 64, 128}) {
      for (const bool interleaved : {true, false}) {
        for (const bool table_per_row : {false, true}) {
          auto table_shape = std::vector<int64_t>{kTokens, head_dim / 2};
          if (table_per_row) table_shape.insert(table_shape.begin(), kBatch);
          const Tensor angles = seeded(table_shape, at::kDouble, 5);
          const Tensor cos = angles.cos().to(at::kFloat), sin = angles.sin().to(at::kFloat);
          const Tensor packed = seeded({kBatch, kTokens, (kHeads + 2 * kKeys) * head_dim}, dtype);
          const auto turned = [&](const Tensor& x, int64_t begin, int64_t count, double sign) {
            const Tensor heads =
                x.to(at::kDouble).view({kBatch, kTokens, -1, head_dim}).narrow(2, begin, count);
            return reference::rope(heads, cos, sin * sign, interleaved);
          };
          const auto what = fmt::format("head_dim {}, interleaved {}, table per row {}, {}",
                                        head_dim, interleaved, table_per_row, c10::toString(dtype));
          const auto expected = [&](double sign) {
            const Tensor values = packed.to(at::kDouble)
                                      .view({kBatch, kTokens, -1, head_dim})
                                      .narrow(2, kHeads + kKeys, kKeys);
            return at::cat({turned(packed, 0, kHeads, sign), turned(packed, kHeads, kKeys, sign),
                            values},
                           2)
                .flatten(2);
          };
          Tensor gpu = on_gpu(packed);
          cuda::rope_packed_(gpu, on_gpu(cos), on_gpu(sin), kHeads, kKeys, head_dim, interleaved);
          EXPECT_LE(distance(gpu.cpu(), expected(1)), tolerance(dtype)) << what;
          const Tensor by_head = on_gpu(packed).view({kBatch, kTokens, -1, head_dim});
          const auto part = [&](int64_t begin, int64_t count) {
            return by_head.narrow(2, begin, count).contiguous();
          };
          const Tensor back = cuda::rope_packed_backward(part(0, kHeads), part(kHeads, kKeys),
                                                         part(kHeads + kKeys, kKeys), on_gpu(cos),
                                                         on_gpu(sin), interleaved);
          EXPECT_LE(distance(back.cpu(), expected(-1)), tolerance(dtype)) << what << ", back";
        }
      }
    }
  }
}

TEST_F(CudaOps, SwiGlu) {
  for (const auto dtype : kDtypes) {
    for (const auto& [rows, width] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 8}, {3, 24}, {100, 768}, {33, 5632}}) {
      const Tensor gate_up = seeded({rows, 2 * width}, dtype) * 3,
                   dy = seeded({rows, width}, dtype, 2);
      Tensor wide = gate_up.to(at::kDouble).set_requires_grad(true);
      const Tensor want = reference::swiglu(wide.narrow(1, 0, width), wide.narrow(1, width, width));
      want.backward(dy.to(at::kDouble));
      const auto what = fmt::format("{} x {}, {}", rows, width, c10::toString(dtype));
      EXPECT_LE(distance(cuda::swiglu(on_gpu(gate_up)).cpu(), want.detach()), tolerance(dtype))
          << what;
      EXPECT_LE(distance(cuda::swiglu_backward(on_gpu(dy), on_gpu(gate_up)).cpu(), wide.grad()),
                tolerance(dtype))
          << what;
    }
  }
}

TEST_F(CudaOps, CrossEntropy) {
  for (const auto dtype : kDtypes) {
    for (const int64_t vocab : {7, 32, 1000, 50257, 128256}) {
      constexpr int64_t kRows = 9;
      const Tensor logits = (seeded({kRows, vocab}) * 4).to(dtype);
      Tensor labels = at::arange(kRows, at::kLong) * 7919 % vocab;
      labels[2] = kIgnoredLabel;
      const Tensor scale = at::full({}, 0.125);
      Tensor wide = logits.to(at::kDouble).set_requires_grad(true);
      const Tensor want =
          at::nll_loss(wide.log_softmax(1), labels, {}, at::Reduction::None, kIgnoredLabel);
      (want.sum() * 0.125).backward();
      const auto what = fmt::format("{} words, {}", vocab, c10::toString(dtype));
      Tensor gpu = on_gpu(logits);
      const Tensor untouched =
          cuda::cross_entropy_(gpu, on_gpu(labels), kIgnoredLabel, std::nullopt);
      EXPECT_TRUE(at::equal(gpu.cpu(), logits)) << what;
      const Tensor losses = cuda::cross_entropy_(gpu, on_gpu(labels), kIgnoredLabel, on_gpu(scale));
      EXPECT_TRUE(at::equal(losses, untouched)) << what;
      EXPECT_LE(distance(losses.cpu(), want.detach()), 1e-5) << what;
      EXPECT_LE(distance(gpu.cpu(), wide.grad()), tolerance(dtype)) << what;
    }
  }
}

TEST_F(CudaOps, CrossEntropyOfExtremeLogitsAndLabels) {
  Tensor logits = at::zeros({3, 16}, at::kFloat);
  logits[0][3] = 3e38;
  logits[1][4] = -3e38;
  Tensor gpu = on_gpu(logits);
  const Tensor labels = at::tensor({3, 5, 16}, at::kLong);
  const Tensor losses =
      cuda::cross_entropy_(gpu, on_gpu(labels), kIgnoredLabel, on_gpu(at::ones({}))).cpu();
  EXPECT_EQ(losses[0].item<double>(), 0);
  EXPECT_NEAR(losses[1].item<double>(), std::log(15.0), 1e-5);
  EXPECT_TRUE(std::isnan(losses[2].item<double>()));  // a label that is no word is seen
}

TEST_F(CudaOps, MatmulOfEveryLayout) {
  for (const auto dtype : kDtypes) {
    for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {64, 128, 32}, {8, 24, 40}, {1, 8, 16}, {200, 8, 8}}) {
      const Tensor a = seeded({m, k}, dtype), b = seeded({k, n}, dtype, 2),
                   added = seeded({m, n}, dtype, 3);
      const Tensor want = at::mm(a.to(at::kDouble), b.to(at::kDouble));
      const auto transposed = [](const Tensor& x) { return on_gpu(x.t().contiguous()).t(); };
      for (const Tensor& left : {on_gpu(a), transposed(a)}) {
        for (const Tensor& right : {on_gpu(b), transposed(b)}) {
          const auto what = fmt::format("{} x {} x {}, {}", m, n, k, c10::toString(dtype));
          EXPECT_LE(distance(cuda::matmul(left, right).cpu(), want), tolerance(dtype)) << what;
          EXPECT_LE(distance(cuda::matmul(left, right, on_gpu(added)).cpu(),
                             want + added.to(at::kDouble)),
                    tolerance(dtype))
              << what;
          Tensor sum = cuda::matmul(left, right, std::nullopt, at::kFloat);
          EXPECT_LE(distance(sum.cpu(), want), 1e-5) << what;
          cuda::matmul_add_(sum, left, right);
          EXPECT_LE(distance(sum.cpu(), 2 * want), 1e-5) << what;
        }
      }
    }
  }
}

struct Sizes {
  int64_t batch, tokens, heads, kv_heads, head_dim, dim;
  bool interleaved;
};

Inputs attention_values(const Sizes& s) {
  const int64_t width = (s.heads + 2 * s.kv_heads) * s.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(s.dim));
  return {seeded({s.batch, s.tokens, s.dim}), seeded({s.dim}, at::kFloat, 2) * 0.1 + 1,
          seeded({width, s.dim}, at::kFloat, 3) * scale,
          seeded({s.dim, s.heads * s.head_dim}, at::kFloat, 4) * scale};
}

std::pair<Tensor, Tensor> tables(const Sizes& s) {
  const Tensor angles = seeded({s.tokens, s.head_dim / 2}, at::kDouble, 7);
  return {angles.cos().to(at::kFloat), angles.sin().to(at::kFloat)};
}

Tensor fused_attention(const Inputs& in, const Sizes& s, Float8Products float8 = {}) {
  const auto [cos, sin] = tables(s);
  const int64_t q = s.heads * s.head_dim, k = s.kv_heads * s.head_dim;
  const auto part = [&](int64_t begin, int64_t rows) { return in[2].narrow(0, begin, rows); };
  return attention_half(
      in[0], {in[1], part(0, q), part(q, k), part(q + k, k), in[3], on_gpu(cos), on_gpu(sin),
              s.heads, s.kv_heads, s.head_dim, 1e-5, s.interleaved, float8});
}

Tensor plain_attention(const Inputs& in, const Sizes& s) {
  const auto [cos, sin] = tables(s);
  const Tensor packed = at::linear(reference::rms_norm(in[0], in[1], 1e-5), in[2])
                            .view({s.batch, s.tokens, -1, s.head_dim});
  const auto heads = [&](int64_t begin, int64_t count, bool turn) {
    const Tensor x = packed.narrow(2, begin, count);
    return (turn ? reference::rope(x, cos, sin, s.interleaved) : x).transpose(1, 2);
  };
  const Tensor seen =
      reference::attention(heads(0, s.heads, true), heads(s.heads, s.kv_heads, true),
                           heads(s.heads + s.kv_heads, s.kv_heads, false), std::nullopt);
  return in[0] + at::linear(seen.transpose(1, 2).flatten(2), in[3]);
}

constexpr Sizes kSizes[] = {{2, 64, 4, 4, 16, 64, true},     {1, 33, 8, 2, 64, 128, true},
                            {2, 128, 4, 1, 128, 256, false}, {3, 1, 2, 2, 32, 64, false},
                            {2, 150, 4, 2, 32, 128, true},   {1, 200, 6, 1, 16, 96, false},
                            {1, 300, 6, 3, 64, 384, true}};

TEST_F(CudaOps, AttentionHalf) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (const Sizes& s : kSizes) {
      ASSERT_TRUE(attention_half_serves(
          at::empty({s.batch, s.tokens, s.dim}, at::dtype(dtype).device(kGpu)), s.heads, s.kv_heads,
          s.head_dim));
      compare([&](const Inputs& in) { return fused_attention(in, s); },
              [&](const Inputs& in) { return plain_attention(in, s); }, attention_values(s), dtype,
              fmt::format("{} heads of {}, {} tokens, {}", s.heads, s.head_dim, s.tokens,
                          c10::toString(dtype)));
    }
  }
}

Inputs feed_forward_values(int64_t tokens, int64_t dim, int64_t hidden) {
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  return {seeded({2, tokens, dim}), seeded({dim}, at::kFloat, 2) * 0.1 + 1,
          seeded({2 * hidden, dim}, at::kFloat, 3) * scale,
          seeded({dim, hidden}, at::kFloat, 4) * scale};
}

Tensor fused_feed_forward(const Inputs& in, Float8Products float8 = {}) {
  const auto parts = in[2].chunk(2, 0);
  return feed_forward_half(in[0], {in[1], parts[0], parts[1], in[3], 1e-5, float8});
}

TEST_F(CudaOps, FeedForwardHalf) {
  const auto plain = [](const Inputs& in) {
    const Tensor gate_up = at::linear(reference::rms_norm(in[0], in[1], 1e-5), in[2]);
    const auto parts = gate_up.chunk(2, -1);
    return in[0] + at::linear(reference::swiglu(parts[0], parts[1]), in[3]);
  };
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (const auto& [tokens, dim, hidden] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {64, 64, 192}, {1, 128, 8}, {77, 256, 688}}) {
      compare([](const Inputs& in) { return fused_feed_forward(in); }, plain,
              feed_forward_values(tokens, dim, hidden), dtype,
              fmt::format("{} tokens, {} -> {}, {}", tokens, dim, hidden, c10::toString(dtype)));
    }
  }
}

// What is recomputed is what was computed: all gradients bit for bit.
TEST_F(CudaOps, HalvesAreRecomputedBitForBit) {
  at::globalContext().setDeterministicAlgorithms(true, false);
  const Sizes s{2, 64, 4, 2, 64, 256, true};
  Inputs weights = attention_values(s);
  const Inputs more = feed_forward_values(64, 256, 688);
  weights.insert(weights.end(), more.begin() + 1, more.end());
  const auto gradients = [&](std::optional<Kept> kept) {
    Inputs in;
    for (const auto& value : weights) {
      in.push_back(on_gpu(value.to(at::kBFloat16)).set_requires_grad(true));
    }
    const auto body = [&](const Tensor& x) {
      const Tensor h = fused_attention({x, in[1], in[2], in[3]}, s);
      return fused_feed_forward({h, in[4], in[5], in[6]});
    };
    const Tensor out = kept ? recompute(body, in[0], *kept) : body(in[0]);
    out.backward(on_gpu(seeded(out.sizes(), at::kBFloat16, 99)));
    Inputs result;
    for (const auto& x : in) result.push_back(x.grad());
    return result;
  };
  const Inputs whole = gradients(std::nullopt);
  for (const Kept kept : {Kept::kNothing, Kept::kExpensive}) {
    const Inputs again = gradients(kept);
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(at::equal(whole[i], again[i])) << i << ", " << static_cast<int>(kept);
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST_F(CudaOps, LinearCrossEntropyInChunks) {
  const Tensor labels = (at::arange(50, at::kLong) * 31 % 1000)
                            .index_fill(0, at::tensor({4}, at::kLong), kIgnoredLabel);
  for (const int64_t chunk : {50, 16}) {
    compare(
        [&](const Inputs& in) {
          return linear_cross_entropy(in[0], in[1], on_gpu(labels), on_gpu(at::full({}, 1.0 / 49)),
                                      chunk)
              .to(in[0].scalar_type());
        },
        [&](const Inputs& in) {
          return reference::linear_cross_entropy(in[0], in[1], labels, at::full({}, 1.0 / 49));
        },
        {seeded({50, 64}), seeded({1000, 64}, at::kFloat, 2)}, at::kBFloat16,
        fmt::format("chunks of {}", chunk), /*slack=*/2);  // logits are rounded before the softmax
  }
}

// Float8 rounds each value by up to 1/16; what counts is the error of the whole.
double norm_distance(const Tensor& a, const Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).norm() / b.to(at::kDouble).norm()).item<double>();
}

TEST_F(CudaOps, Float8CastRoundsToNearestAndTransposes) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{16, 16}, {80, 48}, {64, 128}, {208, 1040}}) {
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      const Tensor x = seeded({rows, columns}, dtype) * 7;
      for (const auto& [format, type, largest] :
           {std::tuple{cuda::Float8Format::kE4M3, at::kFloat8_e4m3fn, 448.0},
            {cuda::Float8Format::kE5M2, at::kFloat8_e5m2, 57344.0}}) {
        const auto cast = cuda::float8_cast(on_gpu(x), format, cuda::Float8Order::kBoth);
        const Tensor wide = x.to(at::kFloat);
        const float amax = wide.abs().max().item<float>();
        EXPECT_FLOAT_EQ(cast.scale[0].item<float>(), amax / static_cast<float>(largest));
        const Tensor want = (wide * (static_cast<float>(largest) / amax)).to(type);
        EXPECT_TRUE(at::equal(cast.by_row.cpu().to(at::kFloat), want.to(at::kFloat)));
        EXPECT_TRUE(at::equal(cast.by_column.cpu().to(at::kFloat), want.to(at::kFloat).t()));
      }
    }
  }
  const auto zeros = cuda::float8_cast(at::zeros({16, 16}, at::dtype(at::kHalf).device(kGpu)),
                                       cuda::Float8Format::kE4M3, cuda::Float8Order::kRows);
  EXPECT_EQ(zeros.by_row.to(at::kFloat).abs().max().item<float>(), 0);
  EXPECT_FALSE(zeros.by_column.defined());
}

TEST_F(CudaOps, Float8HalvesFollowTheOthers) {
  if (!cuda::has_float8(kGpu)) GTEST_SKIP() << "no float8 products";
  const Sizes s{2, 64, 4, 2, 64, 256, true};
  Inputs weights = attention_values(s);
  const Inputs more = feed_forward_values(64, 256, 688);
  weights.insert(weights.end(), more.begin() + 1, more.end());
  const auto results = [&](bool float8) {
    Inputs in;
    for (const auto& value : weights) {
      in.push_back(on_gpu(value.to(at::kBFloat16)).set_requires_grad(true));
    }
    Float8Products products;
    if (float8) products.into = products.out_of = Float8Recipe{};
    const Tensor h = fused_attention({in[0], in[1], in[2], in[3]}, s, products);
    const Tensor out = fused_feed_forward({h, in[4], in[5], in[6]}, products);
    out.backward(on_gpu(seeded(out.sizes(), at::kBFloat16, 99)));
    Inputs result{out.detach()};
    for (const auto& x : in) result.push_back(x.grad());
    return result;
  };
  const Inputs wide = results(false), narrow = results(true);
  for (size_t i = 0; i < wide.size(); ++i) {
    const double off = norm_distance(narrow[i], wide[i]);
    EXPECT_LE(off, 0.16) << i;  // two casts to two bits of mantissa in a row
    EXPECT_GT(off, 1e-4) << i << ": not computed in float8";
  }
}

TEST_F(CudaOps, AttentionOfSmallHeads) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (const auto& [b, t, h, k, d] : std::vector<std::array<int64_t, 5>>{
             {2, 64, 4, 4, 16}, {1, 200, 6, 1, 16}, {2, 150, 4, 2, 32}, {3, 1, 2, 2, 32}}) {
      // Views of packed projections.
      const Tensor packed = seeded({b, t, h + 2 * k, d}, dtype);
      const auto part = [&](const Tensor& x, int64_t begin, int64_t count) {
        return x.narrow(2, begin, count).transpose(1, 2);
      };
      const Tensor on_device = on_gpu(packed), grad = seeded({b, t, h, d}, dtype, 5);
      const Tensor q = part(on_device, 0, h), key = part(on_device, h, k),
                   value = part(on_device, h + k, k);
      ASSERT_TRUE(cuda::attention_serves(q, k));
      const auto attended = cuda::attention(q, key, value);
      const auto [dq, dk, dv] =
          cuda::attention_backward(on_gpu(grad).transpose(1, 2), q, key, value, attended);
      const Tensor wide = packed.to(at::kDouble).set_requires_grad(true);
      const Tensor want = reference::attention(part(wide, 0, h), part(wide, h, k),
                                               part(wide, h + k, k), std::nullopt);
      want.backward(grad.to(at::kDouble).transpose(1, 2));
      const auto near = [&](const Tensor& got, const Tensor& expected, const char* name) {
        EXPECT_LE(norm_distance(got.cpu(), expected), 2 * tolerance(dtype))
            << name << ", " << t << " tokens, heads of " << d;
      };
      near(attended.out, want.detach(), "out");
      near(dq, part(wide.grad(), 0, h), "dq");
      if (t > 1) near(dk, part(wide.grad(), h, k), "dk");
      near(dv, part(wide.grad(), h + k, k), "dv");
      const auto again =
          cuda::attention_backward(on_gpu(grad).transpose(1, 2), q, key, value, attended);
      EXPECT_TRUE(at::equal(again.q, dq) && at::equal(again.k, dk) && at::equal(again.v, dv));
    }
  }
}

TEST_F(CudaOps, Float8LinearsFollowTheEmulation) {
  if (!cuda::has_float8(kGpu)) GTEST_SKIP() << "no float8 products";
  const Inputs values{seeded({2, 32, 64}, at::kBFloat16), seeded({96, 64}, at::kBFloat16, 2)};
  const auto results = [&](const Float8Recipe& recipe) {
    const Tensor x = on_gpu(values[0]).set_requires_grad(true),
                 w = on_gpu(values[1]).set_requires_grad(true);
    const Tensor y = linear(x, w, Replay::kOutputNeeded, recipe);
    y.backward(on_gpu(seeded(y.sizes(), at::kBFloat16, 99)));
    return Inputs{y.detach(), x.grad(), w.grad()};
  };
  const Inputs want = results({.emulate = true}), got = results({});
  // Both round the operands alike and the results to bfloat16; sums differ.
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LE(norm_distance(got[i], want[i]), 0.01) << i;
}

}  // namespace
}  // namespace titan::ops

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto operators = titan::device::cuda::register_operators();
  // As in a run: before the first backward pass.
  titan::ops::install_saved_tensor_hooks();
  return RUN_ALL_TESTS();
}
