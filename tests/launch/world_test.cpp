#include "base/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "base/address.h"
#include "base/env.h"
#include "base/error.h"

namespace titan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

// Every variable titan knows is unset first, whatever started this test.
void set_environment(const Variables& variables) {
  for (const auto& variable : env::known()) {
    const std::string name = variable.name;
    if (name != "HOME" && name != "TERM") unsetenv(variable.name);
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

World world_of(const Variables& variables, const WorldOverrides& overrides = {}) {
  set_environment(variables);
  return read_world(overrides);
}

std::string error_of(const Variables& variables, const WorldOverrides& overrides = {}) {
  try {
    const World world = world_of(variables, overrides);
    ADD_FAILURE() << "no error; rank " << world.rank << " of " << world.size;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

std::string shown(const World& world) {
  return fmt::format(
      "{}/{} local {}/{} at {} from {}", world.rank, world.size, world.local_rank, world.local_size,
      world.size > 1 ? endpoint(world.master_addr, world.master_port) : "nowhere", world.source);
}

const Variables kTorchrun = {{"RANK", "5"},        {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},  {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29400"}};

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) {
    variables.erase(name);
    if (value != "-") variables[name] = value;
  }
  return variables;
}

TEST(Environment, TheTableNamesEachVariableOnce) {
  std::map<std::string, int64_t> count;
  for (const auto& variable : env::known()) ++count[variable.name];
  for (const auto& [name, times] : count) EXPECT_EQ(times, 1) << name;
}

TEST(ReadWorld, IsOneProcessWithoutAnyVariable) {
  EXPECT_EQ(shown(world_of({})), "0/1 local 0/1 at nowhere from one process");
  EXPECT_EQ(shown(world_of({{"RANK", ""}, {"WORLD_SIZE", ""}})),
            "0/1 local 0/1 at nowhere from one process");
}

TEST(ReadWorld, TakesTorchrunsVariables) {
  EXPECT_EQ(shown(world_of(kTorchrun)), "5/8 local 1/4 at a:29400 from RANK and WORLD_SIZE");
  EXPECT_EQ(shown(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}})),
            "0/1 local 0/1 at nowhere from RANK and WORLD_SIZE");
  EXPECT_EQ(world_of({{"WORLD_SIZE", "1"}}).rank, 0);
}

TEST(ReadWorld, KnowsWhetherTorchrunServesTheStore) {
  EXPECT_FALSE(world_of(kTorchrun).store_is_served);
  const auto served = with(
      kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_TRUE(world_of(served).store_is_served);
  EXPECT_EQ(world_of(served).attempt, 2);
  EXPECT_FALSE(world_of(with(served, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).store_is_served);
  // Another address is not the agent's.
  EXPECT_FALSE(world_of(served, {.master_port = 1}).store_is_served);
  EXPECT_FALSE(world_of(served, {.master_addr = "b"}).store_is_served);
}

TEST(ReadWorld, DerivesTheLocalRankWhereItIsCertain) {
  EXPECT_EQ(shown(world_of(with(kTorchrun, {{"LOCAL_RANK", "-"}}))),
            "5/8 local 1/4 at a:29400 from RANK and WORLD_SIZE");
  const Variables here = {
      {"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "[::1]"}, {"MASTER_PORT", "1"}};
  EXPECT_EQ(shown(world_of(here)), "2/3 local 2/3 at [::1]:1 from RANK and WORLD_SIZE");
  EXPECT_THAT(error_of(with(here, {{"MASTER_ADDR", "10.0.0.1"}})),
              AllOf(HasSubstr("WORLD_SIZE=3"), HasSubstr("10.0.0.1"), HasSubstr("LOCAL_RANK")));
}

TEST(ReadWorld, LocalRankAloneChoosesTheDeviceOfOneProcess) {
  EXPECT_EQ(shown(world_of({{"LOCAL_RANK", "3"}})), "0/1 local 3/1 at nowhere from one process");
}

TEST(ReadWorld, RefusesNumbersThatAreNone) {
  for (const char* bad : {"two", "-1", "1.0", "1 ", "0x1", "99999999999999999999"}) {
    EXPECT_THAT(error_of(with(kTorchrun, {{"RANK", bad}})),
                AllOf(HasSubstr(fmt::format("RANK={} ", bad)), HasSubstr("unset it")));
    EXPECT_THAT(error_of(with(kTorchrun, {{"WORLD_SIZE", bad}})),
                HasSubstr(fmt::format("WORLD_SIZE={} ", bad)));
  }
  EXPECT_THAT(error_of(with(kTorchrun, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_PORT", "0"}})), HasSubstr("MASTER_PORT=0"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_PORT", "65536"}})), HasSubstr("1 to 65535"));
  EXPECT_THAT(error_of({{"SLURM_PROCID", "x"}}), HasSubstr("SLURM_PROCID=x"));
}

TEST(ReadWorld, RefusesWhatIsMissing) {
  EXPECT_THAT(error_of({{"RANK", "3"}}),
              AllOf(HasSubstr("RANK=3"), HasSubstr("WORLD_SIZE is not"), HasSubstr("unset RANK")));
  EXPECT_THAT(error_of(with(kTorchrun, {{"RANK", "-"}})),
              AllOf(HasSubstr("WORLD_SIZE=8"), HasSubstr("RANK is not"), HasSubstr("0 to 7")));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_ADDR", "-"}})),
              AllOf(HasSubstr("WORLD_SIZE=8"), HasSubstr("MASTER_ADDR is not set")));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_PORT", "-"}})),
              AllOf(HasSubstr("MASTER_PORT is not set"), HasSubstr("host a")));
  EXPECT_THAT(error_of({{"SLURM_PROCID", "0"}}), HasSubstr("SLURM_NTASKS is not"));
  EXPECT_THAT(error_of({{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr("OMPI_COMM_WORLD_RANK is not"));
}

TEST(ReadWorld, RefusesWhatContradictsItself) {
  EXPECT_THAT(error_of(with(kTorchrun, {{"RANK", "8"}})),
              AllOf(HasSubstr("RANK=8"), HasSubstr("WORLD_SIZE=8")));
  EXPECT_THAT(error_of(with(kTorchrun, {{"LOCAL_RANK", "4"}})),
              AllOf(HasSubstr("LOCAL_RANK=4"), HasSubstr("LOCAL_WORLD_SIZE=4")));
  EXPECT_THAT(error_of(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}})),
              AllOf(HasSubstr("LOCAL_WORLD_SIZE=9"), HasSubstr("WORLD_SIZE=8")));
  EXPECT_THAT(error_of({{"RANK", "1"},
                        {"WORLD_SIZE", "2"},
                        {"LOCAL_RANK", "2"},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", "1"}}),
              AllOf(HasSubstr("LOCAL_RANK=2"), HasSubstr("WORLD_SIZE=2")));
}

TEST(ReadWorld, TakesSlurmsVariables) {
  const Variables slurm = {{"SLURM_PROCID", "5"},
                           {"SLURM_NTASKS", "7"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_NODEID", "1"},
                           {"SLURM_STEP_NODELIST", "gpu[09-10]"},
                           {"SLURM_NODELIST", "gpu[01-10]"},
                           {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                           {"SLURM_JOB_ID", "1234567"}};
  EXPECT_EQ(shown(world_of(slurm)), "5/7 local 1/3 at gpu09:30067 from Slurm");
  EXPECT_EQ(shown(world_of(with(slurm, {{"SLURM_STEP_NODELIST", "-"},
                                        {"SLURM_STEP_TASKS_PER_NODE", "-"},
                                        {"SLURM_NTASKS_PER_NODE", "4"}}))),
            "5/7 local 1/4 at gpu01:30067 from Slurm");
  EXPECT_EQ(shown(world_of(with(slurm, {{"MASTER_ADDR", "10.1.1.1"}, {"MASTER_PORT", "77"}}))),
            "5/7 local 1/3 at 10.1.1.1:77 from Slurm");
  // A shell of an allocation is no task of it.
  EXPECT_EQ(world_of({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}).size, 1);
}

TEST(ReadWorld, TakesTheVariablesOfMpi) {
  const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(shown(world_of(open_mpi)), "1/2 local 1/2 at 127.0.0.1:29500 from Open MPI");
  EXPECT_THAT(error_of(with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}})),
              AllOf(HasSubstr("OMPI_COMM_WORLD_SIZE=2"), HasSubstr("MASTER_ADDR is not set")));
  const Variables hydra = {{"PMI_RANK", "3"},        {"PMI_SIZE", "4"},
                           {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"},
                           {"MASTER_ADDR", "n0"},    {"MASTER_PORT", "5"}};
  EXPECT_EQ(shown(world_of(hydra)), "3/4 local 1/2 at n0:5 from MPI");
  const Variables script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_NODELIST", "n9"}};
  // mpirun inside a Slurm job: the tasks' variables are those of the job's script.
  EXPECT_EQ(world_of(with(open_mpi, script)).source, "Open MPI");
  EXPECT_EQ(world_of(with(hydra, script)).source, "MPI");
  // srun --mpi=pmi2 sets PMI's variables beside its own.
  EXPECT_EQ(
      world_of(with(script, {{"PMI_RANK", "0"}, {"PMI_SIZE", "8"}, {"SLURM_LOCALID", "0"}})).source,
      "Slurm");
}

TEST(ReadWorld, TorchrunInsideSlurmOrMpiWins) {
  EXPECT_EQ(world_of(with(kTorchrun, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}})).rank, 5);
  EXPECT_EQ(world_of(with(kTorchrun, {{"OMPI_COMM_WORLD_RANK", "0"}})).rank, 5);
}

TEST(ReadWorld, TheConfigurationBeatsTheEnvironment) {
  EXPECT_EQ(shown(world_of({}, {.size = 2, .rank = 1, .master_port = 7, .master_addr = "::1"})),
            "1/2 local 1/2 at [::1]:7 from comm.rank and comm.world_size");
  EXPECT_EQ(shown(world_of(kTorchrun, {.rank = 6, .master_port = 8})),
            "6/8 local 1/4 at a:8 from comm.rank and comm.world_size");
  EXPECT_EQ(shown(world_of(kTorchrun, {.size = 8, .rank = 5, .master_addr = "a"})),
            "5/8 local 1/4 at a:29400 from RANK and WORLD_SIZE");
  EXPECT_THAT(error_of(kTorchrun, {.size = 4}),
              AllOf(HasSubstr("RANK=5"), HasSubstr("comm.world_size=4")));
  EXPECT_THAT(error_of({}, {.size = 4}), HasSubstr("comm.world_size=4"));
  EXPECT_THAT(error_of({}, {.size = 0}), HasSubstr("comm.world_size=0"));
  EXPECT_THAT(error_of(kTorchrun, {.master_addr = "x y"}), HasSubstr("comm.master_addr=x y"));
}

TEST(ReadWorld, PublishFillsOnlyWhatIsUnset) {
  const World world = world_of({{"SLURM_PROCID", "1"},
                                {"SLURM_NTASKS", "2"},
                                {"SLURM_LOCALID", "1"},
                                {"SLURM_NODELIST", "n[1-2]"},
                                {"MASTER_PORT", "9"}});
  publish(world);
  for (const char* name : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODELIST"})
    unsetenv(name);
  EXPECT_EQ(shown(read_world()), "1/2 local 1/2 at n1:9 from RANK and WORLD_SIZE");
}

TEST(Address, IsWrittenWithoutBrackets) {
  EXPECT_EQ(normal_address("::1", "A"), "::1");
  EXPECT_EQ(normal_address("[::1]", "A"), "::1");
  EXPECT_EQ(normal_address("fe80::1%eth0", "A"), "fe80::1%eth0");
  EXPECT_EQ(normal_address("[fe80::1%eth0]", "A"), "fe80::1%eth0");
  EXPECT_EQ(normal_address("node-1.cluster_a", "A"), "node-1.cluster_a");
  EXPECT_EQ(endpoint("fe80::1%eth0", 5), "[fe80::1%eth0]:5");
  EXPECT_EQ(endpoint("10.0.0.1", 5), "10.0.0.1:5");
}

TEST(Address, RefusesWhatIsNoHost) {
  for (const char* bad :
       {"", "[::1", "::1]", "[]", "[node]", "a b", "http://a", "fe80::1%", ":::", "a:b", "a,b"}) {
    EXPECT_THROW(normal_address(bad, "MASTER_ADDR"), Error) << bad;
  }
  try {
    normal_address("node:29500", "MASTER_ADDR");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("MASTER_ADDR=node:29500"), HasSubstr("write node ")));
  }
  EXPECT_THROW(normal_address("[::1]:29500", "MASTER_ADDR"), Error);
}

