#include "base/error.h"

#include <gtest/gtest.h>

#include "base/env.h"

namespace titan {
namespace {

TEST(Error, ClassesCarryTheirExitCode) {
  EXPECT_EQ(Error("[x] {}", 1).code(), ExitCode::kUsage);
  EXPECT_EQ(EnvironmentError("[x]").code(), ExitCode::kEnvironment);
  EXPECT_THROW(TITAN_CHECK(1 > 2, "numbers are {}", "odd"), InternalError);
}

TEST(Env, IntegerVariablesAreChecked) {
  setenv("OMP_NUM_THREADS", "two", 1);
  EXPECT_THROW(env::get_int("OMP_NUM_THREADS"), Error);
  setenv("OMP_NUM_THREADS", "2", 1);
  EXPECT_EQ(env::get_int("OMP_NUM_THREADS"), 2);
  EXPECT_THROW(env::get("NOT_IN_THE_TABLE"), InternalError);
}

}  // namespace
}  // namespace titan
