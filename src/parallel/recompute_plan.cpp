#include "parallel/recompute_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace titan::parallel {
namespace {

using ops::Kept;

RecomputePlan every(int64_t n, int64_t num_layers) {
  RecomputePlan plan(static_cast<size_t>(num_layers));
  for (int64_t i = n - 1; i < num_layers; i += n) plan[static_cast<size_t>(i)] = Kept::kNothing;
  return plan;
}

RecomputePlan by_ratio(double ratio, int64_t num_layers) {
  RecomputePlan plan(static_cast<size_t>(num_layers));
  const auto count = std::llround(ratio * static_cast<double>(num_layers));
  for (int64_t k = 0; k < count; ++k)
    plan[static_cast<size_t>((2 * k + 1) * num_layers / (2 * count))] = Kept::kNothing;
  return plan;
}

}  // namespace

RecomputePlan make_recompute_plan(const config::ActivationCheckpoint& config, int64_t num_layers) {
  if (config.mode == "none") return RecomputePlan(static_cast<size_t>(num_layers));
  if (config.checkpoint_ratio) return by_ratio(*config.checkpoint_ratio, num_layers);
  if (config.mode == "full") return every(1, num_layers);
  if (config.mode == "selective" && config.selective_ac_option == "op") {
    return RecomputePlan(static_cast<size_t>(num_layers), Kept::kExpensive);
  }
  const std::string& option = config.selective_ac_option;
  int64_t n = 0;
  const auto [end, error] = std::from_chars(option.data(), option.data() + option.size(), n);
  if (config.mode != "selective" || error != std::errc() || end != option.data() + option.size() ||
      n < 1) {
    throw Error(
        "[activation_checkpoint] mode '{}' with selective_ac_option '{}' — use mode none, full or "
        "selective, and "
        "op or a number of at least 1",
        config.mode, option);
  }
  return every(n, num_layers);
}

std::string describe(const RecomputePlan& plan) {
  const auto full = std::ranges::count(plan, std::optional(Kept::kNothing));
  const auto selective = std::ranges::count(plan, std::optional(Kept::kExpensive));
  if (full == 0 && selective == 0) return "none";
  if (selective > 0)
    return fmt::format("selective (op) in {} of {} blocks", selective, plan.size());
  return fmt::format("{} of {} blocks", full, plan.size());
}

}  // namespace titan::parallel
