#include "config/help.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "config/alias.h"
#include "config/schema.h"

namespace titan::config {
namespace {

// Titles of the tables in the order of the schema: "training", "training.dataloader", …
std::vector<std::string> table_names(std::span<const Key> all) {
  std::vector<std::string> names;
  for (const auto& key : all) {
    const std::string name(key.section());
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

const char* purpose_of(std::string_view section) {
  for (const auto& info : sections()) {
    if (info.name == section) return info.help;
  }
  return "";
}

bool is_below(std::string_view table, std::string_view section) {
  return table == section || (table.starts_with(section) && table[section.size()] == '.');
}

std::string table_help(std::span<const Key> all, const std::string& table) {
  const std::string purpose = purpose_of(table);
  std::string out = fmt::format("[{}]{}{}\n", table, purpose.empty() ? "" : "  ", purpose);
  for (const auto& key : all) {
    if (key.section() != table) continue;
    out +=
        fmt::format("  --{} ({}, default {})\n      {}{}\n", key.path, key.type_name(),
                    to_text(get(key)), key.help, *key.check.choices ? "; " + expectation(key) : "");
  }
  return out;
}

[[noreturn]] void fail_unknown(std::string_view name, std::span<const Key> all) {
  std::vector<std::string> names = table_names(all);
  for (const auto& key : all) names.push_back(key.path);
  auto hint = text::nearest(name, names);
  if (!hint) {
    for (const auto& key : all) {
      if (key.name() == name) hint = key.path;
    }
  }
  throw Error("[config] no key or section '{}'{}", name,
              hint ? fmt::format(" — did you mean '{}'?", *hint)
                   : " — `titan config explain` lists the sections");
}

std::string support_line(const std::string& key) {
  const Row* row = find_row(key);
  TITAN_CHECK(row, "key {} has no row in the compatibility table", key);
  static constexpr const char* kNames[] = {"supported", "supported, with exceptions",
                                           "accepted without effect", "not built yet"};
  const std::string note = row->note;
  return kNames[static_cast<int>(row->support)] + (note.empty() ? "" : ": " + note);
}

std::string explain_key(const Key& key, const Loaded* loaded) {
  JobConfig defaults;
  const auto all = keys(defaults);
  std::string out =
      fmt::format("{}\n  {}\n  type     {}\n  takes    {}\n  default  {}\n  support  {}\n",
                  key.path, key.help, key.type_name(), expectation(key),
                  to_text(get(*find(all, key.path))), support_line(key.path));
  for (const auto& alias : aliases()) {
    if (alias.to && key.path == alias.to)
      out += fmt::format("  also     {} ({})\n", alias.from, alias.note);
  }
  for (const auto& alias : yaml_aliases()) {
    if (alias.to && key.path == alias.to) out += fmt::format("  in YAML  {}\n", alias.from);
  }
  const std::string option = key.path.substr(0, key.path.rfind('.') + 1);
  out += key.is_flag()
             ? fmt::format("  options  --{0}  --{1}no-{2}\n", key.path, option, key.name())
             : fmt::format("  option   --{} VALUE\n", key.path);
  if (loaded)
    out += fmt::format("  here     {}  ({})\n", to_text(get(key)), loaded->origin(key.path));
  return out;
}

nlohmann::ordered_json json_value(const Value& value) {
  return std::visit(
      [](const auto& stored) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(stored)>, None>) {
          return nullptr;
        } else {
          return stored;
        }
      },
      value);
}

}  // namespace

std::string help(std::string_view section) {
  JobConfig defaults;
  const auto all = keys(defaults);
  std::string out;
  for (const auto& table : table_names(all)) {
    if (section.empty() || is_below(table, section))
      out += (out.empty() ? "" : "\n") + table_help(all, table);
  }
  if (out.empty()) fail_unknown(section, all);
  return out;
}

std::string train_help(std::span<const std::string> words) {
  JobConfig defaults;
  const auto section = read_command_line(words, keys(defaults)).help_section;
  return R"(usage: titan train [FILE] [--section.key value …]

  FILE, --config FILE, --job.config_file FILE   the TOML or YAML file
  --section.key value, --section.key=value      a value (also section.key=value); it beats the file
  --section.flag, --section.no-flag             true, false
  --help SECTION                                the keys of one section only
`-` and `_` are alike in names, lists are separated by commas, None means no value.

)" + help(section);
}

std::string section_list() {
  std::string out;
  for (const auto& section : sections())
    out += fmt::format("  {:<22} {}\n", section.name, section.help);
  return out;
}

std::string explain(std::string_view name, const Loaded* loaded) {
  std::string path(name);
  std::ranges::replace(path, '-', '_');
  if (path.starts_with("__")) path.erase(0, 2);
  JobConfig config = loaded ? loaded->config : JobConfig{};
  const auto all = keys(config);
  if (const Key* key = find(all, path)) return explain_key(*key, loaded);
  if (const Alias* alias = find_alias(path)) {
    if (alias->to)
      return fmt::format("{} means {} ({})\n\n{}", path, alias->to, alias->note,
                         explain(alias->to, loaded));
    return fmt::format(
        "{}\n  {}: {}\n", path,
        alias->effect == AliasEffect::kIgnore ? "accepted without effect" : "not built",
        alias->note);
  }
  for (const auto& table : table_names(all)) {
    if (is_below(table, path)) return help(path);
  }
  fail_unknown(path, all);
}

std::string show(const Loaded& loaded, bool only_given) {
  JobConfig config = loaded.config;
  const auto all = keys(config);
  std::string out;
  for (const auto& table : table_names(all)) {
    std::string lines;
    for (const auto& key : all) {
      if (key.section() != table || (only_given && !loaded.given(key.path))) continue;
      const Value value = get(key);
      const bool absent = std::holds_alternative<None>(value);
      const std::string setting = absent ? fmt::format("# {} is not set", key.name())
                                         : fmt::format("{} = {}", key.name(), to_text(value));
      lines += absent && !loaded.given(key.path)
                   ? setting + "\n"
                   : fmt::format("{:<44}  # {}\n", setting, loaded.origin(key.path));
    }
    if (!lines.empty()) out += fmt::format("{}[{}]\n{}", out.empty() ? "" : "\n", table, lines);
  }
  return out;
}

std::string to_json(const JobConfig& config) {
  JobConfig copy = config;
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  for (const auto& key : keys(copy)) {
    nlohmann::ordered_json* place = &root;
    for (const auto& part : text::split(key.path, '.')) place = &(*place)[part];
    *place = json_value(get(key));
  }
  return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace titan::config
