#include "checkpoint/step_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace titan::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kDeleting = ".deleting";

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  name.remove_prefix(kStepPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

bool has_optimizer_file(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("optimizer-")) return true;
  }
  return false;
}

std::optional<StepKind> kind_of(const fs::path& folder) {
  if (fs::is_regular_file(folder / "index.json")) {
    return has_optimizer_file(folder) ? StepKind::kFull : StepKind::kModelOnly;
  }
  if (fs::is_regular_file(folder / "model.safetensors.index.json")) return StepKind::kHuggingFace;
  if (fs::is_regular_file(folder / "model.safetensors") &&
      fs::is_regular_file(folder / "config.json")) {
    return StepKind::kHuggingFace;
  }
  return std::nullopt;
}

// An exclusive lock on the folder, which the kernel drops when the process dies. -1: another
// process holds it. Where the file system knows no such locks the folder counts as ours.
int lock_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    throw EnvironmentError("[checkpoint] cannot open {}: {}", folder.string(),
                           std::strerror(errno));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd);
    return -1;
  }
  return fd;
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw EnvironmentError("[checkpoint] cannot create {}: {}", folder.string(), error.message());
}

// Renames first, so that a kill in between leaves a leftover and not half a step.
void delete_folder(const fs::path& folder) {
  const fs::path deleting = fs::path(folder).concat(std::string(kDeleting));
  std::error_code error;
  fs::remove_all(deleting, error);
  fs::rename(folder, deleting, error);
  if (!error) fs::remove_all(deleting, error);
  if (error)
    throw EnvironmentError("[checkpoint] cannot delete {}: {}", folder.string(), error.message());
}

void rename_over(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  const bool occupied = errno == ENOTEMPTY || errno == EEXIST;
  // The old folder is complete until this one call and the new one after it.
  if (occupied && ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    delete_folder(from);
    return;
  }
  if (occupied && (errno == EINVAL || errno == ENOSYS)) {  // a file system that cannot swap
    delete_folder(to);
    if (::rename(from.c_str(), to.c_str()) == 0) return;
  }
  throw EnvironmentError("[checkpoint] cannot rename {} to {}: {}", from.string(), to.string(),
                         std::strerror(errno));
}

}  // namespace

std::string step_name(int64_t step) { return fmt::format("{}{}", kStepPrefix, step); }

std::vector<StepInfo> list_steps(const fs::path& folder) {
  std::vector<StepInfo> steps;
  if (!fs::is_directory(folder)) return steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto step = step_of(entry.path().filename().string());
    const auto kind = step && entry.is_directory() ? kind_of(entry.path()) : std::nullopt;
    if (kind) steps.push_back({*step, entry.path(), *kind});
  }
  std::sort(steps.begin(), steps.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return steps;
}

std::optional<StepInfo> step_at(const fs::path& folder) {
  const auto kind = kind_of(folder);
  if (!kind) return std::nullopt;
  const std::string name =
      (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  return StepInfo{step_of(name).value_or(0), folder, *kind};
}

PartialFolder::PartialFolder(fs::path target) : target_(std::move(target)), partial_(target_) {
  partial_.concat(std::string(kPartial));
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  make_folders(parent);
  make_folders(partial_);
  lock_ = lock_folder(partial_);
  if (lock_ < 0) {
    throw Error(
        "[checkpoint] another process is writing {} — give each run a folder of its own "
        "(job.dump_folder)",
        partial_.string());
  }
  for (const auto& entry : fs::directory_iterator(partial_)) fs::remove_all(entry.path());
}

PartialFolder::~PartialFolder() {
  if (lock_ < 0) return;
  std::error_code ignored;  // the next start removes what is left
  fs::remove_all(partial_, ignored);
  ::close(lock_);
}

void PartialFolder::commit() {
  files::sync_to_disk(partial_);
  rename_over(partial_, target_);
  ::close(lock_);
  lock_ = -1;
  files::sync_to_disk(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

void check_free_space(const fs::path& folder, int64_t bytes) {
  const int64_t free = files::free_space(folder);
  if (free < bytes) {
    throw EnvironmentError(
        "[checkpoint] {} needs {} ({} bytes), {} are free — free {} or choose another "
        "job.dump_folder",
        folder.string(), text::bytes(bytes), bytes, text::bytes(free), text::bytes(bytes - free));
  }
}

std::vector<std::string> remove_leftovers(const fs::path& folder) {
  std::vector<std::string> removed;
  if (!fs::is_directory(folder)) return removed;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::string_view stem = name;
    if (stem.ends_with(kDeleting)) stem.remove_suffix(kDeleting.size());
    if (stem.ends_with(kPartial)) stem.remove_suffix(kPartial.size());
    if (stem.size() == name.size() || !step_of(stem) || !entry.is_directory()) continue;
    const int lock = lock_folder(entry.path());
    if (lock < 0) continue;
    std::error_code error;
    fs::remove_all(entry.path(), error);
    ::close(lock);
    if (error)
      throw EnvironmentError("[checkpoint] cannot delete {}: {}", entry.path().string(),
                             error.message());
    removed.push_back(name);
  }
  std::sort(removed.begin(), removed.end());
  return removed;
}

void check_keep_latest_k(int64_t keep_latest_k) {
  if (keep_latest_k == 1 || keep_latest_k < 0) {
    throw Error(
        "[checkpoint] keep_latest_k is {}: 0 keeps all, else at least 2 are needed, because the "
        "older one must stay "
        "until the newer is safe",
        keep_latest_k);
  }
}

std::vector<int64_t> keep_latest(const fs::path& folder, int64_t keep_latest_k,
                                 int64_t just_saved) {
  check_keep_latest_k(keep_latest_k);
  std::vector<int64_t> deleted;
  if (keep_latest_k == 0) return deleted;
  const auto steps = list_steps(folder);
  auto excess = static_cast<int64_t>(steps.size()) - keep_latest_k;
  for (const auto& step : steps) {
    if (excess <= 0) break;
    if (step.step == just_saved) continue;
    delete_folder(step.path);
    deleted.push_back(step.step);
    --excess;
  }
  return deleted;
}

}  // namespace titan::checkpoint
