#include "ops/cross_entropy.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "ops/cpu_kernels.h"
#include "ops/cuda_ops.h"
#include "ops/matmul.h"
#include "ops/npu_ops.h"
#include "ops/stack_rows.h"

namespace titan::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Sum of the losses of one chunk; with_grad turns `logits` (float32 or wider) into its gradient
// times `scale`.
Tensor chunk_loss(Tensor& logits, const Tensor& labels, const Tensor& scale, bool with_grad) {
  if (logits.is_cpu() && logits.scalar_type() == at::kFloat) {
    const Tensor losses = at::empty({logits.size(0)}, logits.options());
    const float factor = with_grad ? scale.item<float>() : 0.0f;
    cpu::softmax_cross_entropy(logits.mutable_data_ptr<float>(), labels.const_data_ptr<int64_t>(),
                               logits.size(0), logits.size(1), kIgnoredLabel,
                               with_grad ? &factor : nullptr, losses.mutable_data_ptr<float>());
    return losses.sum(at::kDouble).to(at::kFloat);
  }
  if (npu::is_npu(logits)) {
    const Tensor weights = labels.ne(kIgnoredLabel).to(logits.scalar_type());
    const Tensor targets = labels.clamp_min(0);
    const auto result = npu::cross_entropy(logits, targets);
    logits = Tensor();  // the gradient takes its place
    if (with_grad) {
      logits = npu::cross_entropy_backward(weights * scale, result.log_probabilities, targets);
    }
    return (result.losses * weights).sum();
  }
  const Tensor valid = labels.ne(kIgnoredLabel);
  const Tensor index = labels.clamp_min(0).unsqueeze(1);
  const Tensor log_sum = logits.logsumexp(1, /*keepdim=*/true);
  const Tensor losses = (log_sum - logits.gather(1, index)).squeeze(1);
  const Tensor loss = losses.masked_fill(valid.logical_not(), 0).sum();
  if (with_grad) {
    logits.sub_(log_sum).exp_();
    logits.scatter_add_(1, index, at::full_like(index, -1, logits.options()));
    logits.mul_((valid.to(scale.scalar_type()) * scale).unsqueeze(1));
  }
  return loss;
}

// One chunk on titan's CUDA operators: the logits keep the dtype of the product and become their
// gradient in place; dw [vocab, dim] float32 sums over the chunks in the product itself.
Tensor chunk_on_cuda(const Tensor& h, const Tensor& weight, const Tensor& labels,
                     const Tensor& scale, Tensor* dh, Tensor& dw) {
  Tensor logits = cuda::matmul(h, weight.t());
  const Tensor losses =
      cuda::cross_entropy_(logits, labels, kIgnoredLabel, dh ? std::optional(scale) : std::nullopt);
  if (dh) {
    dh->copy_(cuda::matmul(logits, weight));
    if (dw.defined()) {
      cuda::matmul_add_(dw, logits.t(), h);
    } else {
      dw = cuda::matmul(logits.t(), h, std::nullopt, at::kFloat);
    }
  }
  return losses.sum();
}

