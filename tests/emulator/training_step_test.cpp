// A small Llama trained for three steps on the CPU and on the emulated chip, from the same weights.
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>

#include <cmath>

#include "emulator/npu.h"

namespace npu_test {
namespace {

// Batch B, length T, model size D, heads H, key heads G, head size K = D / H, vocabulary V.
constexpr int64_t V = 97, D = 64, H = 4, G = 2, kLayers = 2, T = 32, B = 2, K = D / H;
constexpr double kEps = 1e-6;

Tensor rms_norm(const Tensor& x, const Tensor& weight) {
  if (!x.is_privateuseone()) return x * at::rsqrt(x.pow(2).mean(-1, true) + kEps) * weight;
  static auto fused =
      op<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, double)>("npu::npu_rms_norm");
  return std::get<0>(fused.call(x, weight, kEps));
}

Tensor rotary(const Tensor& x_BTHK, const Tensor& cos, const Tensor& sin) {
  if (!x_BTHK.is_privateuseone()) {
    const auto half = x_BTHK.chunk(2, -1);
    return x_BTHK * cos + at::cat({-half[1], half[0]}, -1) * sin;
  }
  static auto fused = op<Tensor(const Tensor&, const Tensor&, const Tensor&, c10::string_view,
                                const std::optional<Tensor>&)>("npu::npu_rotary_mul");
  return fused.call(x_BTHK, cos, sin, "half", std::nullopt);
}

Tensor swiglu(const Tensor& x) {
  if (!x.is_privateuseone()) return at::silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1];
  static auto fused = op<Tensor(const Tensor&, int64_t)>("npu::npu_swiglu");
  return fused.call(x, -1);
}

struct Layer {
  Tensor attention_norm, q, k, v, o, mlp_norm, up, down;
};

struct Model {
  Tensor embedding, norm, head;
  std::vector<Layer> layers;
  Tensors parameters;

  Model(at::Device device, at::ScalarType type) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
    auto random = [&](at::IntArrayRef shape) {
      Tensor p = (at::randn(shape, generator) * 0.08).to(device, type).detach().requires_grad_();
      return parameters.emplace_back(p);
    };
    auto ones = [&] {
      return parameters.emplace_back(at::ones({D}).to(device, type).detach().requires_grad_());
    };
    embedding = random({V, D});
    for (int64_t at = 0; at < kLayers; ++at) {
      layers.push_back({ones(), random({D, D}), random({G * K, D}), random({G * K, D}),
                        random({D, D}), ones(), random({4 * D, D}), random({D, 2 * D})});
    }
    norm = ones();
    head = random({V, D});
  }

  Tensor loss(const Tensor& ids, const Tensor& cos, const Tensor& sin) const {
    Tensor x = at::embedding(embedding, ids.slice(1, 0, T));
    auto heads = [&](const Tensor& h, const Tensor& w, int64_t n) {
      return at::linear(h, w).view({B, T, n, K});
    };
    for (const Layer& layer : layers) {
      const Tensor h = rms_norm(x, layer.attention_norm);
      const Tensor q = rotary(heads(h, layer.q, H), cos, sin).transpose(1, 2);
      const Tensor k =
          rotary(heads(h, layer.k, G), cos, sin).transpose(1, 2).repeat_interleave(H / G, 1);
      const Tensor v = heads(h, layer.v, G).transpose(1, 2).repeat_interleave(H / G, 1);
      const Tensor a = at::scaled_dot_product_attention(q, k, v, {}, 0.0, true);
      x = x + at::linear(a.transpose(1, 2).reshape({B, T, D}), layer.o);
      x = x + at::linear(swiglu(at::linear(rms_norm(x, layer.mlp_norm), layer.up)), layer.down);
    }
    const Tensor logits = at::linear(rms_norm(x, norm), head).to(at::kFloat);
    return at::cross_entropy_loss(logits.view({-1, V}), ids.slice(1, 1, T + 1).reshape({-1}));
  }
};

struct Curve {
  std::vector<double> losses, norms;
};

Curve train(at::Device device, at::ScalarType type) {
  Model model(device, type);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(8);
  const Tensor ids = at::randint(0, V, {B, T + 1}, generator, at::kLong).to(device);
  const Tensor rate = at::pow(10000.0, -at::arange(0, K, 2).to(at::kFloat) / K);
  const Tensor half = at::outer(at::arange(T).to(at::kFloat), rate),
               angle = at::cat({half, half}, -1);
  const Tensor cos = angle.cos().view({1, T, 1, K}).to(device, type),
               sin = angle.sin().view({1, T, 1, K}).to(device, type);
  Tensors m, v, steps;
  for (const Tensor& p : model.parameters) {
    m.push_back(at::zeros_like(p));
    v.push_back(at::zeros_like(p));
    steps.push_back(at::zeros({}, at::TensorOptions(device).dtype(at::kFloat)));
  }
  Curve curve;
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = model.loss(ids, cos, sin);
    auto grads = torch::autograd::grad({loss}, {model.parameters.begin(), model.parameters.end()});
    at::NoGradGuard no_grad;
    const Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(grads, 2)), 2);
    at::_foreach_mul_(grads, (1.0 / (norm + 1e-6)).clamp_max(1.0));
    for (Tensor& s : steps) s.add_(1);
    at::_fused_adamw_(model.parameters, grads, m, v, {}, steps, 1e-2, 0.9, 0.999, 0.1, 1e-8, false,
                      false);
    curve.losses.push_back(loss.item<double>());
    curve.norms.push_back(norm.item<double>());
  }
  return curve;
}

TEST(TrainingStep, EqualsTheCpuInFloat32) {
  const Curve cpu = train(at::kCPU, at::kFloat), npu = train(device(), at::kFloat);
  for (size_t step = 0; step < cpu.losses.size(); ++step) {
    EXPECT_NEAR(npu.losses[step], cpu.losses[step], 1e-5) << "step " << step;
    EXPECT_NEAR(npu.norms[step], cpu.norms[step], 1e-5) << "step " << step;
  }
  EXPECT_LT(npu.losses[2], npu.losses[0]);
}

TEST(TrainingStep, IsNearTheCpuInBfloat16) {
  const Curve cpu = train(at::kCPU, at::kBFloat16), npu = train(device(), at::kBFloat16);
  for (size_t step = 0; step < cpu.losses.size(); ++step) {
    EXPECT_NEAR(npu.losses[step], cpu.losses[step], 1e-2) << "step " << step;
  }
}

TEST(TrainingStep, RunsTheFusedOperators) {
  device();
  const uint64_t before = calls("aclnnFlashAttentionScoreGrad");
  train(device(), at::kFloat);
  EXPECT_EQ(calls("aclnnFlashAttentionScoreGrad") - before, 3 * kLayers);
  for (const char* name :
       {"aclnnRmsNorm", "aclnnRmsNormGrad", "aclnnSwiGluGrad", "aclnnApplyAdamWV2"}) {
    EXPECT_GT(calls(name), 0u) << name;
  }
}

}  // namespace
}  // namespace npu_test
