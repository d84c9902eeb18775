// A communicator: the ranks of a group and a link to each of them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "hccl/link.h"

namespace cannemu::hccl {

class Communicator {
 public:
  // Every rank calls it with the same rendezvous (see new_rendezvous); returns when all are
  // connected.
  static std::shared_ptr<Communicator> open(const std::string& rendezvous, int size, int rank);
  // The ranks in `members` (numbers in this one) open a communicator of their own.
  std::shared_ptr<Communicator> sub(const std::vector<uint32_t>& members, int rank, uint64_t id);

  ~Communicator();
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(links_.size()); }
  void send(int to, uint32_t kind, uint64_t number, const void* data, size_t bytes);
  // Throws Failure when the peer runs another collective at that place, or another size.
  std::vector<char> receive(int from, uint32_t kind, uint64_t number, size_t bytes);
  void send_next(int to, const void* data, size_t bytes);  // point to point, in order
  std::vector<char> receive_next(int from, size_t bytes);

  uint64_t next_number() { return numbers_++; }
  // Of operators with a collective inside, which take their number when they run, not when they are
  // called.
  uint64_t next_fused_number() { return (uint64_t{1} << 62) + fused_numbers_++; }
  void abort();           // wakes everyone who waits
  void wait_for_abort();  // or until HCCL_EXEC_TIMEOUT; for a collective that is stuck on order
  bool aborted() const { return aborted_; }

  std::string name;
  std::atomic<int> error{0};  // an HcclResult that HcclGetCommAsyncError gives

 private:
  Communicator(std::string name, int size, int rank);
  void connect(int listener, const std::vector<std::string>& addresses, Deadline until);
  std::vector<char> take(int from, uint32_t kind, uint64_t number, size_t bytes);

  int rank_;
  std::string rendezvous_;
  std::vector<std::unique_ptr<Link>> links_;
  std::atomic<uint64_t> numbers_{0}, fused_numbers_{0};
  std::vector<uint64_t> sent_, received_;
  std::atomic<bool> aborted_{false};
};

// The communicator that HcclGetCommName gave this name; throws Failure when there is none.
std::shared_ptr<Communicator> find_communicator(const std::string& name);
void register_communicator(const std::shared_ptr<Communicator>& communicator);

// A fresh meeting place: "unix:…" or, under CANNEMU_TRANSPORT=tcp, "tcp:HOST:PORT" where this
// process already listens.
std::string new_rendezvous();

}  // namespace cannemu::hccl
