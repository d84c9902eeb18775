#include "device/npu/environment.h"

#include <algorithm>
#include <string_view>

#include "base/env.h"
#include "base/error.h"
#include "base/text.h"

namespace titan::device::npu {
namespace {

constexpr const char* kAllocator = "PYTORCH_NPU_ALLOC_CONF";

struct Default {
  const char* variable;
  const char* value;  // empty: not set unless asked for
};

constexpr const char* kRoute = "TITAN_NPU_ROUTE";

constexpr Default kDefaults[] = {
    {kRoute, "shim"},
    // Segments that grow leave no gaps between blocks of different sizes.
    {kAllocator, "expandable_segments:True"},
    // A thread of its own launches the work, and makes its work space too.
    {"TASK_QUEUE_ENABLE", "2"},
    {"MULTI_STREAM_MEMORY_REUSE", "1"},
    {"CPU_AFFINITY_CONF", ""},
    {"ASCEND_LAUNCH_BLOCKING", ""},
    {"HCCL_CONNECT_TIMEOUT", ""},
    {"HCCL_EXEC_TIMEOUT", ""},
    {"HCCL_DETERMINISTIC", ""},
    {"CLOSE_MATMUL_K_SHIFT", ""},
};

const Setting* find(const std::vector<Setting>& settings, std::string_view variable) {
  for (const auto& setting : settings) {
    if (variable == setting.variable) return &setting;
  }
  return nullptr;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void refuse_conflicts(const std::vector<Setting>& plan) {
  const Setting* allocator = find(plan, kAllocator);
  if (!allocator) return;
  const std::string value = lower(allocator->value);
  if (value.find("expandable_segments:true") == std::string::npos) return;
  for (const char* other : {"max_split_size_mb", "garbage_collection_threshold"}) {
    if (value.find(other) == std::string::npos) continue;
    throw Error(
        "[npu] {}={} ({}): expandable segments are never split or collected, so {} cannot be "
        "combined with them — keep one of the two",
        kAllocator, allocator->value, allocator->source, other);
  }
  if (const auto generic = env::get("PYTORCH_ALLOC_CONF");
      generic && allocator->source == "exported") {
    throw Error(
        "[npu] PYTORCH_ALLOC_CONF={} and {}={} are both exported, and torch_npu takes only one — "
        "unset one of them",
        *generic, kAllocator, allocator->value);
  }
}

}  // namespace

std::vector<Setting> plan_environment(const std::vector<Setting>& asked) {
  std::vector<Setting> plan;
  for (const auto& row : kDefaults) {
    const Setting* wanted = find(asked, row.variable);
    // The older name of the allocator's variable stays unset where the newer one is exported.
    const bool replaced =
        std::string_view(row.variable) == kAllocator && env::get("PYTORCH_ALLOC_CONF").has_value();
    if (const auto exported = env::get(row.variable)) {
      plan.push_back({row.variable, *exported, "exported"});
    } else if (replaced) {
      continue;
    } else if (wanted) {
      plan.push_back(*wanted);
    } else if (*row.value) {
      plan.push_back({row.variable, row.value, "default"});
    }
  }
  for (const auto& setting : asked) {
    const bool known = std::ranges::any_of(kDefaults, [&](const Default& row) {
      return std::string_view(row.variable) == setting.variable;
    });
    TITAN_CHECK(known, "{} is no variable of the NPU's environment", setting.variable);
  }
  refuse_conflicts(plan);
  return plan;
}

void apply_environment(const std::vector<Setting>& plan) {
  for (const auto& setting : plan) env::set_default(setting.variable, setting.value.c_str());
}

bool through_python(const std::vector<Setting>& asked) {
  const Setting* wanted = find(asked, kRoute);
  const auto exported = env::get(kRoute);
  if (!exported && !wanted) return false;
  const Setting route = exported ? Setting{kRoute, *exported, "exported"} : *wanted;
  if (route.value != "shim" && route.value != "python") {
    throw Error("[npu] {}={} ({}) is no way to torch_npu — set it to shim or python", kRoute,
                route.value, route.source);
  }
  return route.value == "python";
}

std::string describe(const std::vector<Setting>& plan) {
  std::vector<std::string> parts;
  for (const auto& setting : plan) {
    parts.push_back(fmt::format("{}={} ({})", setting.variable, setting.value, setting.source));
  }
  return text::join(parts, ", ");
}

}  // namespace titan::device::npu
