#include "data/dataset.h"

#include <glob.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "data/sources/file_format.h"

namespace titan::data {
namespace fs = std::filesystem;
namespace {

// --- splits ---

constexpr std::string_view kTrainWords[] = {"train", "training"};
constexpr std::string_view kValidationWords[] = {"validation", "valid", "val", "dev", "eval"};
constexpr std::string_view kTestWords[] = {"test", "testing"};

std::set<std::string> words_of(std::string_view name) {
  std::set<std::string> words;
  std::string word;
  for (const char c : text::lower_ascii(name) + "/") {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      word += c;
    } else if (!word.empty()) {
      words.insert(std::move(word));
      word.clear();
    }
  }
  return words;
}

bool has_any(const std::set<std::string>& words, std::span<const std::string_view> wanted) {
  return std::ranges::any_of(
      wanted, [&](std::string_view word) { return words.contains(std::string(word)); });
}

enum class NamedSplit { kNone, kTrain, kValidation, kTest };

NamedSplit split_of(std::string_view name) {
  const auto words = words_of(name);
  if (has_any(words, kTrainWords)) return NamedSplit::kTrain;
  if (has_any(words, kValidationWords)) return NamedSplit::kValidation;
  if (has_any(words, kTestWords)) return NamedSplit::kTest;
  return NamedSplit::kNone;
}

// When the names in a folder speak of splits, only the wanted split's files are the data set.
void keep_split(std::vector<DataFile>& files, Split split, Dataset& dataset) {
  std::vector<NamedSplit> splits;
  for (const auto& file : files) splits.push_back(split_of(file.name));
  const auto has = [&](NamedSplit s) { return std::ranges::find(splits, s) != splits.end(); };
  NamedSplit wanted = split == Split::kTrain ? NamedSplit::kTrain : NamedSplit::kValidation;
  if (wanted == NamedSplit::kValidation && !has(wanted)) wanted = NamedSplit::kTest;
  if (!has(wanted)) return;
  std::vector<DataFile> kept;
  for (size_t i = 0; i < files.size(); ++i) {
    if (splits[i] == wanted) kept.push_back(std::move(files[i]));
  }
  if (kept.size() < files.size()) {
    dataset.note = fmt::format("{} of {} files, those of the {} split by their names", kept.size(),
                               files.size(),
                               wanted == NamedSplit::kTrain        ? "train"
                               : wanted == NamedSplit::kValidation ? "validation"
                                                                   : "test");
  }
  files = std::move(kept);
}

// --- folders ---

// Reads a JSON file and takes `value_of(json)`, which may throw where the content is not as it
// should be.
auto from_json_file(const fs::path& path, auto value_of) {
  try {
    return value_of(nlohmann::json::parse(files::read(path)));
  } catch (const nlohmann::json::exception& error) {
    throw Error("[data] {} is damaged: {} — make the folder anew with save_to_disk", path.string(),
                error.what());
  }
}

// A folder of datasets' save_to_disk: state.json lists the Arrow files in order.
void add_saved_dataset(const fs::path& folder, Dataset& dataset) {
  bool has_index = false;
  const auto names = from_json_file(folder / "state.json", [&](const nlohmann::json& state) {
    const auto index = state.find("_indices_data_files");
    has_index = index != state.end() && !index->empty();
    std::vector<std::string> files;
    for (const auto& entry : state.at("_data_files")) files.push_back(entry.at("filename"));
    return files;
  });
  if (has_index) {
    throw Error(
        "[data] {} was saved by an old version of datasets with a separate index — call "
        "flatten_indices() before save_to_disk",
        folder.string());
  }
  for (const auto& name : names) {
    DataFile file;
    file.path = folder / name;
    file.name = file.path.filename().string();
    file.format = Format::kArrowFile;
    if (!fs::exists(file.path)) {
      throw Error("[data] {} is listed in state.json but not there — copy the whole folder",
                  file.path.string());
    }
    settle_format(file);
    dataset.files.push_back(std::move(file));
  }
}

void add_dataset_dict(const fs::path& folder, Split split, Dataset& dataset) {
  const auto names = from_json_file(folder / "dataset_dict.json", [](const nlohmann::json& json) {
    return json.at("splits").get<std::vector<std::string>>();
  });
  const auto wanted = split == Split::kTrain
                          ? std::vector<std::string>{"train"}
                          : std::vector<std::string>{"validation", "valid", "val", "dev", "test"};
  for (const auto& name : wanted) {
    if (std::ranges::find(names, name) == names.end()) continue;
    dataset.note = fmt::format("split {} of {}", name, text::join(names, ", "));
    add_saved_dataset(folder / name, dataset);
    return;
  }
  throw Error(
      "[data] {} has the splits {}, none of them {} — set the path to one of its sub-folders",
      folder.string(), text::join(names, ", "), text::join(wanted, ", "));
}

// Files that describe a data set or its folder and hold no documents.
constexpr std::string_view kDescriptions[] = {"dataset_info.json", "dataset_infos.json",
                                              "dataset_dict.json", "state.json"};

bool is_hidden(const fs::path& relative) {
  return std::ranges::any_of(relative, [](const fs::path& part) {
    const std::string name = part.string();
    return name.starts_with('.') && name != "." && name != "..";
  });
}

void add_folder(const fs::path& folder, const DatasetRequest& request, Dataset& dataset) {
  if (fs::exists(folder / "dataset_dict.json"))
    return add_dataset_dict(folder, request.split, dataset);
  if (fs::exists(folder / "state.json")) return add_saved_dataset(folder, dataset);
  std::vector<fs::path> paths;
  for (const auto& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink)) {
    if (entry.is_regular_file() && !is_hidden(entry.path().lexically_relative(folder)))
      paths.push_back(entry.path());
  }
  std::ranges::sort(paths, {}, [](const fs::path& path) { return path.string(); });
  std::vector<DataFile> found;
  for (const auto& path : paths) {
    const std::string name = path.lexically_relative(folder).string();
    auto file = format_by_extension(path);
    if (file &&
        std::ranges::find(kDescriptions, path.filename().string()) == std::end(kDescriptions)) {
      file->name = name;
      found.push_back(std::move(*file));
    } else {
      dataset.skipped.push_back(
          {name, file ? "describes the data set" : "extension of no data format"});
    }
  }
  if (found.empty()) {
    throw Error(
        "[data] no data file in {} ({} other files) — .txt .jsonl .json .parquet .arrow, also "
        ".txt.gz .jsonl.zst "
        "and the like, are read",
        folder.string(), paths.size());
  }
  keep_split(found, request.split, dataset);
  for (auto& file : found) {
    settle_format(file);
    dataset.files.push_back(std::move(file));
  }
}

