// The C functions of HCCL. A collective becomes a task of its stream, numbered in the order of the
// calls.
#include <hccl/hccl.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "hccl/collectives.h"
#include "runtime/fault.h"
#include "runtime/report.h"
#include "runtime/stream.h"

namespace cannemu::hccl {
namespace {

using Handle = std::shared_ptr<Communicator>;

Handle& of(HcclComm comm) { return *static_cast<Handle*>(comm); }

constexpr int kTimedOut = 507048, kTaskFailed = 507049;  // what the stream's error is

HcclResult failed(const char* name, int code, const std::string& why) {
  fail(code, std::string(name) + ": " + why);
  return static_cast<HcclResult>(code);
}

// For calls that are done when they return.
HcclResult now(const char* name, const std::function<void()>& work) {
  try {
    work();
    return HCCL_SUCCESS;
  } catch (const Failure& failure) {
    return failed(name, failure.code, failure.what());
  } catch (const std::exception& error) {
    return failed(name, HCCL_E_INTERNAL, error.what());
  }
}

int run(const char* name, Communicator& comm, const std::function<void()>& work) {
  try {
    if (fault_now("collective-fail", name)) throw Failure(HCCL_E_REMOTE, "failed on order");
    if (fault_now("collective-stuck", name)) {
      comm.wait_for_abort();
      throw Failure(HCCL_E_TIMEOUT, "stuck on order");
    }
    work();
    return 0;
  } catch (const Failure& failure) {
    comm.error = failure.code;
    fail(failure.code, std::string(name) + ": " + failure.what());
    return failure.code == HCCL_E_TIMEOUT ? kTimedOut : kTaskFailed;
  } catch (const std::exception& error) {
    comm.error = HCCL_E_INTERNAL;
    fail(HCCL_E_INTERNAL, std::string(name) + ": " + error.what());
    return kTaskFailed;
  }
}

// A collective gets its number when it is called, in a graph each time it runs.
HcclResult enqueue(const char* name, HcclComm comm, void* stream,
                   std::function<void(Communicator&, uint64_t number)> work) {
  Handle handle = of(comm);
  const bool captured = stream_of(stream).capture != nullptr;
  const uint64_t called = captured ? 0 : handle->next_number();
  const int code = launch(stream, name, [=, work = std::move(work)] {
    const uint64_t number = captured ? handle->next_number() : called;
    return run(name, *handle, [&] { work(*handle, number); });
  });
  return code ? HCCL_E_RUNTIME : HCCL_SUCCESS;
}

Bytes equal_sizes(int ranks, uint64_t bytes) { return Bytes(ranks, bytes); }
Bytes equal_offsets(int ranks, uint64_t bytes) {
  Bytes offsets(ranks);
  for (int rank = 0; rank < ranks; ++rank) offsets[rank] = rank * bytes;
  return offsets;
}
// The caller's array may be gone when the task runs.
Bytes scaled(const void* counts, int ranks, uint64_t bytes) {
  Bytes result(static_cast<const uint64_t*>(counts), static_cast<const uint64_t*>(counts) + ranks);
  for (uint64_t& value : result) value *= bytes;
  return result;
}

std::string name_in(const HcclCommConfig* config) {
  if (!config) return "";
  return {config->hcclCommName, strnlen(config->hcclCommName, COMM_NAME_MAX_LENGTH)};
}

HcclResult open(const char* function, uint32_t ranks, const HcclRootInfo* root, uint32_t rank,
                const HcclCommConfig* config, HcclComm* comm) {
  return now(function, [&] {
    auto made = Communicator::open(root->internal, static_cast<int>(ranks), static_cast<int>(rank));
    if (std::string name = name_in(config); !name.empty()) made->name = name;
    register_communicator(made);
    *comm = new Handle(std::move(made));
  });
}

// Sends and receives between HcclGroupStart and HcclGroupEnd wait for the end.
struct Pending {
  Handle comm;
  HcclSendRecvItem item;
  void* stream;
};
thread_local int group_depth = 0;
thread_local std::vector<Pending> group;

HcclResult transfer(const char* name, std::vector<Pending> pending) {
  void* stream = pending.front().stream;
  const int code = launch(stream, name, [=] {
    std::vector<Transfer> transfers;
    for (const Pending& one : pending) transfers.push_back({one.comm.get(), one.item});
    return run(name, *pending.front().comm, [&] { point_to_point(transfers); });
  });
  return code ? HCCL_E_RUNTIME : HCCL_SUCCESS;
}

HcclResult one_transfer(const char* name, HcclComm comm, const HcclSendRecvItem& item,
                        void* stream) {
  if (group_depth > 0) {
    group.push_back({of(comm), item, stream});
    return HCCL_SUCCESS;
  }
  return transfer(name, {{of(comm), item, stream}});
}

}  // namespace
}  // namespace cannemu::hccl

