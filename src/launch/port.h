// The port at which the ranks will meet, kept free until rank 0 takes it.
#pragma once

#include <cstdint>
#include <optional>

namespace titan::launch {

// Holds a port of 127.0.0.1 by a socket that is bound but does not listen, with SO_REUSEADDR: the
// kernel gives the port to nobody who asks for any, and rank 0's store, which sets SO_REUSEADDR too
// (c10d does), can still listen on it.
class PortReservation {
 public:
  // `wanted`, or any free port. Throws EnvironmentError naming the port when it is taken.
  explicit PortReservation(std::optional<int64_t> wanted);
  ~PortReservation();
  PortReservation(const PortReservation&) = delete;
  PortReservation& operator=(const PortReservation&) = delete;

  int64_t port() const { return port_; }

 private:
  int fd_ = -1;
  int64_t port_ = 0;
};

}  // namespace titan::launch
