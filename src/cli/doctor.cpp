// `titan doctor`: what this machine and this build can do, in one screen; the first thing to send
// with a question.
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/doctor_facts.h"
#include "cli/options.h"

namespace titan::cli {
namespace {

// Ends a process whose probes do not answer: a device that hangs holds the thread that asked it.
class Deadline {
 public:
  // `known`: what is wrong already, said in any case.
  Deadline(double seconds, const std::string& known)
      : thread_([this, seconds, known](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          done_.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
          if (stop.stop_requested()) return;
          std::fprintf(stderr,
                       "titan: [doctor] a device does not answer within %.0f s — leave it out "
                       "(ASCEND_RT_VISIBLE_DEVICES, CUDA_VISIBLE_DEVICES), or raise --time-limit\n",
                       seconds);
          if (!known.empty()) {
            std::fprintf(stderr, "titan: [doctor] the all-reduce failed: %s\n", known.c_str());
          }
          std::fflush(nullptr);
          _exit(static_cast<int>(ExitCode::kEnvironment));
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any done_;
  std::jthread thread_;
};

bool has_error(const std::vector<AscendFinding>& findings) {
  return std::ranges::any_of(findings, &AscendFinding::is_error);
}

bool is_usable(const DoctorFacts& facts, const std::string& device) {
  if (device.empty()) return true;
  if (device == "cpu") return facts.cpu.health == "good";
  for (const auto& found : facts.devices) {
    if (found.module.name == device) return found.healthy;
  }
  return false;
}

struct Words {
  std::string required, rank_folder, probe = "auto";
  bool as_json = false, with_ops = false;
  int64_t all_reduce = 0;
  std::vector<int64_t> devices;
  double time_limit_s = 120;
};

void declare(CLI::App& app, Words& words) {
  const auto kinds = CLI::IsMember({"cpu", "cuda", "npu"});
  app.add_option("--device", words.required,
                 "exit with code 3 unless this device (cpu, cuda, npu) can be used")
      ->check(kinds);
  app.add_flag("--json", words.as_json, "print one JSON object instead");
  app.add_flag("--ops", words.with_ops,
               "also run every op on every device, tell its kernels and compare it with its "
               "reference; exit code 1 "
               "when one differs");
  auto* number =
      app.add_option("--all-reduce", words.all_reduce,
                     "also add up numbers over this many devices, one process for each; exit code "
                     "3 when a sum is wrong or a device does not answer")
          ->check(CLI::Range(1, 1024));
  app.add_option("--devices", words.devices, "the same over these devices: 0,1,5")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->excludes(number);
  app.add_option("--time-limit", words.time_limit_s,
                 "seconds until a device that does not answer is given up")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  // Between the processes of --all-reduce.
  app.add_option("--all-reduce-rank", words.rank_folder)->group("");
  app.add_option("--probe", words.probe)->group("");
}

AllReduceOptions all_reduce_options(const Words& words) {
  AllReduceOptions options{.device = words.required.empty() ? words.probe : words.required,
                           .devices = words.devices,
                           .time_limit_s = words.time_limit_s};
  for (int64_t i = 0; i < words.all_reduce; ++i) options.devices.push_back(i);
  auto sorted = options.devices;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    throw Error("[doctor] --devices names device {} twice — name each once", *twice);
  }
  return options;
}

// Throws what makes this machine not ready for what was asked.
void judge(const DoctorFacts& facts, const std::string& required) {
  for (const auto& op : facts.ops) {
    if (!op.agrees) {
      throw InternalError(fmt::format(
          "[doctor] {} on {} in {} differs from its reference — the lines above say how", op.op,
          op.device, op.dtype));
    }
  }
  if (!is_usable(facts, required)) {
    throw EnvironmentError("[doctor] device '{}' cannot be used here — the lines above say why",
                           required);
  }
  if (facts.all_reduce && !facts.all_reduce->problem.empty()) {
    throw EnvironmentError("[doctor] the all-reduce failed: {}", facts.all_reduce->problem);
  }
  const bool asked = !required.empty() || facts.all_reduce;
  if (asked && (has_error(facts.network) || (required == "npu" && has_error(facts.hccl)))) {
    throw EnvironmentError(
        "[doctor] the network settings of this job are wrong — the section network says how");
  }
}

}  // namespace

int run_doctor(Arguments arguments) {
  CLI::App app{
      "Shows what this build and this machine can do: versions, devices, threads, memory, disk, "
      "settings.",
      "titan doctor"};
  Words words;
  declare(app, words);
  if (!parse_options(app, arguments)) return 0;
  // Opening devices logs; standard output is for the facts alone.
  log::configure({.level = log::Level::kWarning, .prefix = {}, .to_stderr = true});
  const auto options = all_reduce_options(words);
  if (!words.rank_folder.empty()) {
    run_all_reduce_rank(options, words.rank_folder);
    return 0;
  }
  // Before this process opens a device or has a second thread.
  std::optional<AllReduceFacts> all_reduce;
  if (!options.devices.empty()) all_reduce = test_all_reduce(options);
  DoctorFacts facts;
  {
    const Deadline deadline(words.time_limit_s, all_reduce ? all_reduce->problem : "");
    facts = collect_doctor_facts(words.with_ops);
  }
  facts.all_reduce = std::move(all_reduce);
  const std::string text = words.as_json ? doctor_json(facts) : doctor_text(facts);
  std::fputs(text.c_str(), stdout);
  judge(facts, words.required);
  return 0;
}

}  // namespace titan::cli
