// The words of `titan launch`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace titan::launch {

struct Options {
  int64_t nproc = 1;
  std::vector<int64_t> log_ranks = {0};  // shown on the terminal; every rank has its log file
  std::string log_dir;                   // empty: chosen, see log_folder.h
  std::optional<int64_t> master_port;    // absent: a free one
  bool prefix = true;
  std::vector<std::string> words;  // the command of each rank, after `titan`

  std::string program = "/proc/self/exe";        // what each rank executes
  std::optional<int64_t> threads_per_rank = {};  // OMP_NUM_THREADS, where the user has set none
  double grace_s = 5;  // between SIGTERM and SIGKILL once a rank has failed
};

// nullopt when --help was asked for and printed. Throws Error.
std::optional<Options> parse(std::span<const std::string> words);

// "0,2" or "all" of `nproc` ranks, ascending. Throws Error naming the word that is no rank.
std::vector<int64_t> parse_log_ranks(const std::string& text, int64_t nproc);

}  // namespace titan::launch
