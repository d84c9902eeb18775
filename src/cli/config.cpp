// `titan config`: what does this configuration say, where does each value come from, and can titan
// run it?
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "config/help.h"
#include "config/load.h"
#include "config/schema.h"
#include "models/registry.h"

namespace titan::cli {
namespace {

constexpr const char* kConfigUsage = R"(usage:
  titan config show [FILE] [--given] [--json] [--section.key value …]
      the merged configuration as TOML; each line says where its value comes from
      --given: only what is not at its default
  titan config explain [KEY|SECTION] [FILE] [--section.key value …]
      what a key means, takes and does here; without a name, the list of sections
  titan config check FILE… [--runnable] [--section.key value …]
      exit code 0 for legal files; lists what they need that is not built yet
      --runnable: exit code 2 then
  titan config table [--language en|zh]
      what titan does with every key, as the page docs/compatibility.md
)";

using ConfigWords = std::vector<std::string>;

// Removes `option` from the words; true when it was there.
bool take_config_flag(ConfigWords& words, std::string_view option) {
  return std::erase(words, option) > 0;
}

void print_text(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_config_list(const char* title, const ConfigWords& list) {
  if (list.empty()) return;
  std::printf("  %s:\n", title);
  for (const auto& item : list) std::printf("    %s\n", item.c_str());
}

int show_config(ConfigWords words) {
  const bool json = take_config_flag(words, "--json");
  const bool only_given = take_config_flag(words, "--given");
  const auto loaded = config::load(words);
  print_text(json ? config::to_json(loaded.config) + "\n" : config::show(loaded, only_given));
  return 0;
}

int explain_key(ConfigWords words) {
  if (words.empty()) {
    print_text(
        "Sections of the configuration; `titan config explain SECTION` lists the keys of one.\n\n" +
        config::section_list());
    return 0;
  }
  const std::string name = words[0];
  words.erase(words.begin());
  if (words.empty()) {
    print_text(config::explain(name, nullptr));
    return 0;
  }
  const auto loaded = config::load(words);
  print_text(config::explain(name, &loaded));
  return 0;
}

// True when the file can be trained.
bool check_config_file(const config::CommandLine& command_line, const std::string& file) {
  const auto loaded = config::load(command_line, file);
  const bool runnable = loaded.not_built.empty();
  // Sizes are known only for families that are built.
  if (runnable) models::resolve(loaded.config.model, loaded.config.training.seq_len);
  std::printf("%s: legal%s\n", file.c_str(),
              runnable ? "" : fmt::format(", {} not built yet", loaded.not_built.size()).c_str());
  print_config_list("not built yet", loaded.not_built);
  print_config_list("notes", loaded.warnings);
  return runnable;
}

int check_files(ConfigWords words) {
  const bool must_run = take_config_flag(words, "--runnable");
  config::JobConfig defaults;
  const auto command_line = config::read_command_line(words, config::keys(defaults));
  if (command_line.files.empty())
    throw Error("[config] config check needs the path of a TOML or YAML file");
  size_t num_unable = 0;
  std::string problems;
  for (const auto& file : command_line.files) {
    try {
      num_unable += check_config_file(command_line, file) ? 0 : 1;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kUsage) throw;
      problems += (problems.empty() ? "" : "\ntitan: ") + std::string(error.what());
    }
  }
  std::fflush(stdout);
  if (!problems.empty()) throw Error("{}", problems);
  if (must_run && num_unable > 0) {
    throw Error("[config] {} of {} files need features that are not built yet (listed above)",
                num_unable, command_line.files.size());
  }
  return 0;
}

int print_table(const ConfigWords& words) {
  std::string language = "en";
  if (words.size() == 2 && words[0] == "--language") language = words[1];
  if (words.size() == 1 && words[0].starts_with("--language=")) language = words[0].substr(11);
  if (words.size() > 2 || (language != "en" && language != "zh")) {
    throw Error("[config] config table takes --language en or --language zh");
  }
  print_text(config::compatibility_page(language == "zh" ? config::Language::kChinese
                                                         : config::Language::kEnglish));
  return 0;
}

}  // namespace

int run_config(Arguments arguments) {
  ConfigWords words(arguments.begin(), arguments.end());
  if (words.empty() || config::wants_help(words)) {
    print_text(kConfigUsage);
    return words.empty() ? static_cast<int>(ExitCode::kUsage) : 0;
  }
  const std::string action = words[0];
  words.erase(words.begin());
  if (action == "show") return show_config(std::move(words));
  if (action == "explain") return explain_key(std::move(words));
  if (action == "check") return check_files(std::move(words));
  if (action == "table") return print_table(words);
  const ConfigWords actions = {"show", "explain", "check", "table"};
  const auto hint = text::nearest(action, actions);
  throw Error("[config] no action '{}'{} — titan config --help lists them", action,
              hint ? fmt::format(", did you mean '{}'?", *hint) : "");
}

}  // namespace titan::cli