using namespace cannemu::hccl;

HcclResult HcclGetRootInfo(HcclRootInfo* root) {
  CANNEMU_CALL();
  return now(__func__, [&] {
    *root = {};
    std::strncpy(root->internal, new_rendezvous().c_str(), HCCL_ROOT_INFO_BYTES - 1);
  });
}

HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo* root, uint32_t rank,
                                HcclComm* comm) {
  CANNEMU_CALL();
  return open(__func__, ranks, root, rank, nullptr, comm);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo* root, uint32_t rank,
                                      const HcclCommConfig* config, HcclComm* comm) {
  CANNEMU_CALL();
  return open(__func__, ranks, root, rank, config, comm);
}

HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t ranks, uint32_t* members, uint64_t id,
                                   uint32_t rank, HcclCommConfig* config, HcclComm* sub) {
  CANNEMU_CALL();
  return now(__func__, [&] {
    auto made = of(*comm)->sub({members, members + ranks}, static_cast<int>(rank), id);
    if (std::string name = name_in(config); !name.empty()) made->name = name;
    register_communicator(made);
    *sub = new Handle(std::move(made));
  });
}

// Tasks that still wait for a peer end with an error.
HcclResult HcclCommDestroy(HcclComm comm) {
  CANNEMU_CALL();
  of(comm)->abort();
  delete static_cast<Handle*>(comm);
  return HCCL_SUCCESS;
}

// Of the settings that a communicator may be given: every one up to the execution time-out, which
// come as a number.
uint32_t HcclGetCommConfigCapability() {
  CANNEMU_CALL();
  return HCCL_COMM_CONFIG_RESERVED;
}

