// JSON from files that others wrote: a parser that refuses what nlohmann's lets pass (duplicate
// keys, endless nesting), and getters whose errors name file and key. `what` opens each message:
// "[checkpoint] …/config.json".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan::json {

// Throws Error when the text is no JSON, a key occurs twice in an object, or more than `max_depth`
// levels are nested.
nlohmann::json parse_strict(std::string_view text, const std::string& what, int max_depth = 64);

// Each throws Error("{what}: …") when the key is absent or of another kind.
const nlohmann::json& member(const nlohmann::json& object, const char* key,
                             const std::string& what);
std::string string_member(const nlohmann::json& object, const char* key, const std::string& what);
int64_t size_member(const nlohmann::json& object, const char* key,
                    const std::string& what);  // >= 0
double number_member(const nlohmann::json& object, const char* key, const std::string& what);
std::vector<int64_t> sizes_member(const nlohmann::json& object, const char* key,
                                  const std::string& what);

// nullopt when the key is absent or null; throws Error when it is of another kind.
std::optional<int64_t> optional_size(const nlohmann::json& object, const char* key,
                                     const std::string& what);
std::optional<double> optional_number(const nlohmann::json& object, const char* key,
                                      const std::string& what);
std::optional<std::string> optional_string(const nlohmann::json& object, const char* key,
                                           const std::string& what);
std::optional<bool> optional_bool(const nlohmann::json& object, const char* key,
                                  const std::string& what);

}  // namespace titan::json
