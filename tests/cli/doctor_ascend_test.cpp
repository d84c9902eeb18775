#include "cli/doctor_ascend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>

#include "base/files.h"

namespace titan::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kTwoDevices = R"(
+------------------------------------------------------------------------------------------------+
| npu-smi 25.2.0                   Version: 25.2.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B2               | OK            | 93.4        41                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3390 / 65536         |
+===========================+===============+====================================================+
| 1     910B2               | Alarm         | 90.1        39                0    / 0             |
| 0                         | 0000:01:00.0  | 7           0    / 0          61001/ 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
| 1       0                 | 41213         | titan                    | 57611                   |
+===========================+===============+====================================================+
)";

TEST(NpuSmi, ListsDevicesMemoryAndProcesses) {
  const auto rows = parse_npu_smi(kTwoDevices);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "910B2");
  EXPECT_EQ(rows[0].health, "OK");
  EXPECT_EQ(rows[0].bus_id, "0000:C1:00.0");
  EXPECT_EQ(rows[0].memory_used_mb, 3390);
  EXPECT_EQ(rows[0].memory_total_mb, 65536);
  EXPECT_THAT(rows[0].processes, IsEmpty());
  EXPECT_EQ(rows[1].health, "Alarm");
  EXPECT_EQ(rows[1].memory_used_mb, 61001);
  EXPECT_THAT(rows[1].processes, ElementsAre(41213));
}

TEST(NpuSmi, IsNotMisledByErrors) {
  EXPECT_THAT(parse_npu_smi(""), IsEmpty());
  EXPECT_THAT(parse_npu_smi("sh: 1: npu-smi: not found\n"), IsEmpty());
  EXPECT_THAT(
      parse_npu_smi("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
                    "dcmi model initialized failed, because the device is used. ret is -8020\n"),
      IsEmpty());
}

TEST(CannMatrix, KnowsWhichCannATorchNpuNeeds) {
  EXPECT_EQ(cann_of_torch_npu("2.11.0"), "9.1.0");
  EXPECT_EQ(cann_of_torch_npu("2.11.0.post3"), "9.1.0");
  EXPECT_EQ(cann_of_torch_npu("2.9.0"), "8.5.0");
  EXPECT_EQ(cann_of_torch_npu("2.9.0.post5"), "9.0.0");
  EXPECT_EQ(cann_of_torch_npu("2.9.0.post6+git1"), "9.1.0");
  EXPECT_EQ(cann_of_torch_npu("2.3.0"), "");
  EXPECT_EQ(cann_of_torch_npu("nonsense"), "");
}

// A machine made of files.
class Machine {
 public:
  explicit Machine(const std::string& name)
      : root_(fs::path(testing::TempDir()) / ("ascend_" + name)) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "dev");
  }
  ~Machine() { fs::remove_all(root_); }
  void put(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    files::write_atomically(root_ / file, text);
  }
  AscendFacts look(const std::string& npu_smi_says, const std::string& torch_npu) const {
    put("npu_smi", npu_smi_says);
    AscendPlaces places{.root = root_,
                        .cann_home = (root_ / "cann").string(),
                        .npu_smi = "cat " + (root_ / "npu_smi").string() + " #",
                        .torch = "2.11.0+cpu",
                        .torch_npu = torch_npu};
    return collect_ascend_facts(places);
  }
  void make_whole() const {
    utsname system{};
    uname(&system);
    put("usr/local/Ascend/driver/version.info", "Version=25.2.0\nascendhal_version=7.35\n");
    put("usr/local/Ascend/firmware/version.info", "Version=7.7.0\n");
    put(fs::path("cann") / (std::string(system.machine) + "-linux") / "ascend_toolkit_install.info",
        "package_name=Ascend-cann-toolkit\nversion=9.1.0\narch=x\n");
    put("cann/opp/built-in/op_impl/ai_core/tbe/kernel/config/ascend910b/x", "");
    for (const char* name : {"davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc"}) {
      put(fs::path("dev") / name, "");
    }
    put("etc/hccn.conf", "address_0=10.0.0.1\n");
  }

 private:
  fs::path root_;
};

std::string all_of(const AscendFacts& facts) {
  std::string text;
  for (const auto& finding : facts.findings) {
    text +=
        (finding.is_error ? "ERROR " : "warning ") + finding.what + " | " + finding.advice + "\n";
  }
  return text;
}

TEST(AscendFacts, SayNothingWhereThereIsNoAscend) {
  const Machine machine("none");
  const auto facts = machine.look("", "2.11.0");
  EXPECT_FALSE(facts.present);
  EXPECT_THAT(facts.findings, IsEmpty());
}

TEST(AscendFacts, AWholeMachineIsReadyAndATiredOneIsNot) {
  const Machine machine("whole");
  machine.make_whole();
  std::string healthy = kTwoDevices;
  healthy.replace(healthy.find("Alarm"), 5, "OK   ");
  healthy.erase(healthy.find("| 1       0"), healthy.find("57611") - healthy.find("| 1       0"));
  const auto ready = machine.look(healthy, "2.11.0");
  EXPECT_EQ(all_of(ready), "");
  EXPECT_EQ(ready.driver, "25.2.0");
  EXPECT_EQ(ready.cann, "9.1.0");
  EXPECT_THAT(ready.device_files, ElementsAre("/dev/davinci0", "/dev/davinci1"));

  const auto tired = all_of(machine.look(kTwoDevices, "2.9.0"));
  EXPECT_THAT(
      tired,
      HasSubstr("ERROR torch_npu 2.9.0 is not for torch 2.11.0+cpu | install torch_npu 2.11.*"));
  EXPECT_THAT(tired, HasSubstr("warning torch_npu 2.9.0 was made for CANN 8.5.0, this is 9.1.0"));
  EXPECT_THAT(tired, HasSubstr("ERROR NPU 1 reports health Alarm"));
  EXPECT_THAT(tired, HasSubstr("warning NPU 1 is in use by process 41213"));
}

TEST(AscendFacts, NamesWhatAContainerLacks) {
  const Machine machine("container");
  machine.put("usr/local/Ascend/driver/version.info", "Version=25.2.0\n");
  const auto text = all_of(machine.look("sh: 1: npu-smi: not found", ""));
  EXPECT_THAT(text, HasSubstr("ERROR no /dev/davinci*"));
  EXPECT_THAT(text, HasSubstr("--device=/dev/davinci_manager"));
  EXPECT_THAT(text, HasSubstr("ERROR no CANN in"));
  EXPECT_THAT(text, HasSubstr("ERROR torch_npu is not there"));

  machine.make_whole();
  machine.put("dev/davinci0", "");
  fs::remove_all(fs::path(testing::TempDir()) / "ascend_container/cann/opp");
  EXPECT_THAT(all_of(machine.look(kTwoDevices, "2.11.0")),
              HasSubstr("ERROR CANN has no operator kernels for any chip"));
  machine.put("cann/opp/built-in/op_impl/ai_core/tbe/kernel/config/ascend310p/x", "");
  EXPECT_THAT(all_of(machine.look(kTwoDevices, "2.11.0")),
              HasSubstr("ERROR CANN has no operator kernels for ascend910b"));
  EXPECT_THAT(all_of(machine.look("sh: 1: npu-smi: not found", "2.11.0")),
              HasSubstr("npu-smi does not list the devices: sh: 1: npu-smi: not found"));
}

}  // namespace
}  // namespace titan::cli
