#include "comm/rendezvous.h"

#include <c10/util/Logging.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/address.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "device/cpu/process_group.h"

namespace titan::comm {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  const int code = getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return code == 0 ? text : "";
}

// An IPv4 address that other hosts may reach, or "": of the first interface that has one.
std::string outer_address() {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(found, &freeifaddrs);
  for (const ifaddrs* entry = found; entry; entry = entry->ifa_next) {
    const bool usable = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || !entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET) continue;
    return numeric(entry->ifa_addr, sizeof(sockaddr_in));
  }
  return "";
}

// The address of this host on the way to rank 0: what a socket towards it is bound to. Nothing is
// sent. The host's name is no help: it often stands for 127.0.1.1, even where it is rank 0's.
std::string own_address(const World& world) {
  const std::string& host = world.master_addr;
  if (is_loopback(host)) return host == "localhost" ? "127.0.0.1" : host;
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int code =
      getaddrinfo(host.c_str(), std::to_string(world.master_port).c_str(), &hints, &found);
  if (code != 0) {
    throw EnvironmentError("[comm] MASTER_ADDR {} is not known on this host: {} — check the name",
                           host, gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  for (const addrinfo* entry = found; entry; entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, SOCK_DGRAM, 0);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    const bool known = connect(fd, entry->ai_addr, entry->ai_addrlen) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
    close(fd);
    const std::string text = known ? numeric(reinterpret_cast<sockaddr*>(&own), length) : "";
    if (text.empty()) continue;
    const bool several_hosts = world.local_size < world.size;
    const std::string outer = several_hosts && is_loopback(text) ? outer_address() : "";
    return outer.empty() ? text : outer;
  }
  throw EnvironmentError("[comm] this host has no way to MASTER_ADDR {} — check the network", host);
}

// Connecting waits for ever when something else than rank 0 listens there and stays silent.
StorePtr connect_within(const std::string& host, const c10d::TCPStoreOptions& options) {
  using Store = c10::intrusive_ptr<c10d::TCPStore>;
  const auto promise = std::make_shared<std::promise<Store>>();
  auto store = promise->get_future();
  std::thread([promise, host, options] {
    try {
      promise->set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  // libtorch tries once more after its own time limit.
  if (store.wait_for(3 * options.timeout) != std::future_status::ready) {
    throw std::runtime_error("what listens there does not answer");
  }
  return store.get();
}

StorePtr open_store(const World& world, double timeout_s) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(world.master_port);
  options.isServer = world.rank == 0 && !world.store_is_served;
  options.numWorkers = static_cast<size_t>(world.size);
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout_s * 1000));
  const std::string at = endpoint(world.master_addr, world.master_port);
  try {
    auto store = connect_within(world.master_addr, options);
    return c10::make_intrusive<c10d::PrefixStore>(fmt::format("titan/{}", world.attempt), store);
  } catch (const std::exception& error) {
    const std::string reason = first_line(error.what());
    if (options.isServer && reason.find("EADDRINUSE") != std::string::npos) {
      throw EnvironmentError(
          "[comm] rank 0 cannot listen on {}: another process has this port — choose another "
          "MASTER_PORT, or end that process",
          at);
    }
    throw EnvironmentError(
        "[comm] rank {} of {} cannot reach rank 0 at {} within {:.0f} s: {} — check MASTER_ADDR, "
        "MASTER_PORT and that rank 0 runs",
        world.rank, world.size, at, timeout_s, reason);
  }
}

// Every rank signs in once; a rank that signs in twice, disagrees, or never comes is named.
class SignIn {
 public:
  SignIn(c10d::Store& store, const World& world, double timeout_s, const Facts& facts)
      : store_(store),
        world_(world),
        timeout_s_(timeout_s),
        facts_(facts),
        at_(endpoint(world.master_addr, world.master_port)) {}

  void run() {
    for (int64_t rank = 0; rank < world_.size; ++rank) missing_.push_back(rank);
    try {
      enter();
      await_all();
    } catch (const Error&) {
      await_others_end();
      throw;
    } catch (const std::exception&) {
      // Rank 0 keeps the list, and its own message can be no better.
      throw EnvironmentError(
          "[comm] rank {}: rank 0 at {} ended while the ranks were meeting; of {} ranks {} had not "
          "come{} — look at their logs",
          world_.rank, at_, world_.size, missing_.size(),
          missing_.empty() ? "" : ": " + names_of_missing());
    }
  }

 private:
  static std::string key(int64_t rank) { return "rank/" + std::to_string(rank); }
  std::string names_of_missing() const {
    std::vector<std::string> names;
    for (const int64_t rank : missing_) names.push_back(std::to_string(rank));
    return text::listed(names);
  }

  void enter() {
    if (store_.add(key(world_.rank) + "/count", 1) > 1) {
      throw EnvironmentError(
          "[comm] two processes at {} are rank {} of {} — give each its own RANK", at_, world_.rank,
          world_.size);
    }
    const nlohmann::json mine = {{"size", world_.size}, {"facts", facts_}};
    store_.set(key(world_.rank), bytes_of(mine.dump()));
  }

  void await_all() {
    const Stopwatch watch;
    while (true) {
      std::erase_if(missing_, [&](int64_t rank) {
        if (!store_.check({key(rank)})) return false;
        compare(rank);
        return true;
      });
      if (missing_.empty()) return;
      if (watch.seconds() > timeout_s_) {
        throw EnvironmentError(
            "[comm] rank {}: of {} ranks at {}, {} did not come within {:.0f} s: {} — look at "
            "their logs, or raise comm.init_timeout_seconds",
            world_.rank, world_.size, at_, missing_.size(), timeout_s_, names_of_missing());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  void compare(int64_t rank) {
    const auto theirs = nlohmann::json::parse(text_of(store_.get(key(rank))));
    const auto size = theirs.at("size").get<int64_t>();
    if (size != world_.size) {
      throw EnvironmentError(
          "[comm] rank {} has WORLD_SIZE {}, rank {} has {} at {} — start all with one number",
          world_.rank, world_.size, rank, size, at_);
    }
    const auto facts = theirs.at("facts").get<Facts>();
    for (const auto& [name, value] : facts_) {
      const auto found = facts.find(name);
      const std::string other = found == facts.end() ? "none" : found->second;
      if (other == value) continue;
      throw EnvironmentError(
          "[comm] rank {} has {} = {}, rank {} has {} — start all ranks with one configuration",
          world_.rank, name, value, rank, other);
    }
  }

  // Rank 0 holds what the others still read for their own messages.
  void await_others_end() {
    const auto ended = static_cast<int64_t>(store_.add("ended", 1));
    if (world_.rank > 0) return;
    const Stopwatch watch;
    for (int64_t count = ended; count < world_.size && watch.seconds() < kLinger_s;
         count = store_.add("ended", 0)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  static constexpr double kLinger_s = 2;

  c10d::Store& store_;
  const World& world_;
  double timeout_s_;
  const Facts& facts_;
  std::string at_;
  std::vector<int64_t> missing_;
};

// A single process meets nobody: any free port of its own host will do.
World reachable(World world) {
  if (world.size == 1) {
    world.master_addr = "127.0.0.1";
    world.master_port = 0;
  }
  return world;
}

}  // namespace

struct Rendezvous::State {
  World world;
  double timeout_s = 0;
  std::string own_address;
  StorePtr store;

  device::ProcessGroupOptions options(const std::vector<int64_t>& ranks) const {
    const auto me = std::find(ranks.begin(), ranks.end(), world.rank);
    TITAN_CHECK(me != ranks.end(), "rank {} is not in its own group", world.rank);
    return {.rank = static_cast<int>(me - ranks.begin()),
            .size = static_cast<int>(ranks.size()),
            .timeout_s = timeout_s,
            .listen_address = own_address};
  }
};

Rendezvous::Rendezvous(const World& given, double timeout_s, const Facts& facts) {
  const World world = reachable(given);
  // Writing to a rank that is gone is an error with a message, not the silent end of this one.
  std::signal(SIGPIPE, SIG_IGN);
  // libtorch logs what it also throws, with C++ frames; titan's own message says it in one line.
  // A level that the user has chosen stays.
  if (FLAGS_caffe2_log_level == c10::GLOG_WARNING) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  state_ = std::make_shared<State>(
      State{world, timeout_s, own_address(world), open_store(world, timeout_s)});
  SignIn(*state_->store, world, timeout_s, facts).run();
}

Rendezvous::~Rendezvous() = default;

GroupMaker Rendezvous::host(std::shared_ptr<RankContext> context) const {
  return [state = state_, context](const std::string& axis, const std::string& id,
                                   const std::vector<int64_t>& ranks) {
    const auto store = c10::make_intrusive<c10d::PrefixStore>("host/" + id, state->store);
    context->recorder.add_group(axis, ranks, /*of_device=*/false);
    return Group(axis, device::make_gloo_group(store, state->options(ranks)), context);
  };
}

GroupMaker Rendezvous::device(device::Backend& backend,
                              std::shared_ptr<RankContext> context) const {
  return [state = state_, &backend, context](const std::string& axis, const std::string& id,
                                             const std::vector<int64_t>& ranks) {
    const auto store = c10::make_intrusive<c10d::PrefixStore>("device/" + id, state->store);
    context->recorder.add_group(axis, ranks, /*of_device=*/true);
    return Group(axis, backend.make_process_group(store, state->options(ranks)), context);
  };
}

}  // namespace titan::comm
