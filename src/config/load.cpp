#include "config/load.h"

#include <set>

#include "base/env.h"
#include "base/error.h"
#include "base/text.h"
#include "config/alias.h"
#include "config/rules.h"
#include "config/schema.h"

namespace titan::config {
namespace {

// Applies assignments to a config and collects what is wrong with them.
class Merger {
 public:
  explicit Merger(Loaded& loaded) : loaded_(loaded), keys_(keys(loaded.config)) {
    for (const auto& section : sections()) paths_.push_back(section.name);
    for (const auto& key : keys_) {
      paths_.push_back(key.path);
      sections_.insert(std::string(key.section()));
    }
    for (const auto& section : sections_) sections_.insert(section.substr(0, section.find('.')));
    sections_.insert("quantize.linear");
    sections_.insert("quantize.grouped_mm");
    for (const auto& alias : aliases()) paths_.emplace_back(alias.from);
  }

  // All values of one file. Two values for one key, also under different names, are an error there.
  void apply_file(const FileContent& content) {
    std::set<std::string> unknown_tables;
    for (const auto& table : content.tables) {
      if (is_section(table.key)) continue;
      const bool outer_reported = unknown_tables.contains(outer(table.key));
      unknown_tables.insert(table.key);
      if (!outer_reported) report(table.origin, unknown("section", table.key));
    }
    std::map<std::string, std::string> first;  // key -> the name it was given under
    for (const auto& assignment : content.assignments) {
      const Alias* alias = find_alias(assignment.key);
      const std::string meant = alias && alias->to ? alias->to : assignment.key;
      const auto [entry, fresh] = first.try_emplace(meant, assignment.key);
      if (!fresh) {
        report(assignment.origin,
               fmt::format("{} is already set by '{}' — keep one of them", meant, entry->second));
        continue;
      }
      if (unknown_tables.contains(outer(assignment.key))) continue;
      apply(assignment);
    }
  }

  void apply(const Assignment& given) {
    Assignment assignment = given;
    if (const Alias* alias = find_alias(given.key)) {
      if (!follow(*alias, assignment)) return;
    }
    const Key* key = find(keys_, assignment.key);
    if (!key) {
      const bool section = is_section(assignment.key);
      report(assignment.origin, section
                                    ? fmt::format("'{}' is a section, not a key", assignment.key)
                                    : unknown("key", assignment.key));
      return;
    }
    const auto* word = std::get_if<std::string>(&assignment.value);
    const auto problem =
        assignment.is_word && word ? assign_text(*key, *word) : assign(*key, assignment.value);
    if (problem) {
      report(assignment.origin, fmt::format("{} {}", key->path, *problem));
    } else {
      loaded_.origins[key->path] = assignment.origin;
    }
  }

  void report(const Origin& origin, const std::string& text) {
    problems_.push_back(fmt::format("{}: {}", to_text(origin), text));
  }

  void throw_if_any() const {
    if (problems_.empty()) return;
    if (problems_.size() == 1) throw Error("[config] {}", problems_[0]);
    throw Error("[config] {} problems:\n  {}", problems_.size(), text::join(problems_, "\n  "));
  }

  bool clean() const { return problems_.empty(); }

 private:
  // All before the last dot; the whole key when there is none.
  static std::string outer(const std::string& key) { return key.substr(0, key.rfind('.')); }

  bool is_section(const std::string& path) const {
    return sections_.contains(path) || is_foreign_section(path);
  }

  static bool is_foreign_section(const std::string& path) {
    for (const auto& alias : aliases()) {
      if (std::string_view(alias.from).starts_with(path + ".")) return true;
    }
    return false;
  }

  // False when nothing is left to assign.
  bool follow(const Alias& alias, Assignment& assignment) {
    if (alias.effect == AliasEffect::kNotBuilt) {
      loaded_.not_built.push_back(
          fmt::format("{} ({}): {}", alias.from, to_text(assignment.origin), alias.note));
      return false;
    }
    if (alias.effect == AliasEffect::kIgnore) {
      loaded_.warnings.push_back(fmt::format("{} ({}) is without effect: {}", alias.from,
                                             to_text(assignment.origin), alias.note));
      return false;
    }
    assignment.key = alias.to;
    if (std::string_view(alias.from) == "npu.checkpoint_enabled") {
      const bool on = assignment.value == Value(true) || assignment.value == Value("true") ||
                      assignment.value == Value("True");
      assignment.value = on ? "full" : "none";
    }
    return true;
  }

  std::string unknown(const char* what, const std::string& name) const {
    auto hint = unique_leaf(name.substr(name.rfind('.') + 1));
    if (!hint) hint = text::nearest(name, paths_);
    return fmt::format("unknown {} '{}'{}", what, name,
                       hint ? fmt::format(" — did you mean '{}'?", *hint)
                            : " — `titan config explain` lists the sections and keys");
  }

  // A key of another section with the same last part, if there is just one: training.warmup_steps.
  std::optional<std::string> unique_leaf(const std::string& leaf) const {
    std::optional<std::string> found;
    for (const auto& key : keys_) {
      if (key.name() != leaf) continue;
      if (found) return std::nullopt;
      found = key.path;
    }
    return found;
  }

