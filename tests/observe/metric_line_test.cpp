#include "observe/metric_line.h"

#include <gtest/gtest.h>

#include <regex>

namespace titan::observe {
namespace {

StepMetrics sample_step() {
  StepMetrics m;
  m.step = 7;
  m.loss = 4.323871;
  m.grad_norm = 1.49934;
  m.memory_gib = 1.214;
  m.memory_percent = 5.304;
  m.tokens_per_second = 13374.5;
  m.tflops = 1234.567;
  m.mfu = 12.306;
  return m;
}

TEST(MetricLine, IsTorchTitansLine) {
  EXPECT_EQ(step_line(sample_step(), false),
            "step:  7  loss:  4.32387  grad_norm:  1.4993  memory:  1.21GiB(5.30%)  tps: 13,374  "
            "tflops: 1,234.57  mfu: 12.31%");
}

TEST(MetricLine, WideValuesKeepTheirFields) {
  StepMetrics m = sample_step();
  m.step = 120000;
  m.loss = 12345.678;
  m.grad_norm = 98765.4321;
  m.memory_gib = 139.81;
  EXPECT_EQ(step_line(m, false),
            "step: 120000  loss: 12345.67800  grad_norm: 98765.4321  memory: 139.81GiB(5.30%)  "
            "tps: 13,374  "
            "tflops: 1,234.57  mfu: 12.31%");
}

TEST(MetricLine, ColoursAreTorchTitansAndGoAwayWithoutThem) {
  const std::string line = step_line(sample_step(), true);
  EXPECT_EQ(line,
            "\033[31mstep:  7  \033[32mloss:  4.32387  \033[38;2;180;60;0mgrad_norm:  1.4993  "
            "\033[38;2;54;234;195mmemory:  1.21GiB(5.30%)  \033[34mtps: 13,374  \033[36mtflops: "
            "1,234.57  "
            "\033[35mmfu: 12.31%\033[39m");
  EXPECT_EQ(std::regex_replace(line, std::regex("\033\\[[0-9;]*m"), ""),
            step_line(sample_step(), false));
}

TEST(MetricLine, SaysWhatIsUnknown) {
  StepMetrics m = sample_step();
  m.mfu = kUnknown;
  m.loss = kUnknown;
  EXPECT_EQ(step_line(m, false),
            "step:  7  loss:      nan  grad_norm:  1.4993  memory:  1.21GiB(5.30%)  tps: 13,374  "
            "tflops: 1,234.57  mfu: N/A");
}

TEST(MetricLine, ValidationIsTorchTitansLineAndBitsPerByteFollow) {
  ValidationMetrics v;
  v.step = 10;
  v.loss = 3.59637;
  v.tokens_per_second = 40119.6;
  v.memory_gib = 1.214;
  v.memory_percent = 5.304;
  EXPECT_EQ(validation_line(v, false),
            "validate step: 10  loss:  3.5964  memory:  1.21GiB(5.30%)  tps: 40,120");
  v.bits_per_byte = 2.10312;
  EXPECT_EQ(validation_line(v, false),
            "validate step: 10  loss:  3.5964  memory:  1.21GiB(5.30%)  tps: 40,120  "
            "bits_per_byte: 2.1031");
}

TEST(MetricLine, GroupsThousandsAsPythonDoes) {
  EXPECT_EQ(with_commas_and_cents(0.5), "0.50");
  EXPECT_EQ(with_commas_and_cents(999.999), "1,000.00");
  EXPECT_EQ(with_commas_and_cents(-1234567.891), "-1,234,567.89");
  EXPECT_EQ(with_commas_and_cents(kUnknown), "nan");
}

}  // namespace
}  // namespace titan::observe
