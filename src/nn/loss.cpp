#include "nn/loss.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/placement.h"
#include "ops/cross_entropy.h"

namespace titan::nn {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Sum of the losses of one chunk; with_grad turns `logits` [n, rows of this rank] (float32 or
// wider) into its gradient times `scale`.
Tensor chunk_loss(Tensor& logits, const Tensor& labels, const Tensor& scale, bool with_grad,
                  int64_t first_row, const comm::Group& tp) {
  const int64_t rows = logits.size(1);
  const Tensor valid = labels.ne(ops::kIgnoredLabel);
  const Tensor mine = labels.ge(first_row).logical_and(labels.lt(first_row + rows));
  const Tensor others = mine.logical_not();
  const Tensor index = (labels - first_row).masked_fill(others, 0).unsqueeze(1);
  Tensor maximum =
      at::full({logits.size(0)}, -std::numeric_limits<double>::infinity(), logits.options());
  if (rows > 0) maximum = logits.amax(1);
  tp.start_all_reduce(maximum, comm::Reduce::kMax).wait();
  logits.sub_(maximum.unsqueeze(1));
  const Tensor target = rows > 0 ? logits.gather(1, index).squeeze(1).masked_fill(others, 0)
                                 : at::zeros_like(maximum);
  logits.exp_();
  Tensor sums = at::stack({logits.sum(1), target});  // one all-reduce for both
  tp.start_all_reduce(sums).wait();
  const Tensor loss = (sums[0].log() - sums[1]).masked_fill(valid.logical_not(), 0).sum();
  if (with_grad && rows > 0) {
    logits.div_(sums[0].unsqueeze(1));
    logits.scatter_add_(1, index, mine.to(logits.scalar_type()).neg().unsqueeze(1));
    logits.mul_((valid.to(scale.scalar_type()) * scale).unsqueeze(1));
  }
  return loss;
}

struct VocabParallelLoss : torch::autograd::Function<VocabParallelLoss> {
  static Tensor forward(AutogradContext* ctx, const Tensor& h, const Tensor& weight,
                        const Tensor& labels, const Tensor& scale, int64_t chunk, int64_t first_row,
                        const comm::Group& tp, bool with_grad,
                        const std::optional<ops::Float8Recipe>& float8) {
    const auto dtype = h.scalar_type();
    const auto wide = at::promote_types(dtype, at::kFloat);
    const int64_t tokens = h.size(0);
    Tensor total = at::zeros({}, h.options().dtype(wide));
    Tensor dh, dw;
    if (with_grad) {
      dh = at::empty_like(h);
      dw = at::zeros(weight.sizes(), weight.options().dtype(wide));
    }
    for (int64_t begin = 0; begin < tokens; begin += chunk) {
      const int64_t count = std::min(chunk, tokens - begin);
      const Tensor part = h.narrow(0, begin, count);
      const ops::OutputProduct product(part, weight, float8);
      Tensor logits = product.compute(wide);
      total.add_(
          chunk_loss(logits, labels.narrow(0, begin, count), scale, with_grad, first_row, tp));
      if (!with_grad) continue;
      const Tensor gradient = logits.to(dtype);
      dh.narrow(0, begin, count).copy_(product.input_gradient(gradient));
      dw.add_(product.weight_gradient(gradient));
    }
    if (with_grad) ctx->save_for_backward({dh, dw.to(dtype)});
    return total * scale;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor seed = grads[0].to(saved[0].scalar_type());
    variable_list result(9);
    result[0] = saved[0] * seed;
    result[1] = saved[1] * seed;
    return result;
  }
};

}  // namespace

Tensor linear_cross_entropy(const Tensor& h, const Tensor& weight, const Tensor& labels,
                            const Tensor& scale, int64_t chunk_tokens, int64_t vocab,
                            const comm::Group& tp, const std::optional<ops::Float8Recipe>& float8) {
  if (tp.size() == 1) {
    return ops::linear_cross_entropy(h, weight, labels, scale, chunk_tokens, float8);
  }
  const comm::Range rows = comm::balanced_part(vocab, tp.size(), tp.rank());
  TITAN_CHECK(weight.size(0) == rows.count, "{} rows of the vocabulary, {} expected",
              weight.size(0), rows.count);
  const bool with_grad =
      at::GradMode::is_enabled() && (h.requires_grad() || weight.requires_grad());
  // The same chunks on all ranks: sized by the longest part.
  const int64_t longest = comm::balanced_part(vocab, tp.size(), 0).count;
  const int64_t chunk = ops::loss_chunk_tokens(h.size(0), longest, chunk_tokens, h.is_cpu());
  return VocabParallelLoss::apply(h, weight, labels, scale, chunk, rows.begin, tp, with_grad,
                                  float8);
}

}  // namespace titan::nn
