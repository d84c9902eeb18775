// JSON as checkpoints need it: a parser that refuses what nlohmann's lets pass (duplicate keys), and getters whose errors
// name file and key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace titan::checkpoint {

// `what` opens every error message ("[checkpoint] …/model.safetensors: header"). Throws Error when the text is no JSON, a
// key occurs twice in an object, or more than `max_depth` levels are nested.
nlohmann::json parse_strict_json(std::string_view text, const std::string& what, int max_depth = 64);

// Each throws Error("{what}: …") when the key is absent or of another kind.
const nlohmann::json& member(const nlohmann::json& object, const char* key, const std::string& what);
std::string string_member(const nlohmann::json& object, const char* key, const std::string& what);
int64_t size_member(const nlohmann::json& object, const char* key, const std::string& what);  // >= 0
std::vector<int64_t> sizes_member(const nlohmann::json& object, const char* key, const std::string& what);

}  // namespace titan::checkpoint
