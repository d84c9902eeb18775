#include "comm/rendezvous.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
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

// The address of this host on the way to rank 0: what a socket towards it is bound to. Nothing is
// sent. The host's name is no help: it often stands for 127.0.1.1.
std::string own_address(const std::string& host, int64_t port) {
  if (is_loopback(host)) return host == "localhost" ? "127.0.0.1" : host;
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
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
    char text[NI_MAXHOST] = {};
    const bool known = connect(fd, entry->ai_addr, entry->ai_addrlen) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
                       getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text),
                                   nullptr, 0, NI_NUMERICHOST) == 0;
    close(fd);
    if (known) return text;
  }
  throw EnvironmentError("[comm] this host has no way to MASTER_ADDR {} — check the network", host);
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
    auto store = c10::make_intrusive<c10d::TCPStore>(world.master_addr, options);
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
void sign_in(c10d::Store& store, const World& world, double timeout_s) {
  const auto key = [](int64_t rank) { return "rank/" + std::to_string(rank); };
  const std::string at = endpoint(world.master_addr, world.master_port);
  if (store.add(key(world.rank) + "/count", 1) > 1) {
    throw EnvironmentError("[comm] two processes at {} are rank {} of {} — give each its own RANK",
                           at, world.rank, world.size);
  }
  store.set(key(world.rank), bytes_of(std::to_string(world.size)));
  const Stopwatch watch;
  std::vector<int64_t> missing(static_cast<size_t>(world.size));
  for (int64_t rank = 0; rank < world.size; ++rank) missing[static_cast<size_t>(rank)] = rank;
  while (true) {
    std::erase_if(missing, [&](int64_t rank) { return store.check({key(rank)}); });
    if (missing.empty()) break;
    if (watch.seconds() > timeout_s) {
      std::vector<std::string> names;
      for (const int64_t rank : missing) names.push_back(std::to_string(rank));
      throw EnvironmentError(
          "[comm] rank {}: of {} ranks at {}, {} did not come within {:.0f} s: {} — look at their "
          "logs, or raise comm.init_timeout_seconds",
          world.rank, world.size, at, names.size(), timeout_s, text::listed(names));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (int64_t rank = 0; rank < world.size; ++rank) {
    const std::string size = text_of(store.get(key(rank)));
    if (size == std::to_string(world.size)) continue;
    throw EnvironmentError(
        "[comm] rank {} has WORLD_SIZE {}, rank {} has {} at {} — start all with one number",
        world.rank, world.size, rank, size, at);
  }
}

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

Rendezvous::Rendezvous(const World& given, double timeout_s) {
  const World world = reachable(given);
  state_ = std::make_shared<State>(State{world, timeout_s,
                                         own_address(world.master_addr, world.master_port),
                                         open_store(world, timeout_s)});
  sign_in(*state_->store, world, timeout_s);
}

Rendezvous::~Rendezvous() = default;

GroupMaker Rendezvous::host(std::shared_ptr<RankContext> context) const {
  return [state = state_, context](const std::string& axis, const std::string& id,
                                   const std::vector<int64_t>& ranks) {
    const auto store = c10::make_intrusive<c10d::PrefixStore>("host/" + id, state->store);
    return Group(axis, device::make_gloo_group(store, state->options(ranks)), context);
  };
}

GroupMaker Rendezvous::device(device::Backend& backend,
                              std::shared_ptr<RankContext> context) const {
  return [state = state_, &backend, context](const std::string& axis, const std::string& id,
                                             const std::vector<int64_t>& ranks) {
    const auto store = c10::make_intrusive<c10d::PrefixStore>("device/" + id, state->store);
    return Group(axis, backend.make_process_group(store, state->options(ranks)), context);
  };
}

}  // namespace titan::comm
