#include "hccl/communicator.h"

#include <arpa/inet.h>
#include <hccl/hccl_types.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

#include "settings.h"

namespace cannemu::hccl {
namespace {

constexpr uint32_t kSetUp = 99;

// A time-out in seconds from one of HCCL's own variables.
std::chrono::seconds timeout(const char* variable, int standard) {
  const char* text = std::getenv(variable);
  const int seconds = text ? std::atoi(text) : 0;
  return std::chrono::seconds(seconds > 0 ? seconds : standard);
}

Deadline connect_deadline() {
  return std::chrono::steady_clock::now() + timeout("HCCL_CONNECT_TIMEOUT", 120);
}
Deadline execute_deadline() {
  return std::chrono::steady_clock::now() + timeout("HCCL_EXEC_TIMEOUT", 1836);
}

// Listeners that new_rendezvous() opened, until rank 0 takes them.
std::mutex listeners_mutex;
std::map<std::string, int>& listeners() {
  static auto* open = new std::map<std::string, int>;
  return *open;
}

// The address of this host for others: that of the interface named by HCCL_SOCKET_IFNAME, else the
// first that is up.
std::string own_host() {
  const char* wanted = std::getenv("HCCL_SOCKET_IFNAME");
  std::string best = "127.0.0.1";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return best;
  for (ifaddrs* at = all; at; at = at->ifa_next) {
    if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || !(at->ifa_flags & IFF_UP)) continue;
    const bool loopback = at->ifa_flags & IFF_LOOPBACK;
    if (wanted ? !std::string(at->ifa_name).starts_with(wanted) : loopback) continue;
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(at->ifa_addr)->sin_addr, text, sizeof(text));
    best = text;
    break;
  }
  freeifaddrs(all);
  return best;
}

std::string text_from(int socket) {
  char text[64] = "";
  read_all(socket, text, sizeof(text));
  return text;
}

void text_to(int socket, const std::string& address) {
  char text[64] = "";
  std::strncpy(text, address.c_str(), sizeof(text) - 1);
  write_all(socket, text, sizeof(text));
}

// Rank 0 hears where the others listen and tells everyone.
std::vector<std::string> exchange_addresses(const std::string& rendezvous, int size, int rank,
                                            int& listener, Deadline until) {
  std::vector<std::string> addresses(size);
  if (rank == 0) {
    {
      std::lock_guard lock(listeners_mutex);
      auto at = listeners().find(rendezvous);
      if (at == listeners().end())
        throw Failure(HCCL_E_PARA, "rank 0 is not the process that made the root info");
      listener = at->second;
      listeners().erase(at);
    }
    addresses[0] = rendezvous;
    std::vector<int> sockets(size, -1);
    for (int count = 1; count < size; ++count) {
      const int socket = accept_from(listener, until);
      int32_t peer = -1;
      read_all(socket, &peer, sizeof(peer));
      if (peer <= 0 || peer >= size || sockets[peer] >= 0)
        throw Failure(HCCL_E_PARA, "two processes of one rank");
      sockets[peer] = socket;
      addresses[peer] = text_from(socket);
    }
    for (int peer = 1; peer < size; ++peer) {
      for (const std::string& address : addresses) text_to(sockets[peer], address);
      ::close(sockets[peer]);
    }
    return addresses;
  }
  std::string own = "tcp:" + own_host() + ":0";
  listener = listen_at(own);
  const int root = connect_to(rendezvous, until);
  const int32_t number = rank;
  write_all(root, &number, sizeof(number));
  text_to(root, own);
  for (std::string& address : addresses) address = text_from(root);
  ::close(root);
  return addresses;
}

struct Names {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Communicator>> of;
};
Names& names() {
  static auto* all = new Names;
  return *all;
}

}  // namespace

std::shared_ptr<Communicator> find_communicator(const std::string& name) {
  std::lock_guard lock(names().mutex);
  auto at = names().of.find(name);
  auto found = at == names().of.end() ? nullptr : at->second.lock();
  if (!found) throw Failure(HCCL_E_NOT_FOUND, "there is no communicator " + name);
  return found;
}

void register_communicator(const std::shared_ptr<Communicator>& communicator) {
  std::lock_guard lock(names().mutex);
  names().of[communicator->name] = communicator;
}

std::string new_rendezvous() {
  if (settings().transport == "tcp") {
    std::string address = "tcp:" + own_host() + ":0";
    const int listener = listen_at(address);
    std::lock_guard lock(listeners_mutex);
    listeners()[address] = listener;
    return address;
  }
  std::random_device random;
  return "unix:cannemu-" + std::to_string(getpid()) + "-" + std::to_string(random()) + "-" +
         std::to_string(random());
}

Communicator::Communicator(std::string given, int size, int rank)
    : name(std::move(given)), rank_(rank), sent_(size, 0), received_(size, 0) {
  for (int peer = 0; peer < size; ++peer) links_.push_back(std::make_unique<Link>());
}

