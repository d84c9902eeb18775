// Reads the compatibility table against a configuration, and knows which model families are built.
#include "config/compatibility.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "config/schema.h"

namespace titan::config {
namespace {

constexpr const char* kFamilies[] = {"llama2",      "llama3", "qwen3",
                                     "deepseek_v3", "llama4", "gpt_oss",
                                     "flux",        "vlm",    "transformers_modeling_backend"};
constexpr size_t kNumBuiltFamilies = 3;

std::vector<Finding> findings(const JobConfig& config, std::span<const Support> kinds) {
  JobConfig copy = config;
  const auto all = keys(copy);
  std::vector<Finding> out;
  for (const Row& row : compatibility()) {
    if (!row.when || std::ranges::find(kinds, row.support) == kinds.end() || !row.when(config))
      continue;
    const Key* key = find(all, row.key);
    TITAN_CHECK(key, "the compatibility table names '{}', which is no key", row.key);
    out.push_back({row.key, fmt::format("{} = {}: {}", row.key, to_text(get(*key)), row.note)});
  }
  return out;
}

}  // namespace

const Row* find_row(std::string_view key) {
  const auto rows = compatibility();
  const auto found = std::ranges::find_if(rows, [&](const Row& row) { return key == row.key; });
  return found == rows.end() ? nullptr : &*found;
}

std::vector<Finding> not_built(const JobConfig& config) {
  static constexpr Support kKinds[] = {Support::kPartly, Support::kNotBuilt};
  return findings(config, kKinds);
}

std::vector<Finding> without_effect(const JobConfig& config) {
  static constexpr Support kKinds[] = {Support::kNoEffect};
  return findings(config, kKinds);
}

std::span<const char* const> known_families() { return kFamilies; }

bool is_built_family(std::string_view name) {
  return std::find(kFamilies, kFamilies + kNumBuiltFamilies, name) != kFamilies + kNumBuiltFamilies;
}

bool is_built_flavor(std::string_view family, std::string_view flavor) {
  if (flavor.ends_with("_moe")) return false;
  // Qwen3 names its mixtures of experts by total and active size: 30B-A3B.
  const auto cut = flavor.find("-A");
  const bool mixture = cut != std::string_view::npos && cut + 2 < flavor.size() &&
                       std::isdigit(static_cast<unsigned char>(flavor[cut + 2]));
  return !(family == "qwen3" && mixture);
}

}  // namespace titan::config
