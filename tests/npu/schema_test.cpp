// The operators that titan calls are the ones that the installed torch_npu registers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include "ops/npu_ops.h"
#include "ops/npu_schemas.h"

namespace titan::ops::npu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(NpuSchemas, AreThoseOfTheInstalledTorchNpu) {
  for (const auto& schema : npu_schemas()) {
    EXPECT_EQ(schema_difference(schema, TITAN_TORCH_NPU_VERSION).value_or(""), "");
  }
}

std::string difference(const char* text) {
  return schema_difference({"npu::npu_swiglu", text}, "9.8.7").value_or("none");
}

TEST(NpuSchemas, ADifferenceNamesOperatorArgumentAndVersion) {
  EXPECT_EQ(difference("npu::npu_swiglu(Tensor input, int dim=-1) -> Tensor"), "none");
  EXPECT_THAT(difference("npu::npu_swiglu(Tensor input, int dim=0) -> Tensor"),
              AllOf(HasSubstr("npu::npu_swiglu"), HasSubstr("int dim=-1"), HasSubstr("int dim=0"),
                    HasSubstr("9.8.7")));
  EXPECT_THAT(difference("npu::npu_swiglu(Tensor self, int dim=-1) -> Tensor"),
              AllOf(HasSubstr("Tensor input"), HasSubstr("Tensor self")));
  EXPECT_THAT(difference("npu::npu_swiglu(Tensor input, float dim=-1.) -> Tensor"),
              HasSubstr("float dim=-1."));
  EXPECT_THAT(difference("npu::npu_swiglu(Tensor input) -> Tensor"), HasSubstr("int dim=-1"));
  EXPECT_THAT(difference("npu::npu_swiglu(Tensor input, int dim=-1) -> (Tensor, Tensor)"),
              HasSubstr("returns"));
  EXPECT_THAT(
      schema_difference({"npu::npu_no_such", "npu::npu_no_such() -> Tensor"}, "9.8.7").value_or(""),
      AllOf(HasSubstr("npu::npu_no_such"), HasSubstr("9.8.7")));
}

TEST(NpuSchemas, AnotherTextIsAcceptedToo) {
  const Schema schema{"npu::npu_swiglu",
                      "npu::npu_swiglu(Tensor input, int dim=-1, int x=0) -> Tensor",
                      "npu::npu_swiglu(Tensor input, int dim=-1) -> Tensor"};
  EXPECT_EQ(schema_difference(schema, "9.8.7").value_or(""), "");
}

// Two versions of one operator: what the call handed over.
int64_t older(int64_t a) { return a; }
int64_t newer(int64_t a, int64_t b, int64_t c) { return 100 * a + 10 * b + c; }

TEST(NpuSchemas, TheFormOfACallIsTheRegisteredOne) {
  torch::Library define(torch::Library::DEF, "titan_schema_test", std::nullopt, __FILE__, __LINE__);
  define.def("older(int a) -> int", &older);
  define.def("newer(int a, int b, int c) -> int", &newer);
  using Form = Grown<int64_t(int64_t), int64_t, int64_t>;
  EXPECT_EQ(Form("titan_schema_test::older", "b").call(7, 8, 9), 7);
  EXPECT_EQ(Form("titan_schema_test::newer", "b").call(7, 8, 9), 789);
  using Forms = Either<int64_t(int64_t), int64_t(int64_t, int64_t, int64_t)>;
  const Forms one("titan_schema_test::older", "b"), other("titan_schema_test::newer", "b");
  EXPECT_TRUE(one.first && !one.second && !other.first && other.second);
  EXPECT_EQ(one.first->call(7), 7);
  EXPECT_EQ(other.second->call(7, 8, 9), 789);
}

}  // namespace
}  // namespace titan::ops::npu
