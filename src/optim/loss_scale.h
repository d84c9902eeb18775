// Dynamic loss scaling for float16 (Micikevicius et al. 2018, arXiv 1710.03740, section 3.2): halve
// on overflow, double after a run of good steps. Everything stays on the device.
#pragma once

#include <ATen/ATen.h>

namespace titan::optim {

class LossScale {
 public:
  // Fixed at 1 unless dynamic.
  LossScale(bool dynamic, at::Device device);

  bool dynamic() const { return dynamic_; }
  const at::Tensor& scale() const { return scale_; }  // 0-dim float32
  const at::Tensor& good_steps() const {
    return good_steps_;
  }  // 0-dim int32: steps since the last change
  // found_inf: 0-dim float32, 1 when this step overflowed.
  void update(const at::Tensor& found_inf);
  // From a checkpoint; ignored when the scale is fixed.
  void restore(double scale, int64_t good_steps);

 private:
  static constexpr double kStart = 65536, kGrowth = 2, kBackoff = 0.5;
  static constexpr int64_t kGrowthInterval = 2000;

  bool dynamic_;
  at::Tensor scale_, good_steps_;
};

}  // namespace titan::optim
