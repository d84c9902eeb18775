// The collectives on buffers in device memory. Each is called by every rank of the communicator
// with the same `number`; counts and offsets are in bytes. Reductions add up in the order of ranks,
// in float32 for 16-bit types, so every rank gets the same bits.
#pragma once

#include <hccl/hccl_types.h>

#include <cstdint>
#include <vector>

#include "hccl/communicator.h"

namespace cannemu::hccl {

using Bytes = std::vector<uint64_t>;

struct Reduction {
  HcclDataType type;
  HcclReduceOp op;
};

uint64_t bytes_of(HcclDataType type);
// out = op over the parts, which are arrays of `count` elements.
void reduce(const std::vector<std::vector<char>>& parts, void* out, uint64_t count, Reduction how);

void all_reduce(Communicator& comm, uint64_t number, const void* in, void* out, uint64_t count,
                Reduction how);
void reduce_to(Communicator& comm, uint64_t number, const void* in, void* out, uint64_t count,
               Reduction how, int root);
void broadcast(Communicator& comm, uint64_t number, void* buffer, uint64_t bytes, int root);
void scatter(Communicator& comm, uint64_t number, const void* in, void* out, uint64_t bytes,
             int root);
void all_gather(Communicator& comm, uint64_t number, const void* in, void* out, const Bytes& sizes,
                const Bytes& offsets);
void reduce_scatter(Communicator& comm, uint64_t number, const void* in, const Bytes& sizes,
                    const Bytes& offsets, void* out, uint64_t count, Reduction how);
void all_to_all(Communicator& comm, uint64_t number, const void* in, const Bytes& in_sizes,
                const Bytes& in_offsets, void* out, const Bytes& out_sizes,
                const Bytes& out_offsets);
void barrier(Communicator& comm, uint64_t number);

struct Transfer {
  Communicator* comm;
  HcclSendRecvItem item;
};
// Sends first, so that any order within one group is safe.
void point_to_point(const std::vector<Transfer>& transfers);

}  // namespace cannemu::hccl
