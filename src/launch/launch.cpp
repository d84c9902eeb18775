#include "launch/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/address.h"
#include "base/env.h"
#include "base/log.h"
#include "base/text.h"
#include "launch/guardian.h"
#include "launch/log_folder.h"
#include "launch/output.h"
#include "launch/port.h"
#include "launch/supervisor.h"

namespace titan::launch {
namespace {

constexpr const char* kAddress = "127.0.0.1";

void print_error(const std::string& text) { std::fputs(text.c_str(), stderr); }

env::Changes variables_of(const Options& options, int64_t rank, int64_t port) {
  const std::string size = std::to_string(options.nproc), number = std::to_string(rank);
  env::Changes changes = {{"RANK", number},          {"WORLD_SIZE", size},
                          {"LOCAL_RANK", number},    {"LOCAL_WORLD_SIZE", size},
                          {"MASTER_ADDR", kAddress}, {"MASTER_PORT", std::to_string(port)}};
  // Under torchrun, whose store is not this job's.
  if (env::get("TORCHELASTIC_USE_AGENT_STORE"))
    changes.emplace_back("TORCHELASTIC_USE_AGENT_STORE", "False");
  if (env::get("TORCHELASTIC_RESTART_COUNT"))
    changes.emplace_back("TORCHELASTIC_RESTART_COUNT", "0");
  if (options.threads_per_rank && !env::get("OMP_NUM_THREADS"))
    changes.emplace_back("OMP_NUM_THREADS", std::to_string(*options.threads_per_rank));
  return changes;
}

std::vector<RankOutput> outputs_of(const Options& options, const std::filesystem::path& folder) {
  std::vector<RankOutput> outputs;
  const auto prefix = [&](const std::string& mark, int fd) {
    if (!options.prefix) return std::string();
    return log::wants_color(fd) ? fmt::format("\033[36m{}\033[0m", mark) : mark;
  };
  for (int64_t rank = 0; rank < options.nproc; ++rank) {
    const auto& shown = options.log_ranks;
    const std::string mark = fmt::format("[rank{}]:", rank);
    outputs.push_back({.log = folder / fmt::format("rank_{}.log", rank),
                       .shown = std::find(shown.begin(), shown.end(), rank) != shown.end(),
                       .mark = mark,
                       .out_prefix = prefix(mark, STDOUT_FILENO),
                       .err_prefix = prefix(mark, STDERR_FILENO)});
  }
  return outputs;
}

// The others that failed by themselves, most likely because the first had left them.
void report_followers(const Supervisor& supervisor) {
  std::vector<std::string> followers;
  const auto& ranks = supervisor.ranks();
  for (size_t i = 0; i < ranks.size(); ++i) {
    const bool first = supervisor.first_failed() == static_cast<int64_t>(i);
    if (ranks[i].status != 0 && !ranks[i].ended_by_us && !first)
      followers.push_back(fmt::format("rank {} ({})", i, end_text(ranks[i].status)));
  }
  if (followers.empty()) return;
  print_error(fmt::format("titan launch: failed after it: {}\n", text::listed(followers, 8)));
}

int report(const Supervisor& supervisor, const Output& output,
           const std::vector<RankOutput>& outputs) {
  if (!supervisor.first_failed()) {
    const auto& ranks = supervisor.ranks();
    const bool stopped =
        supervisor.was_killed() ||
        std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.status != 0; });
    return stopped ? 128 + supervisor.stop_signal() : 0;
  }
  report_followers(supervisor);
  const auto first = static_cast<size_t>(*supervisor.first_failed());
  const auto last = output.last_lines(static_cast<int64_t>(first));
  const char* what = last.lines.empty() ? "it printed nothing"
                     : last.from_stderr ? "the last lines of its standard error:"
                                        : "the last lines of its output:";
  const int status = supervisor.ranks()[first].status;
  print_error(fmt::format("titan launch: rank {} failed first, with {}; log: {}; {}\n", first,
                          end_text(status), outputs[first].log.string(), what));
  for (const auto& line : last.lines)
    print_error(with_prefix(line + "\n", outputs[first].err_prefix, outputs[first].mark));
  return exit_code(status);
}

}  // namespace

int run(const Options& options) {
  const PortReservation reservation(options.master_port);
  env::set(variables_of(options, 0, reservation.port()));
  const auto folder = make_log_folder(options);
  const auto outputs = outputs_of(options, folder);
  print_error(fmt::format("titan launch: {} rank{} at {}, logs in {}\n", options.nproc,
                          options.nproc == 1 ? "" : "s", endpoint(kAddress, reservation.port()),
                          folder.string()));
  Guardian guardian;
  Output output(outputs);
  std::optional<Supervisor> supervisor;
  {
    const SignalMask mask;
    supervisor.emplace(options, guardian, output);
    supervisor->start(
        [&](int64_t rank) { return env::with(variables_of(options, rank, reservation.port())); });
    supervisor->watch();
  }
  output.finish();
  return report(*supervisor, output, outputs);
}

}  // namespace titan::launch
