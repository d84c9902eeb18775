// Prompts from a file: one a line, or JSON lines.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace titan::generate {

struct PromptFile {
  std::vector<std::string> prompts;
  int64_t blank_lines = 0;     // left out
  int64_t replaced_bytes = 0;  // ill-formed parts of UTF-8 that became U+FFFD
};

// A name that ends in .jsonl: each line {"prompt": "…"} or {"text": "…"}. Else each line is a
// prompt as it stands, without its line end. Blank lines are left out. Throws Error naming file and
// line, also when no prompt is left.
PromptFile read_prompts(const std::filesystem::path& path);
// The same for content that was read already; `name` is for messages and decides the form.
PromptFile parse_prompts(std::string_view content, const std::string& name);

}  // namespace titan::generate
