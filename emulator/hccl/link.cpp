#include "hccl/link.h"

#include <arpa/inet.h>
#include <hccl/hccl_types.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace cannemu::hccl {
namespace {

struct Header {
  uint32_t magic, kind;
  uint64_t number, bytes;
};
constexpr uint32_t kMagic = 0xCA22E3;

bool transfer(ssize_t (*step)(int, char*, size_t), int socket, char* at, size_t left) {
  while (left > 0) {
    const ssize_t done = step(socket, at, left);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    left -= static_cast<size_t>(done);
  }
  return true;
}

bool write_some(int socket, const void* data, size_t bytes) {
  return transfer([](int s, char* at, size_t n) { return ::send(s, at, n, MSG_NOSIGNAL); }, socket,
                  static_cast<char*>(const_cast<void*>(data)), bytes);
}

bool read_some(int socket, void* data, size_t bytes) {
  return transfer([](int s, char* at, size_t n) { return ::recv(s, at, n, 0); }, socket,
                  static_cast<char*>(data), bytes);
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  int family = AF_UNIX;
};

// "unix:NAME" is a name in the abstract space, which no file outlives.
SocketAddress parse(const std::string& address) {
  SocketAddress result;
  if (address.starts_with("unix:")) {
    const std::string name = address.substr(5);
    auto* unix_address = reinterpret_cast<sockaddr_un*>(&result.storage);
    unix_address->sun_family = AF_UNIX;
    const size_t length = std::min(name.size(), sizeof(unix_address->sun_path) - 1);
    std::memcpy(unix_address->sun_path + 1, name.data(), length);
    result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    return result;
  }
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(4, colon - 4), port = address.substr(colon + 1);
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0 || !found) {
    throw Failure(HCCL_E_TCP_CONNECT, "cannot resolve " + address);
  }
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  result.bytes = found->ai_addrlen;
  result.family = AF_INET;
  freeaddrinfo(found);
  return result;
}

int new_socket(int family) {
  const int made = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) throw Failure(HCCL_E_SYSCALL, std::string("socket: ") + std::strerror(errno));
  if (family == AF_INET) {
    const int on = 1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return made;
}

}  // namespace

void write_all(int socket, const void* data, size_t bytes) {
  if (!write_some(socket, data, bytes)) throw Failure(HCCL_E_REMOTE, "a peer left");
}

void read_all(int socket, void* data, size_t bytes) {
  if (!read_some(socket, data, bytes)) throw Failure(HCCL_E_REMOTE, "a peer left");
}

int listen_at(std::string& address) {
  SocketAddress at = parse(address);
  const int listener = new_socket(at.family);
  constexpr int kBacklog = 1024;
  if (bind(listener, reinterpret_cast<sockaddr*>(&at.storage), at.bytes) != 0 ||
      listen(listener, kBacklog) != 0) {
    const std::string why = std::strerror(errno);
    ::close(listener);
    throw Failure(HCCL_E_SYSCALL, "cannot listen at " + address + ": " + why);
  }
  if (at.family == AF_INET) {
    sockaddr_in bound{};
    socklen_t bytes = sizeof(bound);
    getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &bytes);
    address = address.substr(0, address.rfind(':') + 1) + std::to_string(ntohs(bound.sin_port));
  }
  return listener;
}

int accept_from(int listener, Deadline until) {
  pollfd ready{listener, POLLIN, 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      until - std::chrono::steady_clock::now());
  if (poll(&ready, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) <= 0) {
    throw Failure(HCCL_E_TIMEOUT, "a rank did not connect in time (HCCL_CONNECT_TIMEOUT)");
  }
  return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
}

int connect_to(const std::string& address, Deadline until) {
  SocketAddress to = parse(address);
  while (true) {
    const int made = new_socket(to.family);
    if (connect(made, reinterpret_cast<sockaddr*>(&to.storage), to.bytes) == 0) return made;
    ::close(made);
    if (std::chrono::steady_clock::now() > until) {
      throw Failure(HCCL_E_TIMEOUT,
                    "no answer from " + address + " in time (HCCL_CONNECT_TIMEOUT)");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string host_of(int socket) {
  sockaddr_in peer{};
  socklen_t bytes = sizeof(peer);
  char text[INET_ADDRSTRLEN] = "";
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
      peer.sin_family == AF_INET) {
    inet_ntop(AF_INET, &peer.sin_addr, text, sizeof(text));
  }
  return text;
}

Link::~Link() {
  close();
  if (reader_.joinable()) reader_.join();
  if (socket_ >= 0) ::close(socket_);
}

void Link::open(int socket) {
  socket_ = socket;
  reader_ = std::thread([this] { read(); });
}

void Link::read() {
  Header header;
  Message message;
  while (read_some(socket_, &header, sizeof(header)) && header.magic == kMagic) {
    message.kind = header.kind;
    message.number = header.number;
    message.data.resize(header.bytes);
    if (!read_some(socket_, message.data.data(), header.bytes)) break;
    std::lock_guard lock(mutex_);
    waiting_[header.kind == kPointToPoint].push_back(std::move(message));
    changed_.notify_all();
  }
  std::lock_guard lock(mutex_);
  gone_ = true;
  changed_.notify_all();
}

void Link::send(uint32_t kind, uint64_t number, const void* data, size_t bytes) {
  const Header header{kMagic, kind, number, bytes};
  std::lock_guard lock(sending_);
  if (!write_some(socket_, &header, sizeof(header)) || !write_some(socket_, data, bytes)) {
    throw Failure(HCCL_E_REMOTE, "the peer is gone");
  }
}

Message Link::receive(bool point_to_point, uint64_t number, Deadline until) {
  auto& queue = waiting_[point_to_point];
  std::unique_lock lock(mutex_);
  while (true) {
    auto at = std::find_if(queue.begin(), queue.end(),
                           [&](const Message& m) { return m.number == number; });
    if (at != queue.end()) {
      Message message = std::move(*at);
      queue.erase(at);
      return message;
    }
    if (gone_) throw Failure(HCCL_E_REMOTE, "the peer is gone");
    if (changed_.wait_until(lock, until) == std::cv_status::timeout) {
      throw Failure(HCCL_E_TIMEOUT, "no answer in time (HCCL_EXEC_TIMEOUT)");
    }
  }
}

void Link::close() {
  if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
}

std::string Link::peer_host() const { return host_of(socket_); }

}  // namespace cannemu::hccl
