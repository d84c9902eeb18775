#include "nn/init.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "nn/rotary.h"

namespace titan::nn {
namespace {

at::Tensor drawn(int64_t count, const Init& init, uint64_t seed, std::string_view name,
                 int64_t first = 0, at::ScalarType dtype = at::kFloat) {
  at::Tensor out = at::empty({count}, dtype);
  initialize(out, init, seed, name, {int64_t{1} << 40}, {{first}, {count}});
  return out;
}

double average(const at::Tensor& x) { return x.to(at::kDouble).mean().item<double>(); }

double deviation(const at::Tensor& x) { return x.to(at::kDouble).std(0, false).item<double>(); }

// Computed apart from titan: Philox4x32-10 and XXH3 in Python, the quantile from its standard
// library.
TEST(Init, GivesTheKnownValues) {
  struct Known {
    uint64_t seed;
    const char* name;
    int64_t index;
    Init init;
    double value;
  };
  const Known table[] = {
      {0, "tok_embeddings.weight", 0, {.std = 1}, -0.22927837720248667},
      {1, "tok_embeddings.weight", 0, {.std = 1}, 0.10589950794924842},
      {42, "layers.0.attention.wq.weight", 7, {.std = 0.02, .bound = 2}, 0.03780381316744713},
      {42,
       "layers.3.feed_forward.w2.weight",
       12345678901,
       {.std = 0.01, .bound = 2},
       -0.018254822247637224},
      {7, "output.weight", 5, {.std = 0.0625, .bound = 0.1875}, 0.12113542617657448},
      {7, "output.weight", 1000003, {.std = 1, .bound = 0.5}, 0.29746409842979693},
  };
  for (const auto& k : table) {
    EXPECT_NEAR(drawn(1, k.init, k.seed, k.name, k.index, at::kDouble).item<double>(), k.value,
                1e-14 * k.init.std)
        << k.name;
    EXPECT_NEAR(drawn(1, k.init, k.seed, k.name, k.index).item<double>(), k.value,
                1e-7 * k.init.std)
        << k.name;
  }
}

TEST(Init, PiecesEqualTheWhole) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const double bound : {0.0, 0.05}) {
      const Init init{.std = 0.02, .bound = bound};
      const at::Tensor whole = drawn(100003, init, 5, "w", 0, dtype);
      int64_t first = 0;
      for (const int64_t count : {1, 2, 3, 4, 5, 7, 16385, 40000, 43596}) {
        EXPECT_TRUE(
            at::equal(drawn(count, init, 5, "w", first, dtype), whole.narrow(0, first, count)))
            << first;
        first += count;
      }
      EXPECT_EQ(first, 100003);
    }
  }
}

TEST(Init, ABoxEqualsThatPartOfTheWhole) {
  const Init init{.std = 0.02, .bound = 2};
  at::Tensor whole = at::empty({37, 501});
  initialize(whole, init, 5, "w");
  at::set_num_threads(4);
  for (const auto& box :
       {comm::Box{{0, 0}, {37, 501}}, comm::Box{{3, 0}, {20, 501}}, comm::Box{{0, 250}, {37, 251}},
        comm::Box{{36, 499}, {1, 2}}, comm::Box{{5, 7}, {0, 9}}}) {
    at::Tensor part = at::empty(box.shape);
    initialize(part, init, 5, "w", {37, 501}, box);
    EXPECT_TRUE(at::equal(part, box.of(whole)));
  }
  at::set_num_threads(1);
}

TEST(Init, DoesNotDependOnThreadsStridesOrDtype) {
  const Init init{.std = 0.02, .bound = 2};
  at::set_num_threads(4);
  const at::Tensor four = drawn(70000, init, 5, "w");
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(four, drawn(70000, init, 5, "w")));
  at::Tensor columns = at::empty({7, 10000}).t();
  initialize(columns, init, 5, "w");
  EXPECT_TRUE(at::equal(columns.contiguous().view(-1), four));
  EXPECT_TRUE(at::equal(drawn(70000, init, 5, "w", 0, at::kBFloat16), four.to(at::kBFloat16)));
}

TEST(Init, NamesAndSeedsGiveDifferentValues) {
  const Init init{.std = 1};
  std::set<float> firsts;
  for (uint64_t seed : {0, 1, 2, 3, 1000}) {
    for (const char* name : {"a", "b", "layers.0.attention.wq.weight",
                             "layers.0.attention.wk.weight", "layers.1.attention.wq.weight"}) {
      firsts.insert(drawn(1, init, seed, name).item<float>());
    }
  }
  EXPECT_EQ(firsts.size(), 25u);
  const at::Tensor a = drawn(50000, init, 1, "a"), b = drawn(50000, init, 1, "b"),
                   c = drawn(50000, init, 2, "a");
  for (const auto& other : {b, c}) {
    const double correlation = ((a - average(a)) * (other - average(other))).mean().item<double>() /
                               deviation(a) / deviation(other);
    EXPECT_LT(std::abs(correlation), 5 / std::sqrt(50000.0));
  }
}