HcclResult HcclSetConfig(HcclConfig, HcclConfigValue) {
  CANNEMU_CALL();
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommName(HcclComm comm, char* name) {
  CANNEMU_CALL();
  std::snprintf(name, COMM_NAME_MAX_LENGTH, "%s", of(comm)->name.c_str());
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* error) {
  CANNEMU_CALL();
  *error = static_cast<HcclResult>(of(comm)->error.load());
  return HCCL_SUCCESS;
}

const char* HcclGetErrorString(HcclResult) {
  CANNEMU_CALL();
  thread_local std::string text;
  text = cannemu::recent_message();
  return text.c_str();
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t* size) {
  CANNEMU_CALL();
  *size = static_cast<uint32_t>(of(comm)->size());
  return HCCL_SUCCESS;
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
  CANNEMU_CALL();
  *rank = static_cast<uint32_t>(of(comm)->rank());
  return HCCL_SUCCESS;
}

HcclResult HcclAllReduce(void* in, void* out, uint64_t count, HcclDataType type, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
  CANNEMU_CALL();
  return enqueue(__func__, comm, stream, [=](Communicator& c, uint64_t number) {
    all_reduce(c, number, in, out, count, {type, op});
  });
}

HcclResult HcclReduce(void* in, void* out, uint64_t count, HcclDataType type, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
  CANNEMU_CALL();
  return enqueue(__func__, comm, stream, [=](Communicator& c, uint64_t number) {
    reduce_to(c, number, in, out, count, {type, op}, static_cast<int>(root));
  });
}

HcclResult HcclBroadcast(void* buffer, uint64_t count, HcclDataType type, uint32_t root,
                         HcclComm comm, aclrtStream stream) {
  CANNEMU_CALL();
  return enqueue(__func__, comm, stream, [=](Communicator& c, uint64_t number) {
    broadcast(c, number, buffer, count * bytes_of(type), static_cast<int>(root));
  });
}

HcclResult HcclScatter(void* in, void* out, uint64_t count, HcclDataType type, uint32_t root,
                       HcclComm comm, aclrtStream stream) {
  CANNEMU_CALL();
  return enqueue(__func__, comm, stream, [=](Communicator& c, uint64_t number) {
    scatter(c, number, in, out, count * bytes_of(type), static_cast<int>(root));
  });
}

HcclResult HcclAllGather(void* in, void* out, uint64_t count, HcclDataType type, HcclComm comm,
                         aclrtStream stream) {
  CANNEMU_CALL();
  return enqueue(__func__, comm, stream, [=](Communicator& c, uint64_t number) {
    const uint64_t bytes = count * bytes_of(type);
    all_gather(c, number, in, out, equal_sizes(c.size(), bytes), equal_offsets(c.size(), bytes));
  });
}

HcclResult HcclAllGatherV(void* in, uint64_t, void* out, const void* counts, const void* offsets,
                          HcclDataType type, HcclComm comm, aclrtStream stream) {
  CANNEMU_CALL();
  const int ranks = of(comm)->size();
  return enqueue(
      __func__, comm, stream,
      [in, out, sizes = scaled(counts, ranks, bytes_of(type)),
       places = scaled(offsets, ranks, bytes_of(type))](Communicator& c, uint64_t number) {
        all_gather(c, number, in, out, sizes, places);
      });
}

HcclResult HcclReduceScatter(void* in, void* out, uint64_t count, HcclDataType type,
                             HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  CANNEMU_CALL();
  return enqueue(__func__, comm, stream, [=](Communicator& c, uint64_t number) {
    const uint64_t bytes = count * bytes_of(type);
    reduce_scatter(c, number, in, equal_sizes(c.size(), bytes), equal_offsets(c.size(), bytes), out,
                   count, {type, op});
  });
}

HcclResult HcclReduceScatterV(void* in, const void* counts, const void* offsets, void* out,
                              uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream) {
  CANNEMU_CALL();
  const int ranks = of(comm)->size();
  return enqueue(
      __func__, comm, stream,
      [=, sizes = scaled(counts, ranks, bytes_of(type)),
       places = scaled(offsets, ranks, bytes_of(type))](Communicator& c, uint64_t number) {
        reduce_scatter(c, number, in, sizes, places, out, count, {type, op});
      });
}

HcclResult HcclAlltoAll(const void* in, uint64_t in_count, HcclDataType in_type, const void* out,
                        uint64_t out_count, HcclDataType out_type, HcclComm comm,
                        aclrtStream stream) {
  CANNEMU_CALL();
  return enqueue(__func__, comm, stream, [=](Communicator& c, uint64_t number) {
    const uint64_t sent = in_count * bytes_of(in_type), taken = out_count * bytes_of(out_type);
    all_to_all(c, number, in, equal_sizes(c.size(), sent), equal_offsets(c.size(), sent),
               const_cast<void*>(out), equal_sizes(c.size(), taken),
               equal_offsets(c.size(), taken));
  });
}

HcclResult HcclAlltoAllV(const void* in, const void* in_counts, const void* in_offsets,
                         HcclDataType in_type, const void* out, const void* out_counts,
                         const void* out_offsets, HcclDataType out_type, HcclComm comm,
                         aclrtStream stream) {
  CANNEMU_CALL();
  const int ranks = of(comm)->size();
  return enqueue(
      __func__, comm, stream,
      [in, out, sent = scaled(in_counts, ranks, bytes_of(in_type)),
       from = scaled(in_offsets, ranks, bytes_of(in_type)),
       taken = scaled(out_counts, ranks, bytes_of(out_type)),
       to = scaled(out_offsets, ranks, bytes_of(out_type))](Communicator& c, uint64_t number) {
        all_to_all(c, number, in, sent, from, const_cast<void*>(out), taken, to);
      });
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  CANNEMU_CALL();
  return enqueue(__func__, comm, stream,
                 [](Communicator& c, uint64_t number) { barrier(c, number); });
}

HcclResult HcclSend(void* buffer, uint64_t count, HcclDataType type, uint32_t peer, HcclComm comm,
                    aclrtStream stream) {
  CANNEMU_CALL();
  return one_transfer(__func__, comm, {HCCL_SEND, buffer, count, type, peer}, stream);
}

HcclResult HcclRecv(void* buffer, uint64_t count, HcclDataType type, uint32_t peer, HcclComm comm,
                    aclrtStream stream) {
  CANNEMU_CALL();
  return one_transfer(__func__, comm, {HCCL_RECV, buffer, count, type, peer}, stream);
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem* items, uint32_t count, HcclComm comm,
                             aclrtStream stream) {
  CANNEMU_CALL();
  if (count == 0) return HCCL_SUCCESS;
  std::vector<Pending> pending;
  for (uint32_t at = 0; at < count; ++at) pending.push_back({of(comm), items[at], stream});
  return transfer(__func__, std::move(pending));
}

HcclResult HcclGroupStart() {
  CANNEMU_CALL();
  ++group_depth;
  return HCCL_SUCCESS;
}

HcclResult HcclGroupEnd() {
  CANNEMU_CALL();
  if (--group_depth > 0 || group.empty()) return HCCL_SUCCESS;
  return transfer(__func__, std::exchange(group, {}));
}

extern "C" long cannemu_unknown_hccl(const char* name) {
  return cannemu::fail(HCCL_E_NOT_SUPPORT, std::string(name) + " is not emulated");
}
