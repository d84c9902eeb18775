#include "base/env.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <unistd.h>

#include "base/error.h"

namespace titan::env {
namespace {

constexpr Variable kKnown[] = {
    {"RANK", "global rank of this process (torchrun, titan launch)"},
    {"WORLD_SIZE", "number of processes of the job"},
    {"LOCAL_RANK", "rank on this host; chooses the device"},
    {"LOCAL_WORLD_SIZE", "number of processes on this host"},
    {"MASTER_ADDR", "address of the rendezvous store"},
    {"MASTER_PORT", "port of the rendezvous store"},
    {"TORCHELASTIC_USE_AGENT_STORE", "True: torchrun itself serves the rendezvous store"},
    {"TORCHELASTIC_RESTART_COUNT", "how often torchrun has restarted the job"},
    {"SLURM_PROCID", "rank given by srun"},
    {"SLURM_NTASKS", "number of tasks of the srun step"},
    {"SLURM_LOCALID", "rank on this host given by srun"},
    {"SLURM_NODEID", "number of this host within the srun step"},
    {"SLURM_STEP_NODELIST", "hosts of the srun step; the first holds the rendezvous store"},
    {"SLURM_NODELIST", "hosts of the Slurm job, where the step's are not given"},
    {"SLURM_STEP_TASKS_PER_NODE", "ranks on each host of the srun step"},
    {"SLURM_TASKS_PER_NODE", "ranks on each host of the Slurm job"},
    {"SLURM_NTASKS_PER_NODE", "most ranks on a host of the Slurm job"},
    {"SLURM_JOB_ID", "Slurm's number of the job; the store's port follows from it"},
    {"OMPI_COMM_WORLD_RANK", "rank given by Open MPI's mpirun"},
    {"OMPI_COMM_WORLD_SIZE", "number of processes started by Open MPI's mpirun"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "rank on this host given by Open MPI's mpirun"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "processes on this host started by Open MPI's mpirun"},
    {"PMI_RANK", "rank given by the mpirun of MPICH or Intel MPI"},
    {"PMI_SIZE", "number of processes started by the mpirun of MPICH or Intel MPI"},
    {"MPI_LOCALRANKID", "rank on this host given by the mpirun of MPICH or Intel MPI"},
    {"MPI_LOCALNRANKS", "processes on this host started by the mpirun of MPICH or Intel MPI"},
    {"GLOO_SOCKET_IFNAME", "network interface for collectives of CPU tensors"},
    {"OMP_NUM_THREADS", "CPU threads per process"},
    {"OMP_WAIT_POLICY", "passive lets idle CPU threads sleep: use it on shared cores"},
    {"CUDA_VISIBLE_DEVICES", "GPUs this process may use"},
    {"ASCEND_RT_VISIBLE_DEVICES", "NPUs this process may use"},
    {"ASCEND_HOME_PATH", "where CANN lies (its set_env.sh says so)"},
    {"RANK_TABLE_FILE", "HCCL's table of ranks; titan needs none"},
    {"HCCL_SOCKET_IFNAME", "network interface through which HCCL's ranks find each other"},
    {"PYTORCH_NPU_ALLOC_CONF", "settings of torch_npu's caching allocator"},
    {"TASK_QUEUE_ENABLE", "how many threads torch_npu launches work with: 0, 1 or 2"},
    {"MULTI_STREAM_MEMORY_REUSE", "how torch_npu reuses memory that several streams used: 0 to 3"},
    {"CPU_AFFINITY_CONF", "how torch_npu binds its threads to CPU cores"},
    {"ASCEND_LAUNCH_BLOCKING", "1: every operator of an NPU is waited for; shows which one fails"},
    {"HCCL_IF_IP", "address through which HCCL's ranks find each other"},
    {"HCCL_IF_BASE_PORT", "first of the ports that HCCL's ranks listen on"},
    {"HCCL_CONNECT_TIMEOUT", "seconds for the ranks of a group to connect (HCCL)"},
    {"HCCL_EXEC_TIMEOUT", "seconds for a collective to end (HCCL)"},
    {"HCCL_DETERMINISTIC", "true: collectives of HCCL sum in a fixed order"},
    {"CLOSE_MATMUL_K_SHIFT", "1: matrix products of an NPU sum in a fixed order"},
    {"TITAN_NPU_ROUTE", "how torch_npu is run: shim (no interpreter) or python (an embedded one)"},
    {"TITAN_NPU_PYTHON", "interpreter or virtual environment for TITAN_NPU_ROUTE=python"},
    {"VIRTUAL_ENV", "the active virtual environment, where TITAN_NPU_PYTHON is not set"},
    {"TORCH_DEVICE_BACKEND_AUTOLOAD", "0: importing torch does not import torch_npu"},
    {"GOMP_SPINCOUNT", "how long idle CPU threads spin (libgomp)"},
    {"PYTORCH_ALLOC_CONF", "settings of libtorch's caching allocator"},
    {"PYTORCH_CUDA_ALLOC_CONF", "older name of PYTORCH_ALLOC_CONF"},
    {"CUBLAS_WORKSPACE_CONFIG", "cuBLAS work space; :4096:8 is needed for deterministic results"},
    {"KINETO_LOG_LEVEL", "what the profiler's library prints: 0 all, 5 nothing"},
    {"TITAN_MODULES", "folder of the device modules (default: beside the binary)"},
    {"TITAN_THREADS", "CPU threads for the maths (default: cores this process may use)"},
    {"LD_LIBRARY_PATH", "where the loader looks first; titan emulate-cann puts the emulator there"},
    {"HOME", "where a user's files lie"},
    {"NO_COLOR", "set to any value: no colours"},
    {"TERM", "terminal type; dumb or unset: no colours"},
};

bool is_known(const char* name) {
  for (const auto& variable : kKnown) {
    if (std::strcmp(variable.name, name) == 0) return true;
  }
  return false;
}

}  // namespace

std::span<const Variable> known() { return kKnown; }

std::optional<std::string> get(const char* name) {
  TITAN_CHECK(is_known(name), "environment variable {} is not in env.cpp's table", name);
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<int64_t> get_int(const char* name) {
  const auto text = get(name);
  if (!text || text->empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    throw Error("[env] {}={} is not a whole number — set it to one or unset it", name, *text);
  }
  return value;
}

void set_default(const char* name, const char* value) {
  if (!get(name)) setenv(name, value, /*overwrite=*/0);
}

void set(const Changes& changes) {
  for (const auto& [name, value] : changes) {
    TITAN_CHECK(is_known(name), "environment variable {} is not in env.cpp's table", name);
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
}

std::vector<std::string> with(const Changes& changes) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    bool changed = false;
    for (const auto& change : changes) changed = changed || name == change.first;
    if (!changed) variables.emplace_back(text);
  }
  for (const auto& [name, value] : changes) variables.push_back(fmt::format("{}={}", name, value));
  return variables;
}

}  // namespace titan::env
