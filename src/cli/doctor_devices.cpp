#include "cli/doctor_devices.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/world.h"
#include "comm/rendezvous.h"
#include "device/npu/error_codes.h"
#include "device/registry.h"
#include "launch/child.h"

namespace titan::cli {
namespace {

namespace fs = std::filesystem;
using at::Tensor;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr double kGrace_s = 8;  // for the launcher to end its ranks

// Bytes per second of `move`, which moves `bytes`.
double speed_of(device::Backend& backend, int64_t bytes, const std::function<void()>& move) {
  move();
  backend.synchronize();
  const Stopwatch watch;
  int64_t times = 0;
  do {
    move();
    backend.synchronize();
    ++times;
  } while (watch.seconds() < 0.1 && times < 20);
  return static_cast<double>(bytes * times) / watch.seconds();
}

fs::path file_of(const std::string& folder, int64_t rank) {
  return fs::path(folder) / fmt::format("rank_{}.json", rank);
}

void tell(const std::string& folder, const RankFacts& facts) {
  nlohmann::json json = {{"device", facts.device},         {"stage", facts.stage},
                         {"doing", facts.doing},           {"problem", facts.problem},
                         {"copy", facts.memory.copy},      {"to_device", facts.memory.to_device},
                         {"to_host", facts.memory.to_host}};
  json["sizes"] = nlohmann::json::array();
  for (const auto& size : facts.sizes) {
    json["sizes"].push_back({size.bytes, size.seconds, size.bus_speed});
  }
  files::write_atomically(file_of(folder, facts.rank), json.dump());
}

// What a rank has told; nothing yet: it is starting.
RankFacts read_rank(const std::string& folder, int64_t rank, const AllReduceOptions& options) {
  RankFacts facts{.rank = rank,
                  .device = fmt::format("device {}", options.devices[static_cast<size_t>(rank)]),
                  .doing = "starting"};
  if (!fs::exists(file_of(folder, rank))) return facts;
  const auto json = nlohmann::json::parse(files::read(file_of(folder, rank)));
  facts.device = json.at("device");
  facts.stage = json.at("stage");
  facts.doing = json.at("doing");
  facts.problem = json.at("problem");
  facts.memory = {json.at("copy"), json.at("to_device"), json.at("to_host")};
  for (const auto& size : json.at("sizes"))
    facts.sizes.push_back({size.at(0), size.at(1), size.at(2)});
  return facts;
}

// One size: the sum is checked, then timed. Every element of rank r is r + 1 times a number below
// 251, so that a rank that is missing or counted twice shows, and float32 holds the sum exactly.
AllReduceSize add_up(device::Backend& backend, const comm::Group& group, const comm::Group& host,
                     int64_t bytes) {
  const int64_t n = group.size();
  const auto options = at::TensorOptions(at::kFloat).device(backend.device());
  const Tensor pattern = at::remainder(at::arange(bytes / 4, at::kInt), 251).to(options);
  Tensor x = pattern * static_cast<double>(group.rank() + 1);
  group.start_all_reduce(x).wait();
  const int64_t wrong =
      (x != pattern * static_cast<double>(n * (n + 1) / 2)).sum().to(at::kCPU).item<int64_t>();
  if (wrong > 0) {
    throw EnvironmentError(
        "[doctor] {}: {} of {} sums of an all-reduce over {} ranks are wrong — do not train on "
        "these devices",
        backend.device().str(), wrong, bytes / 4, n);
  }
  constexpr int64_t kTimes = 5;
  host.barrier();
  backend.synchronize();
  const Stopwatch watch;
  for (int64_t i = 0; i < kTimes; ++i) group.start_all_reduce(x).wait();
  backend.synchronize();
  const Tensor slowest =
      host.all_reduce(at::tensor({watch.seconds() / kTimes}, at::kDouble), comm::Reduce::kMax);
  const double seconds = slowest.item<double>();
  const auto moved = 2.0 * static_cast<double>((n - 1) * bytes) / static_cast<double>(n);
  return {.bytes = bytes, .seconds = seconds, .bus_speed = moved / seconds};
}

// Output of the launcher until it ends, or is ended at the time limit.
struct Ended {
  int status = 0;
  bool out_of_time = false;
  std::string said;
};
Ended watch_launcher(const launch::Child& child, double time_limit_s) {
  Ended ended;
  const Stopwatch watch;
  bool killed = false;
  std::array<char, 4096> block{};
  std::array<pollfd, 2> pipes{{{child.out_fd, POLLIN, 0}, {child.err_fd, POLLIN, 0}}};
  while (waitpid(child.pid, &ended.status, WNOHANG) == 0) {
    poll(pipes.data(), pipes.size(), 50);
    for (auto& pipe : pipes) {
      ssize_t n = 0;
      while (pipe.fd >= 0 && (n = read(pipe.fd, block.data(), block.size())) > 0) {
        ended.said.append(block.data(), static_cast<size_t>(n));
      }
      if (n == 0) pipe.fd = -1;  // closed
    }
    if (pipes[0].fd < 0 && pipes[1].fd < 0) usleep(10000);
    if (!ended.out_of_time && watch.seconds() > time_limit_s) {
      ended.out_of_time = true;
      kill(child.pid, SIGTERM);
    }
    if (ended.out_of_time && !killed && watch.seconds() > time_limit_s + kGrace_s) {
      killed = true;
      kill(child.pid, SIGKILL);  // its guardian ends the ranks
    }
  }
  close(child.out_fd);
  close(child.err_fd);
  return ended;
}

// A rank that says what is wrong with its own device; else those that came least far.
std::string verdict(const std::vector<RankFacts>& ranks, const Ended& ended, double time_limit_s) {
  if (ended.status == 0 && !ended.out_of_time) return "";
  const auto own = std::ranges::find_if(ranks, [](const RankFacts& r) {
    return !r.problem.empty() && !r.problem.starts_with("[comm]");
  });
  if (own != ranks.end())
    return fmt::format("rank {} ({}): {}", own->rank, own->device, own->problem);
  const int64_t least = std::ranges::min(ranks, {}, &RankFacts::stage).stage;
  std::vector<std::string> names;
  std::string doing, problem;
  for (const auto& rank : ranks) {
    if (rank.stage != least) continue;
    names.push_back(fmt::format("rank {} ({})", rank.rank, rank.device));
    doing = rank.doing;
    if (!rank.problem.empty()) problem = ": " + rank.problem;
  }
  return fmt::format("{} did not get past: {}{}{}", text::listed(names, 16), doing,
                     ended.out_of_time ? fmt::format(" (not within {:.0f} s)", time_limit_s) : "",
                     problem);
}

}  // namespace

MemorySpeed measure_memory(device::Backend& backend) {
  const auto device = backend.device();
  const int64_t bytes =
      device.is_cpu() ? 64 * kMiB : std::clamp(backend.free_memory() / 8, kMiB, 256 * kMiB);
  const auto options = at::TensorOptions(at::kByte).device(device);
  const Tensor a = at::ones({bytes}, options), b = at::empty({bytes}, options);
  MemorySpeed speed;
  const auto copy = [](const Tensor& to, const Tensor& from) {
    return [to, from] { Tensor(to).copy_(from, /*non_blocking=*/true); };
  };
  speed.copy = speed_of(backend, 2 * bytes, copy(b, a));
  if (device.is_cpu()) return speed;
  const Tensor pinned = at::ones({bytes}, at::TensorOptions(at::kByte).pinned_memory(true));
  speed.to_device = speed_of(backend, bytes, copy(a, pinned));
  speed.to_host = speed_of(backend, bytes, copy(pinned, a));
  return speed;
}

AllReduceFacts test_all_reduce(const AllReduceOptions& options) {
  std::string folder = (fs::temp_directory_path() / "titan_doctor_XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    throw EnvironmentError("[doctor] cannot make a folder in {} — check its space and TMPDIR",
                           fs::temp_directory_path().string());
  }
  std::vector<std::string> numbers;
  for (const int64_t device : options.devices) numbers.push_back(std::to_string(device));
  const auto launcher = launch::start_child(
      "/proc/self/exe",
      {"titan", "launch", "--nproc", std::to_string(options.devices.size()), "--log-dir",
       folder + "/logs", "--", "doctor", "--all-reduce-rank", folder, "--probe", options.device,
       "--devices", text::join(numbers, ","), "--time-limit", std::to_string(options.time_limit_s)},
      env::with({}));
  const Ended ended = watch_launcher(launcher, options.time_limit_s);
  AllReduceFacts facts{.device = options.device};
  for (size_t rank = 0; rank < options.devices.size(); ++rank) {
    facts.ranks.push_back(read_rank(folder, static_cast<int64_t>(rank), options));
  }
  facts.problem = verdict(facts.ranks, ended, options.time_limit_s);
  // A rank that had no time to tell: the launcher's last line is its last word.
  const bool told =
      std::ranges::any_of(facts.ranks, [](const RankFacts& rank) { return !rank.problem.empty(); });
  const auto lines = text::split(text::trim(ended.said), '\n');
  if (!facts.problem.empty() && !told && !ended.out_of_time && !lines.empty()) {
    facts.problem += ": " + std::string(text::trim(lines.back()));
  }
  std::error_code none;
  fs::remove_all(folder, none);
  return facts;
}