// --- paths ---

std::vector<fs::path> glob_paths(const std::string& pattern) {
  glob_t result{};
  const int status = ::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &result);
  std::vector<fs::path> paths;
  for (size_t i = 0; status == 0 && i < result.gl_pathc; ++i)
    paths.emplace_back(result.gl_pathv[i]);
  globfree(&result);
  std::ranges::sort(paths, {}, [](const fs::path& path) { return path.string(); });
  return paths;
}

void add_existing(const fs::path& path, const DatasetRequest& request, Dataset& dataset) {
  if (fs::is_directory(path)) return add_folder(path, request, dataset);
  auto file = format_by_extension(path);
  if (!file) file = format_by_content(path);
  settle_format(*file);
  dataset.files.push_back(std::move(*file));
}

void add_path(const std::string& path, const DatasetRequest& request, Dataset& dataset) {
  if (fs::exists(path)) return add_existing(path, request, dataset);
  if (path.find(',') != std::string::npos) {
    for (const auto& part : text::split(path, ',')) {
      const std::string trimmed(text::trim(part));
      if (!trimmed.empty()) add_path(trimmed, request, dataset);
    }
    return;
  }
  const auto matches = glob_paths(path);
  for (const auto& match : matches) add_existing(match, request, dataset);
  if (!matches.empty()) return;
  const bool like_hub = std::ranges::count(path, '/') == 1 &&
                        path.find_first_of("*?[~") == std::string::npos && !path.starts_with('/') &&
                        !path.starts_with('.');
  throw Error(
      "[data] {}.dataset_path = {}: no such file or folder here ({}){} — set it to a file, a "
      "folder or a glob",
      request.key, path, fs::current_path().string(),
      like_hub ? fmt::format(
                     ". If it is a Hugging Face name, download it first: huggingface-cli download "
                     "--repo-type dataset {} --local-dir DIR, then set dataset_path to DIR",
                     path)
               : "");
}