  Loaded& loaded_;
  std::vector<Key> keys_;
  std::vector<std::string> paths_;
  std::set<std::string> sections_;
  std::vector<std::string> problems_;
};

// Where this process stands among its peers is what launchers put into the environment.
void apply_environment(Merger& merger, const Loaded& loaded) {
  struct Variable {
    const char* name;
    const char* key;
  };
  static constexpr Variable kVariables[] = {{"WORLD_SIZE", "comm.world_size"},
                                            {"RANK", "comm.rank"},
                                            {"MASTER_ADDR", "comm.master_addr"},
                                            {"MASTER_PORT", "comm.master_port"}};
  for (const auto& [name, key] : kVariables) {
    const auto value = env::get(name);
    if (!value || value->empty() || loaded.given(key)) continue;
    merger.apply({key, *value, true, {Origin::Kind::kEnvironment, name, 0}});
  }
}

// Values that follow from others: older names inside values, and settings of the reader threads.
void derive_values(Loaded& loaded) {
  JobConfig& config = loaded.config;
  const auto derived = [&](const char* key, const char* source) {
    loaded.origins[key] = {Origin::Kind::kDerived, source, 0};
  };
  if (config.model.tokenizer_path) {
    config.model.hf_assets_path = *config.model.tokenizer_path;
    derived("model.hf_assets_path", "model.tokenizer_path");
    loaded.warnings.push_back(
        "model.tokenizer_path is an older name: model.hf_assets_path is set to it");
  }
  if (!config.experimental.custom_args_module.empty()) {
    config.job.custom_config_module = config.experimental.custom_args_module;
    derived("job.custom_config_module", "experimental.custom_args_module");
    loaded.warnings.push_back(
        "experimental.custom_args_module is an older name: job.custom_config_module is set to it");
  }
  if (const auto family = model_alias(config.model.name)) {
    loaded.warnings.push_back(
        fmt::format("model.name = \"{}\" trains the plain {} model: the maths is the same",
                    config.model.name, *family));
    config.model.name = *family;
  }
  for (auto& name : config.model.converters) name = converter_name(name);
  const auto& readers = config.training.dataloader;
  if (readers.num_workers > 0 && !config.data.threads) {
    config.data.threads = readers.num_workers;
    derived("data.threads", "training.dataloader.num_workers");
  }
  if (readers.prefetch_factor && readers.num_workers > 0 && !loaded.given("data.prefetch")) {
    config.data.prefetch = *readers.prefetch_factor * readers.num_workers;
    derived("data.prefetch", "training.dataloader.prefetch_factor");
  }
}

// With epochs alone the end of the run is not known beforehand, but the learning rate needs a
// length.
void warn_of_unbounded_schedule(Loaded& loaded) {
  const auto& config = loaded.config;
  if (!config.training.num_epochs || config.lr_scheduler.total_steps ||
      loaded.given("training.steps"))
    return;
  loaded.warnings.push_back(
      fmt::format("training.num_epochs is set, training.steps is not: the run ends after {} steps "
                  "at the latest, and the "
                  "learning rate follows a schedule of that length — set training.steps",
                  config.training.steps));
}

std::string with_origin(const Loaded& loaded, const Finding& finding) {
  return fmt::format("{} ({})", finding.text, loaded.origin(finding.key));
}

bool is_yaml(const std::filesystem::path& file) {
  return file.extension() == ".yaml" || file.extension() == ".yml";
}

}  // namespace

std::string Loaded::origin(std::string_view key) const {
  const auto found = origins.find(std::string(key));
  return found == origins.end() ? "default" : to_text(found->second);
}

Loaded load(std::span<const std::string> words) {
  JobConfig defaults;
  const CommandLine command_line = read_command_line(words, keys(defaults));
  if (command_line.files.size() > 1) {
    throw Error(
        "[config] one config file at a time, but got {} — put overrides in the form --section.key "
        "value",
        text::join(command_line.files, " and "));
  }
  if (command_line.files.empty()) return load(command_line, std::nullopt);
  return load(command_line, command_line.files[0]);
}

Loaded load(const CommandLine& command_line, const std::optional<std::filesystem::path>& file) {
  Loaded loaded;
  Merger merger(loaded);
  if (file) {
    merger.apply_file(is_yaml(*file) ? read_yaml(*file) : read_toml(*file));
    loaded.config.job.config_file = file->string();
    loaded.origins["job.config_file"] = {Origin::Kind::kCommandLine, file->string(), 0};
  }
  for (const auto& assignment : command_line.assignments) merger.apply(assignment);
  apply_environment(merger, loaded);
  merger.throw_if_any();
  derive_values(loaded);
  for (const auto& problem : broken_rules(loaded.config)) {
    const auto origin = loaded.origins.find(problem.key);
    merger.report(origin == loaded.origins.end() ? Origin{} : origin->second, problem.text);
  }
  merger.throw_if_any();
  for (const auto& doubt : doubtful_settings(loaded.config)) loaded.warnings.push_back(doubt.text);
  warn_of_unbounded_schedule(loaded);
  for (const auto& finding : without_effect(loaded.config))
    loaded.warnings.push_back(with_origin(loaded, finding));
  for (const auto& finding : not_built(loaded.config))
    loaded.not_built.push_back(with_origin(loaded, finding));
  return loaded;
}

void require_runnable(const Loaded& loaded) {
  if (loaded.not_built.empty()) return;
  const auto& list = loaded.not_built;
  if (list.size() == 1) throw Error("[config] not built yet: {}", list[0]);
  throw Error("[config] {} features are not built yet:\n  {}", list.size(),
              text::join(list, "\n  "));
}

bool wants_help(std::span<const std::string> words) {
  for (const auto& word : words) {
    if (word == "--help" || word == "-h") return true;
  }
  return false;
}

}  // namespace titan::config