TEST(Init, HasTheMomentsOfANormal) {
  const int64_t n = 400000;
  const at::Tensor x = drawn(n, {.std = 2}, 11, "w").to(at::kDouble) / 2;
  const double root = std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(average(x), 0, 4 / root);
  EXPECT_NEAR(average(x.pow(2)), 1, 4 * std::sqrt(2.0) / root);
  EXPECT_NEAR(average(x.pow(3)), 0, 4 * std::sqrt(15.0) / root);
  EXPECT_NEAR(average(x.pow(4)), 3, 4 * std::sqrt(96.0) / root);
  // Shares beyond one, two and three deviations.
  for (const auto& [z, share] : {std::pair{1.0, 0.317311}, {2.0, 0.045500}, {3.0, 0.002700}}) {
    EXPECT_NEAR(average(x.abs().gt(z).to(at::kDouble)), share, 4 * std::sqrt(share) / root) << z;
  }
}

TEST(Init, TruncationIsByAbsoluteBounds) {
  const int64_t n = 200000;
  // Three deviations: the deviation of what is left is 0.98658 of the whole one's.
  const at::Tensor three = drawn(n, {.std = 0.5, .bound = 1.5}, 3, "output.weight");
  EXPECT_LE(three.abs().max().item<double>(), 1.5);
  EXPECT_GT(three.abs().max().item<double>(), 1.45);
  EXPECT_NEAR(deviation(three) / 0.5, 0.98658, 0.005);
  // One deviation: 0.53956.
  EXPECT_NEAR(deviation(drawn(n, {.std = 2, .bound = 2}, 3, "w")) / 2, 0.53956, 0.004);
  // Bounds a hundred deviations away do nothing.
  EXPECT_TRUE(at::allclose(drawn(1000, {.std = 0.02, .bound = 2}, 3, "w"),
                           drawn(1000, {.std = 0.02}, 3, "w"), 1e-6, 1e-9));
}

TEST(Init, OnesAreOnes) {
  EXPECT_TRUE(at::equal(drawn(5, {.kind = Init::Kind::kOnes}, 1, "norm.weight"), at::ones({5})));
}

TEST(Rotary, FrequenciesFollowTheFormula) {
  const RotaryTables tables = make_rotary_tables(8, 50, 10000, std::nullopt, at::kCPU, at::kDouble);
  ASSERT_EQ(tables.cos.sizes(), at::IntArrayRef({50, 4}));
  for (int64_t position : {0, 1, 17, 49}) {
    for (int64_t i = 0; i < 4; ++i) {
      const double angle =
          static_cast<double>(position) * std::pow(10000.0, -2.0 * static_cast<double>(i) / 8);
      EXPECT_NEAR(tables.cos[position][i].item<double>(), std::cos(angle), 1e-14);
      EXPECT_NEAR(tables.sin[position][i].item<double>(), std::sin(angle), 1e-14);
    }
  }
  const RotaryTables single = make_rotary_tables(8, 50, 10000, std::nullopt, at::kCPU);
  EXPECT_EQ(single.cos.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(single.sin.to(at::kDouble), tables.sin, 1e-6, 1e-5));
}

TEST(Rotary, ScalingKeepsShortWavesDividesLongOnesAndJoinsThemSteadily) {
  const FrequencyScaling scaling{8, 1, 4, 8192};
  // The table's second row is the frequencies themselves: angle(1) = f, small enough to invert the
  // sine for most.
  const int64_t dim = 128;
  const RotaryTables plain =
      make_rotary_tables(dim, 2, 500000, std::nullopt, at::kCPU, at::kDouble);
  const RotaryTables scaled = make_rotary_tables(dim, 2, 500000, scaling, at::kCPU, at::kDouble);
  double last = 1;
  for (int64_t i = 0; i < dim / 2; ++i) {
    const double f = std::asin(plain.sin[1][i].item<double>()),
                 g = std::asin(scaled.sin[1][i].item<double>());
    const double wavelength = 2 * M_PI / f;
    if (wavelength < 2048) {
      EXPECT_NEAR(g / f, 1, 1e-12);
    } else if (wavelength > 8192) {
      EXPECT_NEAR(g / f, 1 / 8.0, 1e-12);
    } else {
      const double smooth = (8192 / wavelength - 1) / 3;
      EXPECT_NEAR(g / f, (1 - smooth) / 8 + smooth, 1e-12);
    }
    EXPECT_LE(g / f, last + 1e-12);
    last = g / f;
  }
}

TEST(Rotary, GatherAndNarrowPickRows) {
  const RotaryTables tables = make_rotary_tables(4, 10, 100, std::nullopt, at::kCPU);
  EXPECT_TRUE(at::equal(tables.narrow(3, 4).cos, tables.cos.slice(0, 3, 7)));
  const auto positions = at::tensor({int64_t{2}, int64_t{9}, int64_t{0}, int64_t{2}}).view({2, 2});
  const RotaryTables rows = tables.gather(positions);
  EXPECT_TRUE(at::equal(rows.sin[0][1], tables.sin[9]));
  EXPECT_TRUE(at::equal(rows.sin[1][1], tables.sin[2]));
}

}  // namespace
}  // namespace titan::nn
