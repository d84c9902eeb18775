#include "nn/init.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/hash.h"

namespace titan::nn {
namespace {

// Four random words for counter `block`.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t block) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0,
                               0};
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

double ratio(const std::array<double, 8>& p, const std::array<double, 8>& q, double x) {
  double a = p[7], b = q[7];
  for (int i = 6; i >= 0; --i) {
    a = a * x + p[static_cast<size_t>(i)];
    b = b * x + q[static_cast<size_t>(i)];
  }
  return a / b;
}

// The standard normal's quantile of u in (0, 1).
double normal_quantile(double u) {
  static constexpr std::array<double, 8> kCentralP = {
      3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
      1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
      3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr std::array<double, 8> kCentralQ = {1.0,
                                                      4.2313330701600911252e1,
                                                      6.8718700749205790830e2,
                                                      5.3941960214247511077e3,
                                                      2.1213794301586595867e4,
                                                      3.9307895800092710610e4,
                                                      2.8729085735721942674e4,
                                                      5.2264952788528545610e3};
  static constexpr std::array<double, 8> kMiddleP = {
      1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
      3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
      2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr std::array<double, 8> kMiddleQ = {1.0,
                                                     2.05319162663775882187e0,
                                                     1.67638483018380384940e0,
                                                     6.89767334985100004550e-1,
                                                     1.48103976427480074590e-1,
                                                     1.51986665636164571966e-2,
                                                     5.47593808499534494600e-4,
                                                     1.05075007164441684324e-9};
  static constexpr std::array<double, 8> kTailP = {
      6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
      2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
      2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr std::array<double, 8> kTailQ = {1.0,
                                                   5.99832206555887937690e-1,
                                                   1.36929880922735805310e-1,
                                                   1.48753612908506148525e-2,
                                                   7.86869131145613259100e-4,
                                                   1.84631831751005468180e-5,
                                                   1.42151175831644588870e-7,
                                                   2.04426310338993978564e-15};
  const double q = u - 0.5;
  if (std::abs(q) <= 0.425) return q * ratio(kCentralP, kCentralQ, 0.180625 - q * q);
  const double r = std::sqrt(-std::log(q < 0 ? u : 1 - u));
  const double z = r <= 5 ? ratio(kMiddleP, kMiddleQ, r - 1.6) : ratio(kTailP, kTailQ, r - 5);
  return q < 0 ? -z : z;
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Fills `count` elements that follow each other in the whole parameter from index `first` on.
template <class T>
void fill_run(T* out, int64_t count, double std, double low, double width, uint64_t key,
              int64_t first) {
  std::array<uint32_t, 4> words{};
  uint64_t block = ~uint64_t{0};
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint64_t>(first + i);
    if (index / 4 != block) {
      block = index / 4;
      words = philox(key, block);
    }
    const double u = (static_cast<double>(words[index % 4]) + 0.5) * 0x1p-32;
    out[i] = static_cast<T>(std * normal_quantile(low + width * u));
  }
}

// Global index of the first element of run `run`; a run is a row of the box's last dimension.
int64_t first_of_run(int64_t run, const std::vector<int64_t>& shape, const comm::Box& box) {
  int64_t index = box.begin.back(), stride = shape.back();
  for (auto d = static_cast<int64_t>(shape.size()) - 2; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    index += (box.begin[i] + run % box.shape[i]) * stride;
    run /= box.shape[i];
    stride *= shape[i];
  }
  return index;
}

template <class T>
void fill_normal(T* out, const Init& init, uint64_t key, const std::vector<int64_t>& shape,
                 const comm::Box& box) {
  const int64_t numel = box.numel();
  if (numel == 0) return;
  const double low = init.bound > 0 ? normal_cdf(-init.bound / init.std) : 0;
  const double width = init.bound > 0 ? 1 - 2 * low : 1;
  // Elements are independent of each other: cut anywhere.
  at::parallel_for(0, numel, 1 << 14, [&](int64_t begin, int64_t end) {
    const int64_t length = box.shape.back();
    while (begin < end) {
      const int64_t run = begin / length, offset = begin % length;
      const int64_t count = std::min(end - begin, length - offset);
      fill_run(out + begin, count, init.std, low, width, key,
               first_of_run(run, shape, box) + offset);
      begin += count;
    }
  });
}

}  // namespace

void initialize(at::Tensor& parameter, const Init& init, uint64_t seed, std::string_view name) {
  const auto shape = parameter.sizes().vec();
  initialize(parameter, init, seed, name, shape, comm::Box::whole(shape));
}

void initialize(at::Tensor& parameter, const Init& init, uint64_t seed, std::string_view name,
                const std::vector<int64_t>& shape, const comm::Box& box) {
  const at::NoGradGuard no_grad;
  if (init.kind == Init::Kind::kOnes) {
    parameter.fill_(1);
    return;
  }
  const uint64_t key = hash::xxh3(name) ^ (seed * 0x9E3779B97F4A7C15ULL);
  const bool wide = parameter.scalar_type() == at::kDouble;
  // Drawn in float32 (float64 for float64) and cast, so that a bfloat16 model is the rounded
  // float32 one.
  const bool direct = parameter.is_cpu() && parameter.is_contiguous() &&
                      (wide || parameter.scalar_type() == at::kFloat);
  const at::Tensor drawn =
      direct ? parameter
             : at::empty(parameter.sizes(),
                         at::TensorOptions().dtype(wide ? at::kDouble : at::kFloat));
  if (wide) {
    fill_normal(drawn.mutable_data_ptr<double>(), init, key, shape, box);
  } else {
    fill_normal(drawn.mutable_data_ptr<float>(), init, key, shape, box);
  }
  if (!direct) parameter.copy_(drawn);
}

}  // namespace titan::nn
