// `titan launch`: a titan command as several processes on this host.
#include "launch/launch.h"

#include "base/env.h"
#include "cli/command.h"
#include "config/help.h"
#include "config/load.h"
#include "device/cpu/threads.h"
#include "models/registry.h"
#include "train/layout.h"

namespace titan::cli {
namespace {

// What every rank would refuse is refused once, before any of them starts.
void check_training(Arguments words, int64_t nproc) {
  if (config::wants_help(words)) return;
  const auto loaded = config::load(train_words(words));
  config::require_runnable(loaded);
  const auto& config = loaded.config;
  const auto args = models::resolve(config.model, config.training.seq_len);
  train::mesh_shape(config, args, config.comm.world_size.value_or(nproc));
  train::make_pipeline(config.parallelism, args, config.training.local_batch_size);
}

}  // namespace

int run_launch(Arguments words) {
  auto options = launch::parse(words);
  if (!options) return 0;
  if (options->words.front() == "train") {
    check_training(Arguments(options->words).subspan(1), options->nproc);
  }
  // The ranks' choice, made here where it can be shown to every library they load.
  env::set({{"LOCAL_WORLD_SIZE", std::to_string(options->nproc)}});
  options->threads_per_rank = device::choose_threads({}).count;
  return launch::run(*options);
}

}  // namespace titan::cli
