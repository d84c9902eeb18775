// The lines a user watches, in the form of TorchTitan 0.2.2: same fields, order, widths and two
// blanks between fields, so that the log readers people have keep working. Pure functions of their
// arguments.
#pragma once

#include <string>

#include "observe/metrics.h"

namespace titan::observe {

// "step:  1  loss:  8.13756  grad_norm:  1.4993  memory:  1.21GiB(5.30%)  tps: 13,374  tflops: 0.52
// mfu: 12.31%" With `color`, each field is preceded by TorchTitan's ANSI colour and the line ends
// with a reset. An unknown mfu reads "N/A"; an unknown other value reads "nan", as Python prints
// it.
std::string step_line(const StepMetrics& metrics, bool color);

// "validate step:  1  loss:  7.6442  memory:  1.21GiB(5.30%)  tps: 40,120"; bits per byte follow
// when they are known: "  bits_per_byte: 2.1031".
std::string validation_line(const ValidationMetrics& metrics, bool color);

// 1234.567 -> "1,234.57": as Python's format "{:,.2f}".
std::string with_commas_and_cents(double value);

}  // namespace titan::observe
