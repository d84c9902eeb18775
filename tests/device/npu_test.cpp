// What the core knows of NPUs without their module: the environment that it sets, error codes in
// words, peak rates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "device/npu/environment.h"
#include "device/npu/error_codes.h"
#include "device/npu/peak_flops.h"

namespace titan::device::npu {
namespace {

using testing::HasSubstr;
using testing::Not;

// Sets a variable for one test.
class Exported {
 public:
  Exported(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Exported() { unsetenv(name_); }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;

 private:
  const char* name_;
};

constexpr const char* kAllocator = "PYTORCH_NPU_ALLOC_CONF";

std::string message_of(const std::vector<Setting>& asked) {
  try {
    plan_environment(asked);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(NpuEnvironment, DefaultsYieldToTheConfigAndThatToExports) {
  const std::string plain = describe(plan_environment({}));
  EXPECT_THAT(plain, HasSubstr("TASK_QUEUE_ENABLE=2 (default)"));
  EXPECT_THAT(plain, HasSubstr("PYTORCH_NPU_ALLOC_CONF=expandable_segments:True (default)"));
  EXPECT_THAT(plain, Not(HasSubstr("HCCL_DETERMINISTIC")));
  const std::vector<Setting> asked = {{"TASK_QUEUE_ENABLE", "1", "[npu] task_queue"}};
  EXPECT_THAT(describe(plan_environment(asked)),
              HasSubstr("TASK_QUEUE_ENABLE=1 ([npu] task_queue)"));
  const Exported queue("TASK_QUEUE_ENABLE", "0");
  EXPECT_THAT(describe(plan_environment(asked)), HasSubstr("TASK_QUEUE_ENABLE=0 (exported)"));
}

TEST(NpuEnvironment, PlanningSetsNothingAndApplyingSetsWhatIsNotExported) {
  const Exported queue("TASK_QUEUE_ENABLE", "0");
  const auto plan = plan_environment({{"HCCL_EXEC_TIMEOUT", "77", "test"}});
  EXPECT_EQ(std::getenv("HCCL_EXEC_TIMEOUT"), nullptr);
  apply_environment(plan);
  EXPECT_STREQ(std::getenv("HCCL_EXEC_TIMEOUT"), "77");
  EXPECT_STREQ(std::getenv("TASK_QUEUE_ENABLE"), "0");
  for (const auto& setting : plan) unsetenv(setting.variable);
}

TEST(NpuEnvironment, RefusesExpandableSegmentsThatAreSplitOrCollected) {
  for (const char* other : {"max_split_size_mb:64", "garbage_collection_threshold:0.8"}) {
    const std::string value = std::string("expandable_segments:True,") + other;
    const std::string name(other, std::string_view(other).find(':'));
    EXPECT_THAT(message_of({{kAllocator, value, "[npu] max_split_size_mb"}}), HasSubstr(name));
    const Exported exported(kAllocator, value.c_str());
    EXPECT_THAT(message_of({}), HasSubstr("exported"));
  }
  EXPECT_EQ(message_of({{kAllocator, "max_split_size_mb:64", "[npu]"}}), "");
}

TEST(NpuEnvironment, TheNewerNameOfTheAllocatorsVariableCounts) {
  const Exported generic("PYTORCH_ALLOC_CONF", "max_split_size_mb:64");
  EXPECT_THAT(describe(plan_environment({})), Not(HasSubstr(kAllocator)));
  const Exported both(kAllocator, "expandable_segments:True");
  EXPECT_THAT(message_of({}), HasSubstr("PYTORCH_ALLOC_CONF"));
}

TEST(NpuErrors, CodesArePutIntoWords) {
  EXPECT_THAT(
      explain_error("HCCL function error: ... EI0006: wait socket establish timeout").value_or(""),
      HasSubstr("could not connect"));
  EXPECT_THAT(explain_error("NPU function error: c10_npu::SynchronizeDevice, error code is 507015")
                  .value_or(""),
              HasSubstr("AI core"));
  EXPECT_THAT(explain_error("error code is 107001[ERROR] ...").value_or(""),
              HasSubstr("ASCEND_RT_VISIBLE_DEVICES"));
  // HCCL's report says more than the code of the call.
  EXPECT_THAT(explain_error("error code is 507015, EI0002 notify wait timeout").value_or(""),
              HasSubstr("EI0002"));
  for (const char* text : {"", "nothing known", "at 1507015 bytes", "XEI00061"}) {
    EXPECT_EQ(explain_error(text), std::nullopt) << text;
  }
}

TEST(NpuPeakFlops, KnowsTheChips) {
  EXPECT_EQ(peak_flops_of("Ascend910B2").per_second, 376e12);
  EXPECT_EQ(peak_flops_of("Ascend910B4-1").per_second, 280e12);
  EXPECT_EQ(peak_flops_of("Ascend910_9391").per_second, 376e12);
  EXPECT_EQ(peak_flops_of("Ascend950PR_9579").per_second, 500e12);
  EXPECT_THAT(peak_flops_of("Ascend1").source, HasSubstr("unknown chip 'Ascend1'"));
  EXPECT_EQ(family_of("Ascend910_9391"), "Atlas A3");
  EXPECT_EQ(family_of("Ascend1"), "");
  for (const char* chip : {"Ascend910B2", "Ascend910_9391", "Ascend950PR_9579", "Ascend1"}) {
    EXPECT_EQ(chip_problem(chip), std::nullopt) << chip;
  }
  EXPECT_THAT(chip_problem("Ascend910B").value_or(""), HasSubstr("bfloat16"));
  EXPECT_THAT(chip_problem("Ascend310P3").value_or(""), HasSubstr("inference"));
}

}  // namespace
}  // namespace titan::device::npu
