#include "generate/tokenizer_choice.h"

#include <toml++/toml.h>

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/loader.h"

namespace titan::generate {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "tokenizer.model", "tekken.json"};

bool holds_tokenizer(const fs::path& folder) {
  for (const char* name : kTokenizerFiles) {
    if (fs::exists(folder / name)) return true;
  }
  return false;
}

struct TrainedWith {
  fs::path tokenizer;  // as the config has it; empty when it names none
  fs::path dump_folder;
};

TrainedWith read_config(const nlohmann::json& state) {
  if (!state.is_object() || !state.contains("config") || !state["config"].is_string()) return {};
  toml::table root;
  try {
    root = toml::parse(state["config"].get_ref<const std::string&>());
  } catch (const toml::parse_error&) {
    return {};  // not a config of this version: the user is asked for --tokenizer
  }
  const auto text_of = [&](const char* section, const char* key) {
    return root[section][key].value_or(std::string());
  };
  const std::string older = text_of("model", "tokenizer_path");
  return {older.empty() ? text_of("model", "hf_assets_path") : older,
          text_of("job", "dump_folder")};
}

// Where the tokenizer of a run may lie now, most likely first.
std::vector<fs::path> places(const TrainedWith& trained, const fs::path& run_folder) {
  std::vector<fs::path> found;
  if (trained.tokenizer.empty()) return found;
  found.push_back(trained.tokenizer);
  if (run_folder.empty() || trained.dump_folder.empty()) return found;
  const auto inside = trained.tokenizer.lexically_normal().lexically_relative(
      (trained.dump_folder / "").lexically_normal());
  if (!inside.empty() && *inside.begin() != "..") found.push_back(run_folder / inside);
  return found;
}

}  // namespace

TokenizerChoice choose_tokenizer(const fs::path& given, const Source& source,
                                 const nlohmann::json& state) {
  if (!given.empty()) return {given, "given by --tokenizer"};
  if (holds_tokenizer(source.folder)) return {source.folder, "in the model's folder"};
  const auto tried = places(read_config(state), source.run_folder);
  for (const auto& place : tried) {
    if (fs::exists(place)) return {place, "that the run was trained with"};
  }
  if (tried.empty()) {
    throw Error(
        "[generate] no tokenizer is in {}, and no config of a run names one — give --tokenizer "
        "PATH",
        source.folder.string());
  }
  std::vector<std::string> names;
  for (const auto& place : tried) names.push_back(fs::absolute(place).lexically_normal().string());
  throw Error(
      "[generate] the run was trained with the tokenizer {}, which is not there (looked at {}) — "
      "give --tokenizer "
      "PATH",
      tried.front().string(), text::join(names, ", "));
}

std::string check_tokenizer(const data::Tokenizer& tokenizer, const TokenizerChoice& choice,
                            int64_t model_vocab_size, const nlohmann::json& state) {
  if (tokenizer.vocab_size() > model_vocab_size) {
    throw Error(
        "[generate] the tokenizer {} has ids up to {}, the model has {} rows of vocabulary — they "
        "do not belong "
        "together, give the model's own with --tokenizer",
        choice.path.string(), tokenizer.vocab_size() - 1, model_vocab_size);
  }
  const auto trained = state.is_object() && state.contains("data")
                           ? state["data"].value("tokenizer", "")
                           : std::string();
  if (trained.empty() || trained == data::tokenizer_fingerprint(tokenizer)) return "";
  return fmt::format(
      "the tokenizer {} gives other ids than the one the model was trained with: the text may make "
      "no sense",
      choice.path.string());
}

}  // namespace titan::generate
