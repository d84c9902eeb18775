// [comm]: time limits and diagnosis of collectives, and where this process stands among its peers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"

namespace titan::config {

struct Comm {
  int64_t init_timeout_seconds = 300;
  int64_t train_timeout_seconds = 100;
  int64_t trace_buf_size = 20000;
  std::string save_traces_folder = "comm_traces";
  std::string save_traces_file_prefix = "rank_";
  std::string mode = "default";
  std::optional<std::string> backend;
  std::optional<int64_t> world_size;
  std::optional<int64_t> rank;
  std::optional<std::string> master_addr;
  std::optional<int64_t> master_port;
  bool report = false;

  static constexpr void describe(auto&& field) {
    field("init_timeout_seconds", &Comm::init_timeout_seconds,
          "time limit of a collective until step 1 is done", at_least(1));
    field("train_timeout_seconds", &Comm::train_timeout_seconds,
          "time limit of a collective after step 1", at_least(1));
    field("trace_buf_size", &Comm::trace_buf_size, "entries of the flight recorder; 0: off",
          at_least(0));
    field("save_traces_folder", &Comm::save_traces_folder,
          "folder of flight recordings, below job.dump_folder");
    field("save_traces_file_prefix", &Comm::save_traces_file_prefix,
          "prefix of a recording's file name");
    field("mode", &Comm::mode, "fake_backend: this process alone, as one rank of comm.world_size",
          one_of("default|fake_backend|local_tensor"));
    field("backend", &Comm::backend, "backend of the process groups; absent: that of the device",
          one_of("nccl|hccl|gloo"));
    field("world_size", &Comm::world_size,
          "number of processes; absent: WORLD_SIZE of the environment, or 1", at_least(1));
    field("rank", &Comm::rank, "number of this process; absent: RANK of the environment, or 0",
          at_least(0));
    field("master_addr", &Comm::master_addr,
          "host of process 0; absent: MASTER_ADDR of the environment");
    field("master_port", &Comm::master_port,
          "port on that host; absent: MASTER_PORT of the environment", between(1, 65535));
    field("report", &Comm::report,
          "tell at the end how many bytes each axis moved per step (--comm-report)");
  }
};
static_assert(complete<Comm>(), "describe() of Comm misses a member");

}  // namespace titan::config
