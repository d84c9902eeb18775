#include "observe/metric_line.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace titan::observe {
namespace {

// The colours of TorchTitan 0.2.2's Color class; kReset is its "default foreground".
constexpr const char* kRed = "\033[31m";
constexpr const char* kGreen = "\033[32m";
constexpr const char* kYellow = "\033[33m";
constexpr const char* kBlue = "\033[34m";
constexpr const char* kMagenta = "\033[35m";
constexpr const char* kCyan = "\033[36m";
constexpr const char* kOrange = "\033[38;2;180;60;0m";
constexpr const char* kTurquoise = "\033[38;2;54;234;195m";
constexpr const char* kReset = "\033[39m";

// Joins coloured fields by two blanks.
class FieldLine {
 public:
  explicit FieldLine(bool color) : color_(color) {}

  void add(const char* color, std::string_view field) {
    if (!text_.empty()) text_ += "  ";
    if (color_) text_ += color;
    text_ += field;
  }

  std::string take() {
    if (color_) text_ += kReset;
    return std::move(text_);
  }

 private:
  bool color_;
  std::string text_;
};

// Whole tokens per second, rounded half to even as Python's round() does (the default rounding mode
// of llrint).
std::string rounded(double tokens_per_second) {
  if (!std::isfinite(tokens_per_second)) return "nan";
  return text::with_commas(std::llrint(tokens_per_second));
}

std::string memory_field(double gib, double percent) {
  return fmt::format("memory: {:>5.2f}GiB({:.2f}%)", gib, percent);
}

}  // namespace

std::string with_commas_and_cents(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const std::string plain = fmt::format("{:.2f}", std::abs(value));
  const size_t point = plain.size() - 3;
  const std::string whole = text::with_commas(std::stoll(plain.substr(0, point)));
  return (std::signbit(value) ? "-" : "") + whole + plain.substr(point);
}

std::string step_line(const StepMetrics& metrics, bool color) {
  FieldLine line(color);
  line.add(kRed, fmt::format("step: {:2}", metrics.step));
  line.add(kGreen, fmt::format("loss: {:>8.5f}", metrics.loss));
  line.add(kOrange, fmt::format("grad_norm: {:>7.4f}", metrics.grad_norm));
  line.add(kTurquoise, memory_field(metrics.memory_gib, metrics.memory_percent));
  line.add(kBlue, "tps: " + rounded(metrics.tokens_per_second));
  line.add(kCyan, "tflops: " + with_commas_and_cents(metrics.tflops));
  line.add(kMagenta,
           std::isfinite(metrics.mfu) ? fmt::format("mfu: {:.2f}%", metrics.mfu) : "mfu: N/A");
  return line.take();
}

std::string validation_line(const ValidationMetrics& metrics, bool color) {
  FieldLine line(color);
  line.add(kYellow, fmt::format("validate step: {:2}", metrics.step));
  line.add(kGreen, fmt::format("loss: {:>7.4f}", metrics.loss));
  line.add(kTurquoise, memory_field(metrics.memory_gib, metrics.memory_percent));
  line.add(kBlue, "tps: " + rounded(metrics.tokens_per_second));
  if (metrics.bits_per_byte)
    line.add(kGreen, fmt::format("bits_per_byte: {:.4f}", *metrics.bits_per_byte));
  return line.take();
}

}  // namespace titan::observe
