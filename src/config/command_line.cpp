#include "config/command_line.h"

#include <algorithm>

#include "base/error.h"
#include "config/alias.h"

namespace titan::config {
namespace {

// A flag's name and the value the bare name gives it.
struct Flag {
  std::string key;
  bool value;
};

struct WordReader {
  std::span<const std::string> words;
  std::span<const Key> keys;
  CommandLine result;
  size_t next = 0;

  void read_all() {
    while (next < words.size()) read_one(words[next++]);
  }

  void read_one(const std::string& word) {
    if (word == "--help" || word == "-h") {
      result.help = true;
      if (next < words.size() && !words[next].starts_with("-")) result.help_section = words[next++];
    } else if (word.starts_with("--") && word.size() > 2) {
      read_option(word);
    } else if (word.starts_with("-") && word.size() > 1) {
      throw Error("[config] '{}' is no option — options are written --section.key value", word);
    } else if (is_assignment(word)) {
      const auto cut = word.find('=');
      add(normalised(word.substr(0, cut)), word.substr(cut + 1), word.substr(0, cut));
    } else {
      result.files.push_back(word);
    }
  }

  void read_option(const std::string& word) {
    const auto cut = word.find('=');
    const std::string shown = word.substr(0, cut);
    const std::string key = normalised(shown.substr(2));
    const bool has_value = cut != std::string::npos;
    if (key == "config" || key == "config_file" || key == "job.config_file") {
      result.files.push_back(has_value ? word.substr(cut + 1)
                                       : take_value(shown, "the path of a TOML or YAML file"));
    } else if (has_value) {
      add(key, word.substr(cut + 1), shown);
    } else if (const auto flag = flag_of(key)) {
      const bool spelled_out =
          flag->key == key && next < words.size() && is_truth_word(words[next]);
      add(flag->key, spelled_out ? words[next++] : (flag->value ? "true" : "false"), shown);
    } else {
      add(key, take_value(shown, expected(key)), shown);
    }
  }

  std::string take_value(const std::string& shown, const std::string& expected) {
    if (next == words.size() || words[next].starts_with("--")) {
      throw Error("[config] {} needs a value{}", shown, expected.empty() ? "" : ": " + expected);
    }
    return words[next++];
  }

  void add(const std::string& key, const std::string& word, const std::string& shown) {
    result.assignments.push_back({key, word, true, {Origin::Kind::kCommandLine, shown, 0}});
  }

  std::string expected(const std::string& key) const {
    const Key* known = find(keys, key);
    return known ? expectation(*known) : "";
  }

  bool is_flag_key(const std::string& key) const {
    if (const Key* known = find(keys, key)) return known->is_flag();
    const Alias* alias = find_alias(key);
    return alias && alias->flag;
  }

  // "checkpoint.enable" -> true, "checkpoint.no_enable" -> checkpoint.enable = false.
  std::optional<Flag> flag_of(const std::string& key) const {
    if (is_flag_key(key)) return Flag{key, true};
    const auto dot = key.rfind('.');
    if (dot == std::string::npos || key.compare(dot + 1, 3, "no_") != 0) return std::nullopt;
    const std::string positive = key.substr(0, dot + 1) + key.substr(dot + 4);
    if (is_flag_key(positive)) return Flag{positive, false};
    return std::nullopt;
  }

  static std::string normalised(std::string name) {
    std::ranges::replace(name, '-', '_');
    return name;
  }

  static bool is_truth_word(const std::string& word) {
    return word == "true" || word == "false" || word == "True" || word == "False" || word == "None";
  }

  // section.key=value, but not a path such as runs/lr=0.1/a.toml.
  static bool is_assignment(const std::string& word) {
    const auto cut = word.find('=');
    if (cut == std::string::npos || cut == 0) return false;
    return std::ranges::all_of(word.substr(0, cut), [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '-' || c == '.';
    });
  }
};

}  // namespace

CommandLine read_command_line(std::span<const std::string> words, std::span<const Key> keys) {
  WordReader reader{words, keys, {}};
  reader.read_all();
  return std::move(reader.result);
}

}  // namespace titan::config
