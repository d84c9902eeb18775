// Where the ranks' logs go when the user does not say.
#pragma once

#include <filesystem>

#include "launch/options.h"

namespace titan::launch {

// Makes the folder: options.log_dir; else for `train` a new one, named by the time, below logs/ in
// job.dump_folder; else a new one among the temporary files. Reads the configuration of `train`
// with the environment as it stands, so that must be a rank's. Throws what config::load() throws,
// and EnvironmentError for a folder that cannot be made.
std::filesystem::path make_log_folder(const Options& options);

}  // namespace titan::launch
