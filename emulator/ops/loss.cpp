// Losses. A reduction is 0: none, 1: mean, 2: sum.
#include <ATen/ATen.h>

#include "ops/operator.h"

using namespace cannemu::ops;

ACLNN(NLLLoss, Tensor x, Tensor target, Tensor weight, int64_t reduction, int64_t ignored,
      Tensor out, Tensor total) {
  const auto [loss, sum] =
      at::nll_loss_forward(x, target.to(at::kLong), weight, reduction, ignored);
  put(out, loss);
  put(total, sum);
}
ACLNN(NLLLossBackward, Tensor grad, Tensor x, Tensor target, Tensor weight, int64_t reduction,
      int64_t ignored, Tensor total, Tensor out) {
  put(out, at::nll_loss_backward(grad, x, target.to(at::kLong), weight, reduction, ignored, total));
}
ACLNN(MseLoss, Tensor x, Tensor y, int64_t reduction, Tensor out) {
  put(out, at::mse_loss(x, y, reduction));
}

// Fused cross entropy: logits [N, C], targets [N]. Only an ignored index of 0 or more masks
// anything on a chip, so a negative target is refused here rather than read out of bounds.
namespace {

constexpr const char* kNoZLoss =
    "CANN computes no z-loss: lse_square_scale_for_zloss and return_zloss have no effect on a "
    "chip, "
    "so they are refused here — compute it beside the loss, from a logsumexp of the logits";

struct CrossEntropy {
  Tensor weight;  // [C], ones when none is given
  Tensor keep;    // [N], 0 where the target is ignored
  Tensor target;  // [N] int64
  Tensor at_target() const {
    return weight.index_select(0, target) * keep;
  }  // weights of the targets
};

CrossEntropy cross_entropy(const Tensor& log_probability, const Tensor& target,
                           const Tensor& weight, int64_t ignored) {
  const Tensor t = target.to(at::kLong);
  const int64_t classes = log_probability.size(1);
  TORCH_CHECK(at::logical_and(t.ge(0), t.lt(classes)).all().item<bool>(),
              "a target outside of 0 … ", classes - 1,
              ": fused cross entropy masks only a non-negative ignore_index");
  const Tensor keep = ignored >= 0 ? t.ne(ignored).to(at::kFloat) : at::ones({t.size(0)});
  return {present(weight) ? weight.to(at::kFloat) : at::ones({classes}), keep, t};
}

}  // namespace

ACLNN(CrossEntropyLoss, Tensor x, Tensor target, Tensor weight, Text reduction, int64_t ignored,
      double smoothing, double z_scale, bool return_z, Tensor loss, Tensor log_probability, Tensor,
      Tensor) {
  TORCH_CHECK(z_scale == 0 && !return_z, kNoZLoss);
  const Tensor log_p = at::log_softmax(x.to(at::kFloat), 1);
  const CrossEntropy terms = cross_entropy(log_p, target, weight, ignored);
  const Tensor weights = terms.at_target();
  const Tensor hard = -log_p.gather(1, terms.target.unsqueeze(1)).squeeze(1) * weights;
  const Tensor soft = -(log_p * terms.weight).sum(1) * terms.keep;
  Tensor each = (1 - smoothing) * hard + soft * (smoothing / static_cast<double>(x.size(1)));
  if (reduction == "mean") each = each.sum() / weights.sum();
  if (reduction == "sum") each = each.sum();
  put(loss, each);
  put(log_probability, log_p);
}

ACLNN(CrossEntropyLossGrad, Tensor grad, Tensor log_probability, Tensor target, Tensor weight,
      Tensor grad_z, Tensor, Text reduction, int64_t ignored, double smoothing, double z_scale,
      Tensor out) {
  TORCH_CHECK(z_scale == 0 && !present(grad_z), kNoZLoss);
  const Tensor p = log_probability.to(at::kFloat).exp();
  const CrossEntropy terms = cross_entropy(p, target, weight, ignored);
  const Tensor weights = terms.at_target();
  Tensor scale = grad.to(at::kFloat).reshape({-1}).expand({p.size(0)});
  if (reduction == "mean") scale = scale / weights.sum();
  const Tensor one_hot = at::one_hot(terms.target, p.size(1)).to(at::kFloat);
  const Tensor hard = (p - one_hot) * weights.unsqueeze(1);
  const Tensor soft = (p * terms.weight.sum() - terms.weight) * terms.keep.unsqueeze(1);
  put(out, ((1 - smoothing) * hard + soft * (smoothing / static_cast<double>(p.size(1)))) *
               scale.unsqueeze(1));
}

// ---- further losses; the last argument is the output ----
ACLNN(MseLossBackward, Tensor grad, Tensor x, Tensor y, int64_t reduction, Tensor out) {
  put(out, at::mse_loss_backward(grad, x, y, reduction));
}
ACLNN(L1Loss, Tensor x, Tensor y, int64_t reduction, Tensor out) {
  put(out, at::l1_loss(x, y, reduction));
}
ACLNN(L1LossBackward, Tensor grad, Tensor x, Tensor y, int64_t reduction, Tensor out) {
  const double share =
      reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(x.numel()) : 1.0;
  put(out, at::sign(x - y) * grad * share);
}
ACLNN(SmoothL1Loss, Tensor x, Tensor y, int64_t reduction, float beta, Tensor out) {
  put(out, at::smooth_l1_loss(x, y, reduction, beta));
}
ACLNN(SmoothL1LossBackward, Tensor grad, Tensor x, Tensor y, int64_t reduction, float beta,
      Tensor out) {
  put(out, at::smooth_l1_loss_backward(grad, x, y, reduction, beta));
}
ACLNN(KlDiv, Tensor x, Tensor target, int64_t reduction, bool log_target, Tensor out) {
  put(out, at::kl_div(x, target, reduction, log_target));
}
static Tensor mean_share(const Tensor& grad, const Tensor& like, int64_t reduction) {
  return reduction == at::Reduction::Mean ? grad / like.numel() : grad;
}
ACLNN(KlDivBackward, Tensor grad, Tensor x, Tensor target, int64_t reduction, bool log_target,
      Tensor out) {
  const Tensor weight = log_target ? target.exp() : target.clamp_min(0);
  put(out, (-weight * mean_share(grad, x, reduction)).expand(x.sizes()));
}
ACLNN(BinaryCrossEntropyWithLogits, Tensor x, Tensor target, Tensor weight, Tensor positive,
      int64_t reduction, Tensor out) {
  put(out, at::binary_cross_entropy_with_logits(x, target, weight, positive, reduction));
}
ACLNN(BinaryCrossEntropyWithLogitsBackward, Tensor grad, Tensor x, Tensor target, Tensor weight,
      Tensor positive, int64_t reduction, Tensor out) {
  const Tensor p = at::sigmoid(x);
  Tensor each = p - target;
  if (present(positive)) {
    const Tensor yes = positive * target;
    each = (yes + 1 - target) * p - yes;
  }
  if (present(weight)) each = each * weight;
  put(out, each * mean_share(grad, x, reduction));
}
