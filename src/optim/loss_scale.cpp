#include "optim/loss_scale.h"

namespace titan::optim {

LossScale::LossScale(bool dynamic, at::Device device)
    : dynamic_(dynamic),
      scale_(at::full({}, dynamic ? kStart : 1.0, at::TensorOptions(at::kFloat).device(device))),
      good_steps_(at::zeros({}, at::TensorOptions(at::kInt).device(device))) {}

void LossScale::update(const at::Tensor& found_inf) {
  if (dynamic_)
    at::_amp_update_scale_(scale_, good_steps_, found_inf, kGrowth, kBackoff, kGrowthInterval);
}

void LossScale::restore(double scale, int64_t good_steps) {
  if (!dynamic_) return;
  scale_.fill_(scale);
  good_steps_.fill_(good_steps);
}

}  // namespace titan::optim
