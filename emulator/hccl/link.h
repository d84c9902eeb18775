// Connections between the processes of a communicator: one stream socket for each pair of ranks, on
// one host through abstract Unix sockets, between hosts through TCP. A thread for each peer takes
// messages out of its socket as they come, so a send never waits for the receiver.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace cannemu::hccl {

// `code` is an HcclResult.
struct Failure : std::runtime_error {
  Failure(int code, const std::string& what) : std::runtime_error(what), code(code) {}
  int code;
};

using Deadline = std::chrono::steady_clock::time_point;

struct Message {
  uint32_t kind = 0;
  uint64_t number =
      0;  // of the collective in its communicator, or of the message between two ranks
  std::vector<char> data;
};

class Link {
 public:
  ~Link();
  void open(int socket);  // starts the reader
  void send(uint32_t kind, uint64_t number, const void* data, size_t bytes);
  // The message with that number among the collectives' (or among the point-to-point ones); throws
  // Failure when the peer is gone or `until` has passed.
  Message receive(bool point_to_point, uint64_t number, Deadline until);
  void close();  // the peer sees the end; waiting receivers throw
  std::string peer_host() const;

 private:
  void read();

  int socket_ = -1;
  std::thread reader_;
  std::mutex mutex_, sending_;
  std::condition_variable changed_;
  std::deque<Message> waiting_[2];
  bool gone_ = false;
};

inline constexpr uint32_t kPointToPoint = 100;

// An address is "unix:NAME" or "tcp:HOST:PORT".
int listen_at(std::string& address);  // fills in the port of "tcp:HOST:0"
int accept_from(int listener, Deadline until);
int connect_to(const std::string& address, Deadline until);
void write_all(int socket, const void* data, size_t bytes);
void read_all(int socket, void* data, size_t bytes);
std::string host_of(int socket);  // the peer's numeric address

}  // namespace cannemu::hccl
