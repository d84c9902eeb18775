#include "observe/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "base/text.h"

namespace titan::observe {
namespace {

constexpr int64_t kWindowSteps = 50;
constexpr double kDrawEvery_s = 0.2;

}  // namespace

void TimeLeft::step_done(int64_t step, double now_s) {
  step_ = step;
  if (seen_ >= 1) {
    const double weight = 1.0 / static_cast<double>(std::min(seen_, kWindowSteps));
    step_s_ += weight * (now_s - last_s_ - step_s_);
  }
  ++seen_;
  last_s_ = now_s;
}

std::optional<double> TimeLeft::seconds() const {
  if (seen_ < 2) return std::nullopt;
  return step_s_ * static_cast<double>(std::max<int64_t>(0, total_steps_ - step_));
}

std::string progress_text(int64_t step, int64_t total_steps, std::optional<double> eta_s,
                          double elapsed_s) {
  std::string text = "step " + text::with_commas(step);
  if (total_steps > 0) {
    const double percent = 100.0 * static_cast<double>(step) / static_cast<double>(total_steps);
    text += fmt::format("/{} ({:.1f}%)", text::with_commas(total_steps), percent);
  }
  if (eta_s && total_steps > 0) text += "  eta " + text::duration(*eta_s);
  return text + "  elapsed " + text::duration(elapsed_s);
}

void Progress::step_done(int64_t step) {
  const double now = clock_.seconds();
  time_left_.step_done(step, now);
  if (next_s_ < 0) next_s_ = options_.on_terminal ? 0 : options_.line_every_s / 6;
  if (now < next_s_) return;
  const std::string text = progress_text(step, options_.total_steps, time_left_.seconds(), now);
  if (options_.on_terminal) {
    // The cursor goes back to the line's beginning, so that a log line of any other code overwrites
    // the status.
    std::fprintf(stdout, "\033[2K%s\r", text.c_str());
    std::fflush(stdout);
    drawn_ = true;
    next_s_ = now + kDrawEvery_s;
  } else {
    if (step < options_.total_steps) log::info("progress: {}", text);
    next_s_ = now + options_.line_every_s;
  }
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\033[2K", stdout);
  std::fflush(stdout);
  drawn_ = false;
}

}  // namespace titan::observe
