#include "generate/prompts.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace titan::generate {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string prompt_of_json(std::string_view line, const std::string& where) {
  const auto object = json::parse_strict(line, where);
  if (!object.is_object())
    throw Error("{}: a JSON object is needed, like {{\"prompt\": \"…\"}}", where);
  for (const char* key : {"prompt", "text"}) {
    if (object.contains(key)) return json::string_member(object, key, where);
  }
  throw Error("{}: neither \"prompt\" nor \"text\" is in the object", where);
}

}  // namespace

PromptFile parse_prompts(std::string_view content, const std::string& name) {
  PromptFile file;
  const std::string repaired = text::to_valid_utf8(content, &file.replaced_bytes);
  std::string_view rest = repaired;
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  const bool is_json = name.ends_with(".jsonl");
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (text::trim(line).empty()) {
      ++file.blank_lines;
    } else {
      file.prompts.push_back(
          is_json ? prompt_of_json(line, fmt::format("[generate] {}:{}", name, number))
                  : std::string(line));
    }
  }
  if (file.prompts.empty()) throw Error("[generate] {} holds no prompt — write one a line", name);
  return file;
}

PromptFile read_prompts(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path))
    throw Error("[generate] there is no file {} — check --prompt_file", path.string());
  if (std::filesystem::is_directory(path)) {
    throw Error("[generate] {} is a folder — --prompt_file needs a file", path.string());
  }
  return parse_prompts(files::read(path), path.string());
}

}  // namespace titan::generate
