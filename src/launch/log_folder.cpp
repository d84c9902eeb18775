#include "launch/log_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "config/load.h"

namespace titan::launch {
namespace {

namespace fs = std::filesystem;

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder)) {
    throw EnvironmentError("[launch] cannot make the folder {}: {} — give another --log-dir",
                           folder.string(),
                           error ? error.message() : "a file of that name is in the way");
  }
}

fs::path new_folder_below(const fs::path& parent) {
  make_folders(parent);
  const std::string name = timestamp_for_folder();
  for (int64_t attempt = 1;; ++attempt) {
    const fs::path folder = parent / (attempt == 1 ? name : fmt::format("{}-{}", name, attempt));
    std::error_code error;
    if (fs::create_directory(folder, error)) return folder;
    if (error) make_folders(folder);  // throws the reason
  }
}

fs::path new_temporary_folder() {
  std::string pattern = (fs::temp_directory_path() / "titan-launch-XXXXXX").string();
  if (!mkdtemp(pattern.data())) {
    throw EnvironmentError("[launch] cannot make the folder {}: {} — give another --log-dir",
                           pattern, std::strerror(errno));
  }
  return pattern;
}

}  // namespace

fs::path make_log_folder(const Options& options) {
  if (!options.log_dir.empty()) {
    make_folders(options.log_dir);
    return options.log_dir;
  }
  const auto words = std::span(options.words).subspan(1);
  if (options.words[0] != "train" || config::wants_help(words)) return new_temporary_folder();
  return new_folder_below(fs::path(config::load(words).config.job.dump_folder) / "logs");
}

}  // namespace titan::launch
