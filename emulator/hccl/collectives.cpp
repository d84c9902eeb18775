#include "hccl/collectives.h"

#include <cstring>

namespace cannemu::hccl {
namespace {

// What a message is for; two ranks that disagree are told so.
enum Kind : uint32_t {
  kAllReduce = 1,
  kReduce,
  kBroadcast,
  kScatter,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBarrier
};

std::vector<char> copied(const void* data, uint64_t bytes) {
  const char* begin = static_cast<const char*>(data);
  return {begin, begin + bytes};
}

template <class Function>
void for_each_peer(const Communicator& comm, Function function) {
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer != comm.rank()) function(peer);
  }
}

const char* at(const void* data, uint64_t offset) {
  return static_cast<const char*>(data) + offset;
}
char* at(void* data, uint64_t offset) { return static_cast<char*>(data) + offset; }

}  // namespace

uint64_t bytes_of(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8:
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E4M3:
    case HCCL_DATA_TYPE_FP8E5M2:
    case HCCL_DATA_TYPE_FP8E8M0:
      return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16:
      return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32:
      return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64:
      return 8;
    default:
      throw Failure(HCCL_E_NOT_SUPPORT, "data type " + std::to_string(type));
  }
}

void all_reduce(Communicator& comm, uint64_t number, const void* in, void* out, uint64_t count,
                Reduction how) {
  const uint64_t bytes = count * bytes_of(how.type);
  std::vector<std::vector<char>> parts(comm.size());
  parts[comm.rank()] = copied(in, bytes);
  for_each_peer(comm, [&](int peer) {
    comm.send(peer, kAllReduce, number, parts[comm.rank()].data(), bytes);
  });
  for_each_peer(comm,
                [&](int peer) { parts[peer] = comm.receive(peer, kAllReduce, number, bytes); });
  reduce(parts, out, count, how);
}

void reduce_to(Communicator& comm, uint64_t number, const void* in, void* out, uint64_t count,
               Reduction how, int root) {
  const uint64_t bytes = count * bytes_of(how.type);
  if (comm.rank() != root) return comm.send(root, kReduce, number, in, bytes);
  std::vector<std::vector<char>> parts(comm.size());
  parts[root] = copied(in, bytes);
  for_each_peer(comm, [&](int peer) { parts[peer] = comm.receive(peer, kReduce, number, bytes); });
  reduce(parts, out, count, how);
}

void broadcast(Communicator& comm, uint64_t number, void* buffer, uint64_t bytes, int root) {
  if (comm.rank() == root) {
    for_each_peer(comm, [&](int peer) { comm.send(peer, kBroadcast, number, buffer, bytes); });
  } else {
    std::memcpy(buffer, comm.receive(root, kBroadcast, number, bytes).data(), bytes);
  }
}

void scatter(Communicator& comm, uint64_t number, const void* in, void* out, uint64_t bytes,
             int root) {
  if (comm.rank() == root) {
    for_each_peer(
        comm, [&](int peer) { comm.send(peer, kScatter, number, at(in, peer * bytes), bytes); });
    std::memmove(out, at(in, root * bytes), bytes);
  } else {
    std::memcpy(out, comm.receive(root, kScatter, number, bytes).data(), bytes);
  }
}

void all_gather(Communicator& comm, uint64_t number, const void* in, void* out, const Bytes& sizes,
                const Bytes& offsets) {
  const std::vector<char> own = copied(in, sizes[comm.rank()]);  // `in` may lie within `out`
  for_each_peer(comm,
                [&](int peer) { comm.send(peer, kAllGather, number, own.data(), own.size()); });
  std::memcpy(at(out, offsets[comm.rank()]), own.data(), own.size());
  for_each_peer(comm, [&](int peer) {
    std::memcpy(at(out, offsets[peer]), comm.receive(peer, kAllGather, number, sizes[peer]).data(),
                sizes[peer]);
  });
}

void reduce_scatter(Communicator& comm, uint64_t number, const void* in, const Bytes& sizes,
                    const Bytes& offsets, void* out, uint64_t count, Reduction how) {
  std::vector<std::vector<char>> parts(comm.size());
  parts[comm.rank()] = copied(at(in, offsets[comm.rank()]), sizes[comm.rank()]);
  for_each_peer(comm, [&](int peer) {
    comm.send(peer, kReduceScatter, number, at(in, offsets[peer]), sizes[peer]);
  });
  const uint64_t bytes = count * bytes_of(how.type);
  for_each_peer(comm,
                [&](int peer) { parts[peer] = comm.receive(peer, kReduceScatter, number, bytes); });
  reduce(parts, out, count, how);
}

void all_to_all(Communicator& comm, uint64_t number, const void* in, const Bytes& in_sizes,
                const Bytes& in_offsets, void* out, const Bytes& out_sizes,
                const Bytes& out_offsets) {
  const int own = comm.rank();
  if (in_sizes[own] != out_sizes[own])
    throw Failure(HCCL_E_PARA, "a rank sends itself another size than it takes");
  for_each_peer(comm, [&](int peer) {
    comm.send(peer, kAllToAll, number, at(in, in_offsets[peer]), in_sizes[peer]);
  });
  std::memmove(at(out, out_offsets[own]), at(in, in_offsets[own]), in_sizes[own]);
  for_each_peer(comm, [&](int peer) {
    const std::vector<char> part = comm.receive(peer, kAllToAll, number, out_sizes[peer]);
    std::memcpy(at(out, out_offsets[peer]), part.data(), part.size());
  });
}

void barrier(Communicator& comm, uint64_t number) {
  for_each_peer(comm, [&](int peer) { comm.send(peer, kBarrier, number, "", 0); });
  for_each_peer(comm, [&](int peer) { comm.receive(peer, kBarrier, number, 0); });
}

void point_to_point(const std::vector<Transfer>& transfers) {
  for (HcclSendRecvType direction : {HCCL_SEND, HCCL_RECV}) {
    for (const Transfer& transfer : transfers) {
      const HcclSendRecvItem& item = transfer.item;
      if (item.sendRecvType != direction) continue;
      const uint64_t bytes = item.count * bytes_of(item.dataType);
      const int peer = static_cast<int>(item.remoteRank);
      if (peer >= transfer.comm->size() || peer == transfer.comm->rank()) {
        throw Failure(HCCL_E_PARA, "there is no peer of rank " + std::to_string(peer));
      }
      if (direction == HCCL_SEND) {
        transfer.comm->send_next(peer, item.buf, bytes);
      } else {
        std::memcpy(item.buf, transfer.comm->receive_next(peer, bytes).data(), bytes);
      }
    }
  }
}

}  // namespace cannemu::hccl
