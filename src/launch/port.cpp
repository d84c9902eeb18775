#include "launch/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace titan::launch {
namespace {

// A socket bound to `address`:`port`, or -1 with errno.
int bound_socket(uint32_t address, int64_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<uint16_t>(port));
  where.sin_addr.s_addr = htonl(address);
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0)
    return fd;
  const int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

}  // namespace

PortReservation::PortReservation(std::optional<int64_t> wanted) {
  // The store listens on every address: a listener on any of them is in its way.
  if (wanted) {
    fd_ = bound_socket(INADDR_ANY, *wanted);
    if (fd_ >= 0) close(fd_);
  }
  if (!wanted || fd_ >= 0) fd_ = bound_socket(INADDR_LOOPBACK, wanted.value_or(0));
  if (fd_ < 0 && wanted) {
    throw EnvironmentError(
        "[launch] port {} of 127.0.0.1 cannot be used: {} — give another --master-port, or none to "
        "have a free one chosen",
        *wanted, errno == EADDRINUSE ? "it is taken by another process" : std::strerror(errno));
  }
  sockaddr_in where{};
  socklen_t size = sizeof where;
  if (fd_ < 0 || getsockname(fd_, reinterpret_cast<sockaddr*>(&where), &size) != 0) {
    throw EnvironmentError("[launch] no free port on 127.0.0.1: {} — give one with --master-port",
                           std::strerror(errno));
  }
  port_ = ntohs(where.sin_port);
}

PortReservation::~PortReservation() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace titan::launch
