// Where this process stands among its peers: its rank, their number, and the address at which they
// meet. Launchers say so in environment variables of their own; this file alone knows them all.
// Nothing here opens a connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace titan {

// 0 <= rank < size and, with several ranks, 0 <= local_rank < local_size <= size. A single process
// needs no address; its local_rank only chooses the device.
struct World {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  // on this host
  std::string master_addr;  // host of rank 0; an IPv6 literal stands without brackets
  int64_t master_port = 0;
  // torchrun's agent serves the store at that address: rank 0 must join it like every other rank
  // instead of listening there.
  bool store_is_served = false;
  int64_t attempt =
      0;               // how often torchrun has restarted the job: a part of every key in its store
  std::string source;  // who said so: "RANK and WORLD_SIZE", "Slurm", "Open MPI", "one process", …
};

// What the configuration says ([comm] world_size, rank, master_addr, master_port); it beats the
// environment.
struct WorldOverrides {
  std::optional<int64_t> size, rank, master_port;
  std::optional<std::string> master_addr;
};

// Reads, in this order: torchrun's variables (also set by `titan launch`), those of mpirun (Open
// MPI; MPICH and Intel MPI), Slurm's, PMI's alone, else one process. mpirun comes before Slurm
// because it is started inside a Slurm job, whose variables then describe the job's script.
// MASTER_ADDR and MASTER_PORT, when set, count with every launcher. Throws Error naming variable,
// value and what to do when a value is no number, out of range, missing, or contradicts another.
World read_world(const WorldOverrides& overrides = {});

// Sets torchrun's six variables to `world` where they are unset, for the readers below (the choice
// of the device, the number of threads, the rank in an error). A single process has nothing to
// say. While the process has one thread.
void publish(const World& world);

}  // namespace titan