Communicator::~Communicator() { abort(); }

// The higher rank calls, the lower one answers.
void Communicator::connect(int listener, const std::vector<std::string>& addresses,
                           Deadline until) {
  const int32_t own = rank_;
  for (int peer = 0; peer < rank_; ++peer) {
    const int socket = connect_to(addresses[peer], until);
    write_all(socket, &own, sizeof(own));
    links_[peer]->open(socket);
  }
  for (int count = rank_ + 1; count < size(); ++count) {
    const int socket = accept_from(listener, until);
    int32_t peer = -1;
    read_all(socket, &peer, sizeof(peer));
    if (peer <= rank_ || peer >= size())
      throw Failure(HCCL_E_PARA, "a process of rank " + std::to_string(peer));
    links_[peer]->open(socket);
  }
  ::close(listener);
}

std::shared_ptr<Communicator> Communicator::open(const std::string& rendezvous, int size,
                                                 int rank) {
  const Deadline until = connect_deadline();
  std::shared_ptr<Communicator> made(new Communicator(rendezvous, size, rank));
  made->rendezvous_ = rendezvous;
  int listener = -1;
  std::vector<std::string> addresses;
  if (rendezvous.starts_with("tcp:")) {
    addresses = exchange_addresses(rendezvous, size, rank, listener, until);
  } else {
    for (int peer = 0; peer < size; ++peer)
      addresses.push_back(rendezvous + "/" + std::to_string(peer));
    listener = listen_at(addresses[rank]);
  }
  made->connect(listener, addresses, until);
  return made;
}

std::shared_ptr<Communicator> Communicator::sub(const std::vector<uint32_t>& members, int rank,
                                                uint64_t id) {
  const std::string place = rendezvous_ + "." + std::to_string(id);
  if (rendezvous_.starts_with("unix:")) return open(place, static_cast<int>(members.size()), rank);
  const Deadline until = connect_deadline();
  std::shared_ptr<Communicator> made(
      new Communicator(place, static_cast<int>(members.size()), rank));
  made->rendezvous_ = rendezvous_;
  std::string own = "tcp:" + own_host() + ":0";
  const int listener = listen_at(own);
  own.resize(64, '\0');
  std::vector<std::string> addresses(members.size(), own);
  // Numbered from the top, where no collective's number comes.
  const uint64_t number = ~id;
  for (size_t peer = 0; peer < members.size(); ++peer) {
    if (static_cast<int>(peer) != rank)
      send(static_cast<int>(members[peer]), kSetUp, number, own.data(), own.size());
  }
  for (size_t peer = 0; peer < members.size(); ++peer) {
    if (static_cast<int>(peer) == rank) continue;
    addresses[peer] = receive(static_cast<int>(members[peer]), kSetUp, number, own.size()).data();
  }
  made->connect(listener, addresses, until);
  return made;
}

void Communicator::send(int to, uint32_t kind, uint64_t number, const void* data, size_t bytes) {
  try {
    links_.at(to)->send(kind, number, data, bytes);
  } catch (const Failure& failure) {
    throw Failure(failure.code, "rank " + std::to_string(rank_) + " sends to rank " +
                                    std::to_string(to) + " of " + name + ": " + failure.what());
  }
}

std::vector<char> Communicator::take(int from, uint32_t kind, uint64_t number, size_t bytes) {
  const std::string who =
      "rank " + std::to_string(rank_) + " waits for rank " + std::to_string(from) + " of " + name;
  Message message;
  try {
    message = links_.at(from)->receive(kind == kPointToPoint, number, execute_deadline());
  } catch (const Failure& failure) {
    throw Failure(failure.code, who + ": " + failure.what());
  }
  if (message.kind != kind || message.data.size() != bytes) {
    throw Failure(HCCL_E_INTERNAL, who + ": the collectives do not match: here kind " +
                                       std::to_string(kind) + " with " + std::to_string(bytes) +
                                       " bytes, there kind " + std::to_string(message.kind) +
                                       " with " + std::to_string(message.data.size()) +
                                       " bytes, number " + std::to_string(number));
  }
  return std::move(message.data);
}

std::vector<char> Communicator::receive(int from, uint32_t kind, uint64_t number, size_t bytes) {
  return take(from, kind, number, bytes);
}

void Communicator::send_next(int to, const void* data, size_t bytes) {
  send(to, kPointToPoint, sent_.at(to)++, data, bytes);
}

std::vector<char> Communicator::receive_next(int from, size_t bytes) {
  return take(from, kPointToPoint, received_.at(from)++, bytes);
}

void Communicator::abort() {
  aborted_ = true;
  for (auto& link : links_) link->close();
}

void Communicator::wait_for_abort() {
  for (const Deadline until = execute_deadline();
       !aborted_ && std::chrono::steady_clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace cannemu::hccl
