// The life of step folders on disk: written as step-N.partial, committed by one rename, removed by
// a rename and a deletion. A kill at any moment leaves step-N complete or absent; what a dead
// process left behind is removed at the next start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace titan::checkpoint {

enum class StepKind { kFull, kModelOnly, kHuggingFace };

struct StepInfo {
  int64_t step = 0;
  std::filesystem::path path;
  StepKind kind = StepKind::kFull;
};

std::string step_name(int64_t step);  // "step-500"

// The complete step folders inside `folder`, by rising step; empty when the folder does not exist.
// A folder is complete when it has index.json (of titan) or model.safetensors.index.json (of
// Hugging Face). A titan step is model-only when none of its files is an optimizer file; only file
// names are looked at.
std::vector<StepInfo> list_steps(const std::filesystem::path& folder);

// What a folder is, by the files in it; nullopt when it is no complete step. The number is 0 when
// the folder is not named step-N.
std::optional<StepInfo> step_at(const std::filesystem::path& folder);

// A folder under way: <target>.partial, emptied if a dead process left one. Throws Error when
// another live process is writing it. Deletes what it wrote unless committed.
class PartialFolder {
 public:
  explicit PartialFolder(std::filesystem::path target);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const std::filesystem::path& path() const { return partial_; }
  // Flushes the folder and renames it to the target; an older folder of that name is replaced
  // (swapped and then deleted).
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path partial_;
  int lock_ = -1;
};

// Throws EnvironmentError with the numbers when fewer than `bytes` bytes are free where `folder` is
// or will be.
void check_free_space(const std::filesystem::path& folder, int64_t bytes);

// Deletes what dead processes left in `folder` (*.partial, *.deleting of steps); returns the names.
// Folders that a live process is writing are left alone. Call at start, before the first save.
std::vector<std::string> remove_leftovers(const std::filesystem::path& folder);

// Throws Error for 1 or a negative number: one would have to be deleted before its successor is
// safe.
void check_keep_latest_k(int64_t keep_latest_k);

// Deletes the oldest complete steps until `keep_latest_k` are left (0 keeps all), never the step
// `just_saved`. Returns the deleted steps.
std::vector<int64_t> keep_latest(const std::filesystem::path& folder, int64_t keep_latest_k,
                                 int64_t just_saved);

}  // namespace titan::checkpoint
