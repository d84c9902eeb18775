#include "base/world.h"

#include <algorithm>
#include <charconv>

#include "base/address.h"
#include "base/env.h"
#include "base/error.h"

namespace titan {
namespace {

constexpr int64_t kMaxRanks = 1 << 24;
constexpr int64_t kDefaultPort = 29500;  // torchrun's
constexpr int64_t kSlurmPorts = 1000;    // jobs on one host are spread over so many

int64_t parsed(std::string_view name, std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw Error("[launch] {}={} is not a whole number from {} to {} — set it to one or unset it",
                name, text, least, most);
  }
  return value;
}

// A value and the variable or configuration key that gave it.
template <class T>
struct Given {
  T value;
  std::string name;
  std::string shown() const { return fmt::format("{}={}", name, value); }
};
using Number = std::optional<Given<int64_t>>;
using Word = std::optional<Given<std::string>>;

Number number(const char* name, int64_t least, int64_t most) {
  const auto text = env::get(name);
  if (!text || text->empty()) return std::nullopt;
  return Given<int64_t>{parsed(name, *text, least, most), name};
}

Word word(const char* name) {
  const auto text = env::get(name);
  if (!text || text->empty()) return std::nullopt;
  return Given<std::string>{*text, name};
}

Number rank_in(const char* name) { return number(name, 0, kMaxRanks - 1); }
Number size_in(const char* name) { return number(name, 1, kMaxRanks); }

// What a launcher said, as far as it did.
struct Said {
  std::string source = "one process";
  const char* rank_name = "RANK";  // what the user would have to set
  const char* size_name = "WORLD_SIZE";
  Number rank, size, local_rank, local_size, port;
  Word address;
};

Said torchrun() {
  return {.source = "RANK and WORLD_SIZE",
          .rank = rank_in("RANK"),
          .size = size_in("WORLD_SIZE"),
          .local_rank = rank_in("LOCAL_RANK"),
          .local_size = size_in("LOCAL_WORLD_SIZE")};
}

// mpirun names no address; it needs none while all ranks are on this host.
Said with_meeting_point(Said said) {
  const bool one_host = said.size && said.local_size && said.size->value == said.local_size->value;
  if (one_host) said.address = Given<std::string>{"127.0.0.1", "the loopback address"};
  said.port = Given<int64_t>{kDefaultPort, "the default port"};
  return said;
}

Said open_mpi() {
  return with_meeting_point({.source = "Open MPI",
                             .rank_name = "OMPI_COMM_WORLD_RANK",
                             .size_name = "OMPI_COMM_WORLD_SIZE",
                             .rank = rank_in("OMPI_COMM_WORLD_RANK"),
                             .size = size_in("OMPI_COMM_WORLD_SIZE"),
                             .local_rank = rank_in("OMPI_COMM_WORLD_LOCAL_RANK"),
                             .local_size = size_in("OMPI_COMM_WORLD_LOCAL_SIZE")});
}

Said pmi() {
  return with_meeting_point({.source = "MPI",
                             .rank_name = "PMI_RANK",
                             .size_name = "PMI_SIZE",
                             .rank = rank_in("PMI_RANK"),
                             .size = size_in("PMI_SIZE"),
                             .local_rank = rank_in("MPI_LOCALRANKID"),
                             .local_size = size_in("MPI_LOCALNRANKS")});
}

Number slurm_local_size() {
  const int64_t node = rank_in("SLURM_NODEID").value_or(Given<int64_t>{0, ""}).value;
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const auto list = word(name);
    if (!list) continue;
    if (const auto tasks = slurm_tasks_at(list->value, node, name))
      return Given<int64_t>{*tasks, name};
  }
  return std::nullopt;
}

Said slurm() {
  Said said{.source = "Slurm",
            .rank_name = "SLURM_PROCID",
            .size_name = "SLURM_NTASKS",
            .rank = rank_in("SLURM_PROCID"),
            .size = size_in("SLURM_NTASKS"),
            .local_rank = rank_in("SLURM_LOCALID"),
            .local_size = slurm_local_size()};
  const auto most =
      size_in("SLURM_NTASKS_PER_NODE");  // an upper bound: the last host may hold less
  if (!said.local_size && most && said.size) {
    said.local_size =
        Given<int64_t>{std::min(most->value, said.size->value), "SLURM_NTASKS_PER_NODE"};
  }
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST"}) {
    const auto list = word(name);
    if (!list || said.address) continue;
    said.address = Given<std::string>{first_slurm_host(list->value, name), name};
  }
  const auto job = number("SLURM_JOB_ID", 0, INT64_MAX);
  said.port = Given<int64_t>{kDefaultPort + (job ? job->value % kSlurmPorts : 0), "SLURM_JOB_ID"};
  return said;
}

Said what_launcher_said() {
  if (word("RANK") || word("WORLD_SIZE")) return torchrun();
  if (word("OMPI_COMM_WORLD_RANK") || word("OMPI_COMM_WORLD_SIZE")) return open_mpi();
  if (word("PMI_RANK") && word("MPI_LOCALRANKID")) return pmi();
  // A shell inside an allocation has the number of tasks, but is none of them.
  if (word("SLURM_PROCID")) return slurm();
  if (word("PMI_RANK") || word("PMI_SIZE")) return pmi();
  Said alone;
  alone.local_rank = rank_in("LOCAL_RANK");
  alone.local_size = size_in("LOCAL_WORLD_SIZE");
  return alone;
}

