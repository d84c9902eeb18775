// `titan train`: from words to a run.
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "base/world.h"
#include "cli/command.h"
#include "cli/versions.h"
#include "config/help.h"
#include "config/load.h"
#include "train/job.h"
#include "train/loop.h"

namespace titan::cli {
namespace {

void save_config(const config::JobConfig& config) {
  if (!config.job.save_config_file) return;
  const auto path = std::filesystem::path(config.job.dump_folder) / *config.job.save_config_file;
  std::filesystem::create_directories(path.parent_path());
  files::write_atomically(path, config::to_json(config) + "\n");
  log::info("The config in force is in {}", path.string());
}

World world_of(const config::Comm& comm) {
  if (comm.mode == "fake_backend") {
    return {.rank = comm.rank.value_or(0),
            .size = comm.world_size.value_or(1),
            .source = "comm.mode = fake_backend"};
  }
  const World world = read_world({.size = comm.world_size,
                                  .rank = comm.rank,
                                  .master_port = comm.master_port,
                                  .master_addr = comm.master_addr});
  publish(world);
  return world;
}

// One line per event for the whole run: rank 0 writes it, or the only rank there is.
void configure_log(const config::JobConfig& config, const World& world) {
  const bool writer = world.rank == 0 || config.comm.mode == "fake_backend";
  log::configure({.level = writer ? log::Level::kInfo : log::Level::kWarning,
                  .color = log::wants_color(1) && !config.metrics.disable_color_printing,
                  .prefix = world.rank == 0 ? "" : fmt::format("[rank{}]:", world.rank)});
}

}  // namespace

std::vector<std::string> train_words(Arguments words) {
  std::vector<std::string> spelled(words.begin(), words.end());
  for (auto& word : spelled) {
    if (word == "--comm-report") word = "--comm.report";
    if (word == "--timings") word = "--metrics.timings";
  }
  return spelled;
}

int run_train(Arguments words) {
  if (config::wants_help(words)) {
    std::fputs(config::train_help(words).c_str(), stdout);
    return 0;
  }
  train::StartTimes start;
  start.end_of("program");
  const auto loaded = config::load(train_words(words));
  const World world = world_of(loaded.config.comm);
  configure_log(loaded.config, world);
  if (world.rank == 0) {
    for (const auto& warning : loaded.warnings) log::warning("{}", warning);
  }
  config::require_runnable(loaded);
  log::info("titan version: {}", version_facts().front().second);
  log::info("Starting job: {}", loaded.config.job.description);
  if (loaded.config.job.print_config)
    log::info("Running with configs: {}", config::to_json(loaded.config));
  if (world.rank == 0) save_config(loaded.config);
  start.end_of("configuration");
  auto job = train::make_job(loaded.config, world, std::move(start));
  return train::run(
      job, {.command = "titan train " +
                       text::join(std::vector<std::string>(words.begin(), words.end()), " "),
            .config_text = config::show(loaded, true),
            .versions = version_facts()});
}

}  // namespace titan::cli
