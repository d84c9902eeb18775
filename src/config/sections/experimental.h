// [experimental]: hooks of TorchTitan that name Python modules.
#pragma once

#include <string>

#include "config/field.h"

namespace titan::config {

struct Experimental {
  std::string custom_import = "";
  std::string custom_args_module = "";

  static constexpr void describe(auto&& field) {
    field("custom_import", &Experimental::custom_import, "Python module imported at start");
    field("custom_args_module", &Experimental::custom_args_module,
          "older name of job.custom_config_module");
  }
};
static_assert(complete<Experimental>(), "describe() of Experimental misses a member");

}  // namespace titan::config
