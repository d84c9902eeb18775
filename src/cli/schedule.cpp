// `titan schedule show`: a pipeline schedule as a picture, with its idle time and what ranks hold.
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/options.h"
#include "config/load.h"
#include "models/registry.h"
#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/picture.h"
#include "parallel/pipeline/plan.h"

namespace titan::cli {
namespace {
namespace pipeline = parallel::pipeline;

struct ScheduleCommand {
  std::optional<std::string> name, csv;
  std::optional<int64_t> ranks, stages_per_rank, microbatches;
  pipeline::Costs costs;
  std::string gather = "never";
  int64_t columns = 120;
  bool actions = false;
  std::string svg, write_csv;
  std::vector<std::string> config_words;
};

// What is shown: the layers are known only from a config.
struct ShownSchedule {
  pipeline::Schedule compute;
  std::vector<pipeline::StageLayers> stages;
  std::vector<std::string> warnings;
};

std::string schedule_names() {
  std::vector<std::string> names;
  for (const auto& rules : pipeline::all_schedules()) {
    if (!rules.needs_csv) names.emplace_back(rules.name);
  }
  return text::join(names, ", ");
}

void add_schedule_options(CLI::App& show, ScheduleCommand& c) {
  show.add_option("--name", c.name, schedule_names() + " (default: 1F1B)");
  show.add_option("--ranks", c.ranks, "ranks of the pipeline (default: 4)");
  show.add_option("--stages-per-rank,--stages_per_rank", c.stages_per_rank,
                  "stages on each rank (default: the schedule's)");
  show.add_option("--microbatches", c.microbatches, "micro-batches of a step (default: 8)");
  show.add_option("--csv", c.csv, "a schedule from a file instead");
  show.add_option("--forward", c.costs.forward, "time of a forward")->capture_default_str();
  show.add_option("--backward", c.costs.backward, "time of a whole backward")
      ->capture_default_str();
  show.add_option("--backward-input,--backward_input", c.costs.backward_input,
                  "time of a backward of the input alone")
      ->capture_default_str();
  show.add_option("--backward-weight,--backward_weight", c.costs.backward_weight,
                  "time of a backward of the weights alone")
      ->capture_default_str();
  show.add_option("--transfer", c.costs.transfer, "time of a message between ranks")
      ->capture_default_str();
  show.add_option("--columns", c.columns, "width of the picture")->capture_default_str();
  show.add_option("--svg", c.svg, "a file that gets the picture as SVG");
  show.add_option("--write-csv,--write_csv", c.write_csv, "a file that gets the schedule as CSV");
  show.add_flag("--actions", c.actions, "also list what each rank executes, with communication");
  show.add_option("--gather", c.gather,
                  "when --actions gather sharded parameters: never, step (once) or use")
      ->capture_default_str();
}

// nullopt when --help was asked for and printed.
std::optional<ScheduleCommand> parse_schedule(Arguments arguments) {
  ScheduleCommand command;
  CLI::App app("Pipeline schedules.", "titan schedule");
  app.require_subcommand(1);
  auto* show = app.add_subcommand(
      "show", "draw a schedule, by name or as a config file sets it (FILE --section.key value …)");
  add_schedule_options(*show, command);
  show->allow_extras();
  if (!parse_options(app, arguments)) return std::nullopt;
  command.config_words = show->remaining();
  return command;
}

pipeline::GatherPolicy gather_policy(const std::string& name) {
  if (name == "never") return pipeline::GatherPolicy::kNever;
  if (name == "step") return pipeline::GatherPolicy::kWholeStep;
  if (name == "use") return pipeline::GatherPolicy::kAroundUse;
  throw Error("[cli] titan schedule show: --gather '{}' is not one of never, step, use", name);
}

ShownSchedule schedule_of_config(const ScheduleCommand& command) {
  const auto refuse = [](bool given, const char* option, const char* key) {
    if (!given) return;
    throw Error("[cli] titan schedule show: {} together with a config — change it with --{}",
                option, key);
  };
  refuse(command.name.has_value(), "--name", "parallelism.pipeline_parallel_schedule NAME");
  refuse(command.ranks.has_value(), "--ranks", "parallelism.pipeline_parallel_degree N");
  refuse(command.csv.has_value(), "--csv", "parallelism.pipeline_parallel_schedule_csv FILE");
  refuse(command.microbatches.has_value(), "--microbatches", "training.local_batch_size N");
  refuse(command.stages_per_rank.has_value(), "--stages-per-rank",
         "parallelism.pipeline_parallel_layers_per_stage N");
  const auto loaded = config::load(command.config_words);
  const auto args = models::resolve(loaded.config.model, loaded.config.training.seq_len);
  auto plan =
      pipeline::make_plan(loaded.config.parallelism, args.num_layers,
                          loaded.config.training.local_batch_size, pipeline::GatherPolicy::kNever);
  return {std::move(plan.compute), std::move(plan.stages), std::move(plan.warnings)};
}

ShownSchedule schedule_of_csv(const ScheduleCommand& command) {
  auto schedule = pipeline::read_csv(*command.csv);
  if (command.name || command.ranks || command.stages_per_rank || command.microbatches) {
    throw Error(
        "[cli] titan schedule show: --csv says it all, leave out --name, --ranks, "
        "--stages-per-rank and --microbatches");
  }
  return {std::move(schedule), {}, {}};
}

ShownSchedule shown_schedule(const ScheduleCommand& command) {
  if (!command.config_words.empty()) return schedule_of_config(command);
  if (command.csv) return schedule_of_csv(command);
  const auto& rules = pipeline::schedule_rules(command.name.value_or("1F1B"));
  return {pipeline::make_schedule(rules.name, command.ranks.value_or(4),
                                  command.stages_per_rank.value_or(rules.default_stages_per_rank),
                                  command.microbatches.value_or(8)),
          {},
          {}};
}

std::string listed_stages(const pipeline::Schedule& schedule, int64_t rank) {
  std::vector<std::string> stages;
  for (const int64_t stage : schedule.stages_of_rank(rank)) stages.push_back(std::to_string(stage));
  return text::listed(stages, 6);
}

void print_ranks(const pipeline::Schedule& schedule, const pipeline::Report& report) {
  std::printf("\n%-5s %-12s %9s %7s %12s %12s %10s %10s\n", "rank", "stages", "busy", "idle",
              "idle inside", "activations", "pending W", "together");
  for (int64_t rank = 0; rank < schedule.num_ranks; ++rank) {
    const auto& of = report.ranks[rank];
    std::printf("%-5ld %-12s %9g %6.1f%% %12g %12ld %10ld %10ld\n", static_cast<long>(rank),
                listed_stages(schedule, rank).c_str(), of.busy, 100 * of.bubble_share,
                of.idle_inside, static_cast<long>(of.peak_live_activations),
                static_cast<long>(of.peak_pending_weights),
                static_cast<long>(of.peak_live_and_pending));
  }
  std::printf("total: time %g, idle %.1f%%\n", report.makespan, 100 * report.bubble_share);
  std::printf(
      "idle inside: between a rank's first and last computation\n"
      "activations, pending W, together: the most at one time, each of one stage and one "
      "micro-batch\n");
}

void print_stages(const ShownSchedule& shown) {
  if (shown.stages.empty()) return;
  std::printf("\n%-6s %-5s %s\n", "stage", "rank", "modules");
  for (size_t stage = 0; stage < shown.stages.size(); ++stage) {
    const auto& of = shown.stages[stage];
    std::vector<std::string> parts;
    if (of.embedding) parts.emplace_back("tok_embeddings");
    if (of.num_layers == 1) parts.push_back(fmt::format("layers.{}", of.first_layer));
    if (of.num_layers > 1) {
      parts.push_back(fmt::format("layers.{} to {} ({})", of.first_layer,
                                  of.first_layer + of.num_layers - 1, of.num_layers));
    }
    if (of.norm) parts.emplace_back("norm");
    if (of.output) parts.emplace_back("output");
    std::printf("%-6zu %-5ld %s\n", stage, static_cast<long>(shown.compute.rank_of_stage[stage]),
                text::join(parts, ", ").c_str());
  }
}

void print_actions(const pipeline::Schedule& lowered) {
  std::printf("\n");
  for (int64_t rank = 0; rank < lowered.num_ranks; ++rank) {
    std::vector<std::string> words;
    for (const auto& action : lowered.per_rank[rank]) words.push_back(to_text(action));
    std::printf("rank %ld: %s\n", static_cast<long>(rank), text::join(words, " ").c_str());
  }
}

}  // namespace

int run_schedule(Arguments arguments) {
  const auto command = parse_schedule(arguments);
  if (!command) return 0;
  const auto policy = gather_policy(command->gather);
  const ShownSchedule shown = shown_schedule(*command);
  const auto lowered = pipeline::lower(shown.compute, policy);
  const auto report = pipeline::simulate(lowered, command->costs);
  std::printf("%s: %ld ranks, %ld stages, %ld micro-batches\n", shown.compute.name.c_str(),
              static_cast<long>(lowered.num_ranks), static_cast<long>(lowered.num_stages),
              static_cast<long>(lowered.num_microbatches));
  std::fputs(pipeline::draw_text(lowered, report, command->columns).c_str(), stdout);
  print_ranks(shown.compute, report);
  print_stages(shown);
  if (command->actions) print_actions(lowered);
  for (const auto& warning : shown.warnings) std::printf("note: %s\n", warning.c_str());
  if (!command->svg.empty())
    files::write_atomically(command->svg, pipeline::draw_svg(lowered, report));
  if (!command->write_csv.empty())
    files::write_atomically(command->write_csv, pipeline::to_csv(shown.compute));
  return 0;
}

}  // namespace titan::cli