void run_all_reduce_rank(const AllReduceOptions& options, const std::string& folder) {
  const World world = read_world();
  const int64_t index = options.devices.at(static_cast<size_t>(world.rank));
  RankFacts facts{.rank = world.rank, .device = fmt::format("device {}", index)};
  const auto enter = [&](const std::string& doing) {
    facts.doing = doing;
    ++facts.stage;
    tell(folder, facts);
  };
  try {
    enter("opening the device");
    // The device of a rank is that of LOCAL_RANK.
    env::set({{"LOCAL_RANK", std::to_string(index)}});
    const auto backend = device::open_backend({.name = options.device, .threads = 1});
    facts.device = backend->device().str();
    enter("the health check of the device");
    if (const auto problem = backend->health_check()) {
      throw EnvironmentError("[doctor] the device is not well: {} — leave it out", *problem);
    }
    enter("copying memory");
    facts.memory = measure_memory(*backend);
    enter("meeting the other ranks");
    const double timeout_s = std::max(1.0, options.time_limit_s / 3);
    const comm::Rendezvous rendezvous(world, timeout_s);
    const auto context = std::make_shared<comm::RankContext>();
    context->rank = world.rank;
    context->progress.phase = "doctor";
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < world.size; ++rank) ranks.push_back(rank);
    const auto host = rendezvous.host(context)("host", "host", ranks);
    const auto group = rendezvous.device(*backend, context)("all", "all", ranks);
    for (const int64_t bytes : {int64_t{4096}, kMiB, 16 * kMiB, 256 * kMiB}) {
      enter("an all-reduce of " + text::bytes(bytes));
      facts.sizes.push_back(add_up(*backend, group, host, bytes));
      // The same on all ranks: the time is the slowest one's.
      if (facts.sizes.back().seconds > 0.02) break;
    }
    host.barrier();
    enter("done");
  } catch (const std::exception& error) {
    const std::string what = error.what();
    const auto meaning = device::npu::explain_error(what);
    facts.problem = meaning ? "[npu] " + *meaning : what.substr(0, what.find('\n'));
    tell(folder, facts);
    throw;
  }
}

}  // namespace titan::cli
