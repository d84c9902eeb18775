// run.json in the run folder: what ran, on what, with which config, and how it ended, for `titan
// report` and for people who find the folder later. Written by the training loop at the start and
// at the end (and after a signal), whole each time. Format 1: keys are only ever added.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "observe/metrics.h"

namespace titan::observe {

inline constexpr const char* kRunRecordName = "run.json";
inline constexpr const char* kGeneratedTextName =
    "generated.txt";  // sample text shown in the report when it is there

enum class RunStatus { kRunning, kFinished, kInterrupted, kFailed };
std::string to_string(RunStatus status);

using Facts = std::vector<std::pair<std::string, std::string>>;

struct RunRecord {
  RunStatus status = RunStatus::kRunning;
  std::string description;  // job.description
  std::string command;      // as typed
  std::string config;       // the config in force, as TOML text
  Facts versions;           // titan, torch, compiler, driver …
  double start_time = 0;    // of the first session, Unix seconds
  double end_time = 0;      // 0 while running
  int64_t sessions = 1;     // processes that worked on the run: 1 + number of resumes

  std::string device_kind;  // cpu, cuda, npu
  std::string device_name;
  int64_t device_count = 1;
  int64_t device_memory = 0;  // bytes that may be used
  int64_t threads = 0;        // CPU threads
  double peak_flops = 0;      // of one device; 0: not known
  std::string peak_flops_source;

  std::string model;  // "llama3 debugmodel"
  Facts model_sizes;  // dim, layers, heads …, in the order to show
  int64_t parameters = 0;
  double flops_per_token = 0;
  std::string dtype;  // "float32", "bfloat16 compute, float32 parameters"
  int64_t total_steps = 0;
  int64_t global_batch_size = 0;  // sequences
  int64_t seq_len = 0;
  std::string dataset;

  // Set at the end; until then the report takes the last row of metrics.jsonl.
  int64_t last_step = 0;
  int64_t tokens_seen = 0;
  double loss = kUnknown;
  std::optional<double> first_val_loss;
  std::optional<double> val_loss;
  std::optional<double> val_bits_per_byte;
  double average_tokens_per_second = kUnknown;  // per device, without the first step
  double training_s = 0;                        // of all sessions
  int64_t peak_memory = 0;                      // bytes
  std::string error;                            // why it failed

  std::string checkpoint_folder;  // empty: none written
  std::string tensorboard_folder;
};

// nullopt when the folder has none. Throws Error naming the file when it is no run record or of a
// newer format.
std::optional<RunRecord> read_run_record(const std::filesystem::path& run_folder);
// Atomically. Makes the folder when it is absent.
void write_run_record(const std::filesystem::path& run_folder, const RunRecord& record);

// The record to write at the start: `fresh` itself for a new run; on a resume it takes over the
// start time, the time spent and the validations of the record that is there, and counts one
// session more.
RunRecord begin_record(const std::filesystem::path& run_folder, RunRecord fresh, bool resumed);

}  // namespace titan::observe
