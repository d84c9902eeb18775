// Starts the ranks of a job on this host, watches them, and ends them together.
#pragma once

#include "launch/options.h"

namespace titan::launch {

// Runs options.words as options.nproc processes. Returns when all of them, and what they started in
// their process groups, are gone: 0 when each exited with 0; the exit code of the first rank that
// failed (128 + signal when it was killed), whose last lines are then the last thing printed; 128 +
// signal when SIGINT or SIGTERM stopped the run. SIGINT and SIGTERM (and SIGHUP, as SIGTERM) are
// passed on once; the second kills. Takes over this process's handling of signals and its variables
// RANK, WORLD_SIZE and the like: it is the whole work of a process that has no other thread. Throws
// Error and EnvironmentError before the first rank runs.
int run(const Options& options);

}  // namespace titan::launch
