// `titan launch`: a titan command as several processes on this host.
#include "launch/launch.h"

#include "base/env.h"
#include "cli/command.h"
#include "device/cpu/threads.h"

namespace titan::cli {

int run_launch(Arguments words) {
  auto options = launch::parse(words);
  if (!options) return 0;
  // The ranks' choice, made here where it can be shown to every library they load.
  env::set({{"LOCAL_WORLD_SIZE", std::to_string(options->nproc)}});
  options->threads_per_rank = device::choose_threads({}).count;
  return launch::run(*options);
}

}  // namespace titan::cli