TEST(Address, KnowsLoopback) {
  for (const char* here : {"127.0.0.1", "127.1.2.3", "localhost", "LocalHost", "::1"})
    EXPECT_TRUE(is_loopback(here)) << here;
  for (const char* elsewhere : {"128.0.0.1", "10.0.0.127", "::2", "node1", "127.example.org"})
    EXPECT_FALSE(is_loopback(elsewhere)) << elsewhere;
}

TEST(Address, ExpandsTheFirstHostOfSlurmsList) {
  const std::map<std::string, std::string> first = {{"n1", "n1"},
                                                    {"n1,n2", "n1"},
                                                    {"gpu[03-07,12],big1", "gpu03"},
                                                    {"gpu[5]", "gpu5"},
                                                    {"gpu[12,03-07]-ib", "gpu12-ib"},
                                                    {"rack[1-2]node[03-04]x", "rack1node03x"},
                                                    {"login,gpu[1-2]", "login"}};
  for (const auto& [list, host] : first) EXPECT_EQ(first_slurm_host(list, "L"), host);
  for (const char* bad : {"", ",a", "gpu[1-2", "gpu[]", "gpu[a-b]", "a b"})
    EXPECT_THROW(first_slurm_host(bad, "SLURM_NODELIST"), Error) << bad;
}

TEST(Address, CountsSlurmsTasksPerNode) {
  EXPECT_EQ(slurm_tasks_at("4(x2),3", 0, "L"), 4);
  EXPECT_EQ(slurm_tasks_at("4(x2),3", 1, "L"), 4);
  EXPECT_EQ(slurm_tasks_at("4(x2),3", 2, "L"), 3);
  EXPECT_EQ(slurm_tasks_at("4(x2),3", 3, "L"), std::nullopt);
  for (const char* bad : {"", "a", "4(x", "4(x)", "4(x2", "4,,3"})
    EXPECT_THROW(slurm_tasks_at(bad, 9, "L"), Error) << bad;
}

}  // namespace
}  // namespace titan
