#include "optim/loss_scale.h"

namespace titan::optim {

LossScale::LossScale(bool dynamic, at::Device device)
    : dynamic_(dynamic),
      scale_(at::full({}, dynamic ? kStart : 1.0, at::TensorOptions(at::kFloat).device(device))),
      good_steps_(at::zeros({}, at::TensorOptions(at::kInt).device(device))) {}

void LossScale::update(const at::Tensor& found_inf) {
  if (!dynamic_) return;
  if (!scale_.is_privateuseone()) {
    at::_amp_update_scale_(scale_, good_steps_, found_inf, kGrowth, kBackoff, kGrowthInterval);
    return;
  }
  // torch_npu hands its kernel the factors as doubles where CANN's reads floats.
  const at::Tensor good = (good_steps_ + 1).masked_fill_(found_inf.to(at::kBool), 0);
  const at::Tensor grows = good.eq(kGrowthInterval);
  const at::Tensor factor = 1 + (kBackoff - 1) * found_inf + (kGrowth - 1) * grows.to(at::kFloat);
  const at::Tensor next = scale_ * factor;  // exact: factors are powers of two
  scale_.copy_(at::where(next.isfinite(), next, scale_));
  good_steps_.copy_(good.masked_fill_(grows, 0));
}

void LossScale::restore(double scale, int64_t good_steps) {
  if (!dynamic_) return;
  scale_.fill_(scale);
  good_steps_.fill_(good_steps);
}

}  // namespace titan::optim
