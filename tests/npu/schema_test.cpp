// The operators that titan calls are the ones that the installed torch_npu registers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace titan::ops::npu