// The CPU kernel indexes with labels; a device's own gather checks them itself.
void check_labels(const Tensor& labels, int64_t vocab) {
  for (const int64_t label :
       std::span(labels.const_data_ptr<int64_t>(), static_cast<size_t>(labels.numel()))) {
    TITAN_CHECK(label == kIgnoredLabel || (label >= 0 && label < vocab),
                "label {} with a vocabulary of {}", label, vocab);
  }
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static Tensor forward(AutogradContext* ctx, const Tensor& h, const Tensor& weight,
                        const Tensor& labels, const Tensor& scale, int64_t chunk_tokens,
                        bool with_grad, at::ScalarType gradients,
                        const std::optional<Float8Recipe>& float8) {
    const auto dtype = h.scalar_type();
    const auto wide = at::promote_types(dtype, at::kFloat);
    const int64_t tokens = h.size(0),
                  chunk = loss_chunk_tokens(tokens, weight.size(0), chunk_tokens, h.is_cpu());
    Tensor total = at::zeros({}, h.options().dtype(wide));
    Tensor dh, dw;
    if (with_grad) dh = at::empty_like(h);
    const bool on_cuda = cuda::has_operators(h) && scale.scalar_type() == at::kFloat && !float8;
    for (int64_t begin = 0; begin < tokens; begin += chunk) {
      const int64_t count = std::min(chunk, tokens - begin);
      const Tensor part = h.narrow(0, begin, count);
      if (on_cuda) {
        Tensor dh_part;
        if (with_grad) dh_part = dh.narrow(0, begin, count);
        total.add_(chunk_on_cuda(part, weight, labels.narrow(0, begin, count).contiguous(), scale,
                                 with_grad ? &dh_part : nullptr, dw));
        continue;
      }
      const OutputProduct product(part, weight, float8);
      Tensor logits = product.compute(wide);
      total.add_(chunk_loss(logits, labels.narrow(0, begin, count).contiguous(), scale, with_grad));
      if (!with_grad) continue;
      const Tensor gradient = logits.to(dtype);
      dh.narrow(0, begin, count).copy_(product.input_gradient(gradient));
      // Sums over chunks stay in float32 whatever the dtype of the matmul.
      if (!dw.defined()) {
        dw = product.weight_gradient(gradient);
        if (count < tokens) dw = dw.to(wide);
      } else if (dtype == wide && !float8) {
        dw.addmm_(gradient.t(), part);
      } else {
        dw.add_(product.weight_gradient(gradient));
      }
    }
    if (with_grad) ctx->save_for_backward({dh, dw.to(gradients)});
    return total * scale;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto times = [&](const Tensor& x) { return x * grads[0].to(x.scalar_type()); };
    return {times(saved[0]), times(saved[1]), Tensor(), Tensor(),
            Tensor(),        Tensor(),        Tensor(), Tensor()};
  }
};

}  // namespace

namespace reference {

Tensor linear_cross_entropy(const Tensor& h, const Tensor& weight, const Tensor& labels,
                            const Tensor& scale) {
  const auto wide = at::promote_types(h.scalar_type(), at::kFloat);
  const Tensor log_probabilities = at::log_softmax(at::linear(h, weight).to(wide), -1);
  return at::nll_loss(log_probabilities, labels, {}, at::Reduction::Sum, kIgnoredLabel) * scale;
}

}  // namespace reference

int64_t loss_chunk_tokens(int64_t tokens, int64_t vocab, int64_t asked, bool on_cpu) {
  if (asked > 0) return std::min(asked, tokens);
  // Every chunk adds to the whole weight gradient, so chunks must not be small.
  const int64_t logits = int64_t{1} << (on_cpu ? 26 : 29);
  const int64_t most = std::clamp<int64_t>(logits / vocab, 1, tokens);
  if (on_cpu) return most;
  // Equal chunks, in sizes that matrix units like.
  const int64_t chunks = (tokens + most - 1) / most, even = (tokens + chunks - 1) / chunks;
  return std::min(tokens, (even + 127) / 128 * 128);
}

Tensor linear_cross_entropy(const Tensor& h, const Tensor& weight, const Tensor& labels,
                            const Tensor& scale, int64_t chunk_tokens,
                            const std::optional<Float8Recipe>& float8) {
  TITAN_CHECK(labels.numel() == h.size(0), "{} labels for {} tokens", labels.numel(), h.size(0));
  if (labels.is_cpu()) check_labels(labels.contiguous(), weight.size(0));
  const bool with_grad =
      at::GradMode::is_enabled() && (h.requires_grad() || weight.requires_grad());
  return LinearCrossEntropy::apply(h, weight, labels, scale, chunk_tokens, with_grad,
                                   gradient_dtype(weight), float8);
}

}  // namespace titan::ops
