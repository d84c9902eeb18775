#include "data/tokenizer/tokenizer.h"

#include "base/error.h"
#include "base/files.h"
#include "data/tokenizer/base64.h"
#include "data/tokenizer/hf_tokenizer.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/rank_tokenizer.h"
#include "data/tokenizer/sentencepiece.h"

namespace titan::data {
namespace fs = std::filesystem;
namespace {

// "IQ== 0" is how a tiktoken file begins.
bool is_rank_line(std::string_view line) {
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos || blank + 1 == line.size()) return false;
  const std::string_view rank = line.substr(blank + 1);
  return rank.find_first_not_of("0123456789\r") == std::string_view::npos &&
         base64_decode(line.substr(0, blank));
}

std::unique_ptr<Tokenizer> load_file(const fs::path& file, const fs::path& folder) {
  const files::Map map(file);
  const std::string_view content = map.bytes();
  if (content.empty()) throw Error("[tokenizer] {}: the file is empty", file.string());
  const size_t first = content.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && content[first] == '{') {
    const JsonFile json(file);
    if (json.root().find("model")) return load_hf_tokenizer(json, folder);
    if (json.root().find("config") && json.root().find("vocab")) return load_tekken(json);
    json.root().fail(
        "neither a tokenizer.json (key \"model\") nor a tekken.json (keys \"config\" and "
        "\"vocab\")");
  }
  const bool is_text = content.substr(0, 1024).find('\0') == std::string_view::npos;
  if (is_rank_line(content.substr(0, content.find('\n')))) return load_tiktoken(file);
  // A damaged rank file is told apart from a SentencePiece model by its second line.
  const size_t second = content.find('\n');
  if (is_text && second != std::string_view::npos) {
    const std::string_view rest = content.substr(second + 1);
    if (is_rank_line(rest.substr(0, rest.find('\n')))) return load_tiktoken(file);
  }
  return load_sentencepiece(file);
}

std::unique_ptr<Tokenizer> load_folder(const fs::path& folder) {
  for (const char* name :
       {"tokenizer.json", "tekken.json", "tokenizer.model", "original/tokenizer.model"}) {
    if (fs::exists(folder / name)) return load_file(folder / name, folder);
  }
  throw Error(
      "[tokenizer] the folder {} holds no tokenizer: none of tokenizer.json, tekken.json, "
      "tokenizer.model, "
      "original/tokenizer.model is there — check model.hf_assets_path",
      folder.string());
}

}  // namespace

std::vector<int32_t> Tokenizer::document_prefix() const {
  const auto bos = bos_id();
  return bos ? std::vector<int32_t>{*bos} : std::vector<int32_t>{};
}

std::vector<int32_t> Tokenizer::document_suffix() const {
  const auto eos = eos_id();
  return eos ? std::vector<int32_t>{*eos} : std::vector<int32_t>{};
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  if (!fs::exists(path))
    throw Error("[tokenizer] {} does not exist — check model.hf_assets_path", path.string());
  return fs::is_directory(path) ? load_folder(path) : load_file(path, path.parent_path());
}

}  // namespace titan::data
