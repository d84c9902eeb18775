// [quantize]: low-precision matrix products; each table acts when model.converters names it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace titan::config {

struct LinearFloat8 {
  bool enable_fsdp_float8_all_gather = false;
  bool precompute_float8_dynamic_scale_for_fsdp = false;
  std::optional<std::string> recipe_name;
  std::vector<std::string> filter_fqns;
  bool emulate = false;

  static constexpr void describe(auto&& field) {
    field("enable_fsdp_float8_all_gather", &LinearFloat8::enable_fsdp_float8_all_gather,
          "gather sharded parameters in float8");
    field("precompute_float8_dynamic_scale_for_fsdp",
          &LinearFloat8::precompute_float8_dynamic_scale_for_fsdp,
          "compute all scales in one step after the update");
    field("recipe_name", &LinearFloat8::recipe_name, "scaling recipe; absent: tensorwise, dynamic",
          one_of("tensorwise|rowwise|rowwise_with_gw_hp"));
    field("filter_fqns", &LinearFloat8::filter_fqns,
          "modules whose name contains one of these stay unchanged");
    field("emulate", &LinearFloat8::emulate,
          "compute with float8 values in higher precision, for tests");
  }
};
static_assert(complete<LinearFloat8>(), "describe() of LinearFloat8 misses a member");

struct GroupedFloat8 {
  std::vector<std::string> fqns;

  static constexpr void describe(auto&& field) {
    field("fqns", &GroupedFloat8::fqns, "modules whose name contains one of these are changed");
  }
};
static_assert(complete<GroupedFloat8>(), "describe() of GroupedFloat8 misses a member");

struct LinearMx {
  std::string mxfp8_dim1_cast_kernel_choice = "triton";
  std::string recipe_name = "mxfp8_cublas";
  std::vector<std::string> filter_fqns{"output"};

  static constexpr void describe(auto&& field) {
    field("mxfp8_dim1_cast_kernel_choice", &LinearMx::mxfp8_dim1_cast_kernel_choice,
          "kernel that casts along dimension 1", one_of("triton|cuda|torch"));
    field("recipe_name", &LinearMx::recipe_name, "scaling recipe");
    field("filter_fqns", &LinearMx::filter_fqns,
          "modules whose name contains one of these stay unchanged");
  }
};
static_assert(complete<LinearMx>(), "describe() of LinearMx misses a member");

struct GroupedMx {
  std::string recipe_name = "mxfp8";
  std::vector<std::string> fqns;

  static constexpr void describe(auto&& field) {
    field("recipe_name", &GroupedMx::recipe_name, "scaling recipe", one_of("mxfp8"));
    field("fqns", &GroupedMx::fqns, "modules whose name contains one of these are changed");
  }
};
static_assert(complete<GroupedMx>(), "describe() of GroupedMx misses a member");

struct QuantizeLinear {
  LinearFloat8 float8;
  LinearMx mx;

  static constexpr void describe(auto&& field) {
    field("float8", &QuantizeLinear::float8, "float8 linear layers");
    field("mx", &QuantizeLinear::mx, "MXFP8 linear layers");
  }
};
static_assert(complete<QuantizeLinear>(), "describe() of QuantizeLinear misses a member");

struct QuantizeGrouped {
  GroupedFloat8 float8;
  GroupedMx mx;

  static constexpr void describe(auto&& field) {
    field("float8", &QuantizeGrouped::float8, "float8 expert layers");
    field("mx", &QuantizeGrouped::mx, "MXFP8 expert layers");
  }
};
static_assert(complete<QuantizeGrouped>(), "describe() of QuantizeGrouped misses a member");

struct Quantize {
  QuantizeLinear linear;
  QuantizeGrouped grouped_mm;

  static constexpr void describe(auto&& field) {
    field("linear", &Quantize::linear, "linear layers");
    field("grouped_mm", &Quantize::grouped_mm, "experts");
  }
};
static_assert(complete<Quantize>(), "describe() of Quantize misses a member");

}  // namespace titan::config