void apply(const WorldOverrides& overrides, Said& said) {
  const auto differs = [](const Number& told, int64_t value) {
    return !told || told->value != value;
  };
  const bool changes = (overrides.rank && differs(said.rank, *overrides.rank)) ||
                       (overrides.size && differs(said.size, *overrides.size));
  if (changes) said.source = "comm.rank and comm.world_size";
  const auto checked = [](const char* key, int64_t value, int64_t least, int64_t most) {
    return Given<int64_t>{parsed(key, std::to_string(value), least, most), key};
  };
  // An equal value is the environment's own, which the configuration takes over.
  if (overrides.rank && differs(said.rank, *overrides.rank))
    said.rank = checked("comm.rank", *overrides.rank, 0, kMaxRanks - 1);
  if (overrides.size && differs(said.size, *overrides.size))
    said.size = checked("comm.world_size", *overrides.size, 1, kMaxRanks);
  if (overrides.master_port && differs(said.port, *overrides.master_port))
    said.port = checked("comm.master_port", *overrides.master_port, 1, 65535);
  if (overrides.master_addr && (!said.address || said.address->value != *overrides.master_addr))
    said.address = Given<std::string>{*overrides.master_addr, "comm.master_addr"};
}

void check_ranks(const Said& said) {
  if (said.rank && !said.size) {
    throw Error(
        "[launch] {} is set, {} is not — set both (torchrun and titan launch do), or unset {} to "
        "run one process",
        said.rank->shown(), said.size_name, said.rank->name);
  }
  if (said.size && said.size->value > 1 && !said.rank) {
    throw Error(
        "[launch] {} is set, {} is not — give each process its number from 0 to {} (torchrun and "
        "titan launch do), or unset {} to run one process",
        said.size->shown(), said.rank_name, said.size->value - 1, said.size->name);
  }
  if (said.rank && said.rank->value >= said.size->value) {
    throw Error("[launch] {} must be below {} — ranks count from 0", said.rank->shown(),
                said.size->shown());
  }
}

void meet(const Said& said, World& world) {
  if (!said.address) {
    throw Error(
        "[launch] {} but MASTER_ADDR is not set — set it to the host of rank 0, the same for "
        "every rank (127.0.0.1 when all ranks are on one host)",
        said.size->shown());
  }
  if (!said.port) {
    throw Error(
        "[launch] {} but MASTER_PORT is not set — set it to a free port of host {}, the same for "
        "every rank",
        said.size->shown(), said.address->value);
  }
  world.master_addr = normal_address(said.address->value, said.address->name);
  world.master_port = said.port->value;
}

// The agent's store is the one that torchrun's own address names.
void find_store(const Said& said, World& world) {
  const bool torchruns = said.address && said.address->name == "MASTER_ADDR" && said.port &&
                         said.port->name == "MASTER_PORT";
  if (world.size == 1 || !torchruns) return;
  world.store_is_served = env::get("TORCHELASTIC_USE_AGENT_STORE") == "True";
  const auto attempt = number("TORCHELASTIC_RESTART_COUNT", 0, INT32_MAX);
  if (attempt) world.attempt = attempt->value;
}

void check_local(const Said& said, const World& world) {
  if (said.local_rank && said.local_size && world.local_rank >= world.local_size) {
    throw Error("[launch] {} must be below {} — local ranks count from 0 on each host",
                said.local_rank->shown(), said.local_size->shown());
  }
  if (said.local_size && world.local_size > world.size) {
    throw Error("[launch] {} is more than {} — a host cannot hold more ranks than the job has",
                said.local_size->shown(), said.size ? said.size->shown() : "one process");
  }
}

void find_local(const Said& said, World& world) {
  const bool one_host = world.size == 1 || is_loopback(world.master_addr);
  if (said.local_rank) {
    world.local_rank = said.local_rank->value;
  } else if (said.local_size) {
    // Launchers number the ranks host by host.
    world.local_rank = world.rank % said.local_size->value;
  } else if (one_host) {
    world.local_rank = world.rank;
  } else {
    throw Error(
        "[launch] {} at MASTER_ADDR={} but LOCAL_RANK is not set, so this rank does not know its "
        "device — set LOCAL_RANK to its number on this host (0 when each host has one rank)",
        said.size->shown(), world.master_addr);
  }
  const int64_t unsaid = one_host ? world.size : std::min(world.local_rank + 1, world.size);
  world.local_size = said.local_size ? said.local_size->value : unsaid;
  check_local(said, world);
  if (world.size > 1 && world.local_rank >= world.local_size) {
    throw Error("[launch] {} must be below {} — local ranks count from 0 on each host",
                said.local_rank->shown(), said.size->shown());
  }
}

}  // namespace

World read_world(const WorldOverrides& overrides) {
  Said said = what_launcher_said();
  if (auto address = word("MASTER_ADDR")) said.address = std::move(address);
  if (auto port = number("MASTER_PORT", 1, 65535)) said.port = std::move(port);
  apply(overrides, said);
  check_ranks(said);
  World world{.source = said.source};
  if (said.size) world.size = said.size->value;
  if (said.rank) world.rank = said.rank->value;
  if (world.size > 1) meet(said, world);
  find_store(said, world);
  find_local(said, world);
  return world;
}

void publish(const World& world) {
  if (world.size == 1) return;
  env::set_default("RANK", std::to_string(world.rank).c_str());
  env::set_default("WORLD_SIZE", std::to_string(world.size).c_str());
  env::set_default("LOCAL_RANK", std::to_string(world.local_rank).c_str());
  env::set_default("LOCAL_WORLD_SIZE", std::to_string(world.local_size).c_str());
  env::set_default("MASTER_ADDR", world.master_addr.c_str());
  env::set_default("MASTER_PORT", std::to_string(world.master_port).c_str());
}

}  // namespace titan