// --- registry ---

struct Named {
  const char* name;
  const char* what;
  const char* local_path;  // used when no dataset_path is given; nullptr: there is none
  std::optional<Split> split;
};
constexpr Named kNamed[] = {
    {"c4", "the training split of allenai/c4, config en", nullptr, Split::kTrain},
    {"c4_validation", "the validation split of allenai/c4, config en", nullptr, Split::kValidation},
    {"c4_test", "a small sample of c4", "tests/assets/c4_test", std::nullopt},
    {"local", "the files at dataset_path", nullptr, std::nullopt},
};

const Named& named(const DatasetRequest& request) {
  std::vector<std::string> names;
  for (const auto& row : kNamed) {
    if (request.name == row.name) return row;
    names.emplace_back(row.name);
  }
  const auto hint = text::nearest(request.name, names);
  throw Error(
      "[data] {}.dataset = {}: no such data set{} — known: {}; for your own files set dataset = "
      "\"local\" and "
      "dataset_path",
      request.key, request.name, hint ? fmt::format(", did you mean '{}'?", *hint) : "",
      text::join(names, ", "));
}

std::string path_of(const DatasetRequest& request, const Named& row) {
  // A copy of allenai/c4 holds several configs; the registry's names mean `en`.
  if (row.split && fs::is_directory(fs::path(request.path) / "en"))
    return fs::path(request.path) / "en";
  if (!request.path.empty()) return request.path;
  if (row.local_path && fs::exists(row.local_path)) return row.local_path;
  if (row.local_path) {
    throw Error(
        "[data] {}.dataset = {}: no folder {} here ({}) — run in a checkout that has it, or set "
        "{}.dataset_path to your own files (text, JSON lines, Parquet, Arrow, a folder or a glob)",
        request.key, request.name, row.local_path, fs::current_path().string(), request.key);
  }
  if (request.name == "local")
    throw Error("[data] {}.dataset = local needs {}.dataset_path", request.key, request.key);
  throw Error(
      "[data] {}.dataset = {} ({}) is not fetched by titan: download it, e.g. huggingface-cli "
      "download "
      "--repo-type dataset allenai/c4 --include 'en/c4-{}.*' --local-dir c4, then set "
      "{}.dataset_path = \"c4\"",
      request.key, request.name, row.what, row.split == Split::kTrain ? "train" : "validation",
      request.key);
}

}  // namespace

Dataset find_dataset(const DatasetRequest& request) {
  const Named& row = named(request);
  const std::string path = path_of(request, row);
  Dataset dataset;
  dataset.name = request.path.empty() ? request.name : path;
  dataset.options.text_key = request.text_key;
  dataset.options.text_document = request.text_document;
  DatasetRequest resolved = request;
  if (row.split) resolved.split = *row.split;
  add_path(path, resolved, dataset);
  return dataset;
}

TextDocument parse_text_document(const std::string& word) {
  if (word == "line") return TextDocument::kLine;
  if (word == "paragraph") return TextDocument::kParagraph;
  if (word == "file") return TextDocument::kFile;
  throw Error("[data] data.text_document = {} — it must be line, paragraph or file", word);
}

}  // namespace titan::data
