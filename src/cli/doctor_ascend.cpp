#include "cli/doctor_ascend.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <memory>
#include <regex>

#include "base/env.h"
#include "base/files.h"
#include "base/text.h"

namespace titan::cli {
namespace {

namespace fs = std::filesystem;

// The value of "Version=25.2.0" or "version=8.5.0" in one of CANN's or the driver's version files.
std::string version_in(const fs::path& file) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = text::lower_ascii(text::trim(line.substr(0, equals)));
    if (key != "version" && key != "package_version") continue;
    std::string value(text::trim(line.substr(equals + 1)));
    std::erase(value, '"');
    return value;
  }
  return {};
}

std::string cann_version(const fs::path& home) {
  utsname system{};
  uname(&system);
  const std::string machine = std::string(system.machine) + "-linux";
  for (const auto& file :
       {home / machine / "ascend_toolkit_install.info", home / "ascend_toolkit_install.info",
        home / "version.cfg", home / "compiler/version.info", home / "runtime/version.info"}) {
    if (const auto version = version_in(file); !version.empty()) return version;
  }
  return {};
}

// Output of a shell command, which `timeout` ends: npu-smi hangs where the driver does.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(("timeout 15 " + command + " 2>&1").c_str(), "r"), pclose);
  std::string text;
  if (!pipe) return text;
  std::array<char, 4096> block{};
  for (size_t n = 0; (n = std::fread(block.data(), 1, block.size(), pipe.get())) > 0;) {
    text.append(block.data(), n);
  }
  return text;
}

std::optional<int64_t> whole(std::string_view word) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || word.empty()) return std::nullopt;
  return value;
}

std::vector<std::string> words_of(std::string_view cell) {
  std::vector<std::string> words;
  for (const auto& word : text::split(cell, ' ')) {
    if (!text::trim(word).empty()) words.emplace_back(text::trim(word));
  }
  return words;
}

// The cells of a line of npu-smi's tables, without their borders.
std::vector<std::vector<std::string>> cells_of(const std::string& line) {
  std::vector<std::vector<std::string>> cells;
  if (!line.starts_with('|')) return cells;
  for (std::string cell : text::split(line, '|')) {
    // "61001/ 65536": a wide number touches the slash.
    for (size_t at = 0; (at = cell.find('/', at)) != std::string::npos; at += 3) {
      cell.replace(at, 1, " / ");
    }
    auto words = words_of(cell);
    if (!words.empty()) cells.push_back(std::move(words));
  }
  return cells;
}

// "3390 / 65536" at the end of a cell.
void read_memory(const std::vector<std::string>& cell, NpuRow& row) {
  for (size_t i = cell.size(); i-- > 2;) {
    const auto total = whole(cell[i]), used = whole(cell[i - 2]);
    if (cell[i - 1] == "/" && total && used && *total > 0) {
      row.memory_used_mb = *used;
      row.memory_total_mb = *total;
      return;
    }
  }
}

class Findings {
 public:
  explicit Findings(AscendFacts& facts) : facts_(facts) {}
  void error(std::string what, std::string advice) {
    add(true, std::move(what), std::move(advice));
  }
  void warning(std::string what, std::string advice) {
    add(false, std::move(what), std::move(advice));
  }

 private:
  void add(bool is_error, std::string what, std::string advice) {
    facts_.findings.push_back({is_error, std::move(what), std::move(advice)});
  }
  AscendFacts& facts_;
};

void check_versions(const AscendFacts& facts, const AscendPlaces& places, Findings& findings) {
  if (facts.driver.empty()) {
    findings.error("no driver: driver/version.info is missing below /usr/local/Ascend",
                   "install the Ascend HDK driver and firmware for this machine, then reboot");
  }
  if (facts.cann.empty()) {
    findings.error(fmt::format("no CANN in {}", facts.cann_home),
                   "install the CANN toolkit and the kernels of your chip, then "
                   "`source /usr/local/Ascend/ascend-toolkit/set_env.sh`");
  }
  if (facts.torch_npu.empty()) {
    findings.error("torch_npu is not there", "tools/setup.sh --npu, or set TITAN_TORCH_NPU");
    return;
  }
  const auto series = [](const std::string& version) {  // "2.11.0.post2+x" -> "2.11"
    const auto first = version.find('.');
    const auto second = version.find_first_not_of("0123456789", first + 1);
    return version.substr(0, second);
  };
  if (!places.torch.empty() && series(places.torch) != series(facts.torch_npu)) {
    findings.error(fmt::format("torch_npu {} is not for torch {}", facts.torch_npu, places.torch),
                   fmt::format("install torch_npu {}.*", series(places.torch)));
  }
  const std::string wanted = cann_of_torch_npu(facts.torch_npu);
  if (!wanted.empty() && !facts.cann.empty() && series(facts.cann) != series(wanted)) {
    findings.warning(
        fmt::format("torch_npu {} was made for CANN {}, this is {}", facts.torch_npu, wanted,
                    facts.cann),
        fmt::format("install CANN {}, or the torch_npu of your CANN (docs/ascend.md)", wanted));
  }
}

void check_devices(const AscendFacts& facts, const AscendPlaces& places, Findings& findings) {
  if (facts.device_files.empty()) {
    findings.error("no /dev/davinci*: this machine or container has no NPU",
                   "in a container pass --device=/dev/davinci0 … --device=/dev/davinci_manager "
                   "--device=/dev/devmm_svm --device=/dev/hisi_hdc");
    return;
  }
  for (const char* name : {"dev/davinci_manager", "dev/devmm_svm", "dev/hisi_hdc"}) {
    if (!fs::exists(places.root / name)) {
      findings.error(fmt::format("no /{}", name),
                     fmt::format("in a container pass --device=/{}", name));
    }
  }
  if (facts.devices.empty()) {
    findings.warning("npu-smi does not list the devices: " + facts.npu_smi,
                     "in a container mount /usr/local/sbin/npu-smi and /usr/local/Ascend/driver");
  }
  for (const auto& device : facts.devices) {
    if (device.health != "OK") {
      findings.error(fmt::format("NPU {} reports health {}", device.id, device.health),
                     fmt::format("see `npu-smi info -t health -i {}`; leave it out with "
                                 "ASCEND_RT_VISIBLE_DEVICES until it is repaired",
                                 device.id));
    }
    if (!device.processes.empty()) {
      std::vector<std::string> numbers;
      for (const auto process : device.processes) numbers.push_back(std::to_string(process));
      findings.warning(
          fmt::format("NPU {} is in use by process {}", device.id, text::listed(numbers)),
          "end it, or choose other devices with ASCEND_RT_VISIBLE_DEVICES");
    }
  }
}

void check_operators(const AscendFacts& facts, Findings& findings) {
  const fs::path kernels =
      fs::path(facts.cann_home) / "opp/built-in/op_impl/ai_core/tbe/kernel/config";
  std::error_code none;
  if (!facts.cann.empty() && fs::directory_iterator(kernels, none) == fs::directory_iterator()) {
    findings.error("CANN has no operator kernels for any chip: " + kernels.string(),
                   "install the CANN kernels package (ops) of your chip and version");
    return;
  }
  // Other chips' folder names are not known for certain.
  if (facts.devices.empty() || !facts.devices[0].name.starts_with("910B") || facts.cann.empty()) {
    return;
  }
  const char* folder = "ascend910b";
  if (!fs::exists(kernels / folder)) {
    findings.error(fmt::format("CANN has no operator kernels for {}", folder),
                   "install the CANN kernels package (ops) of your chip and version");
  }
}

void check_network(const AscendFacts& facts, const AscendPlaces& places, Findings& findings) {
  if (facts.devices.size() > 1 && !fs::exists(places.root / "etc/hccn.conf")) {
    findings.warning("no /etc/hccn.conf: the network cards of the devices have no addresses",
                     "on one host that is fine; for several set them with hccn_tool, and mount the "
                     "file into containers");
  }
}

}  // namespace

std::vector<NpuRow> parse_npu_smi(const std::string& output) {
  std::vector<NpuRow> rows;
  bool processes = false, second_line = false;
  for (const auto& line : text::split(output, '\n')) {
    const auto cells = cells_of(line);
    if (cells.size() < 2) continue;
    if (line.find("Process id") != std::string::npos) processes = true;
    const auto id = whole(cells[0][0]);
    if (!id) continue;
    if (processes) {
      const auto process = whole(cells[1][0]);
      for (auto& row : rows) {
        if (row.id == *id && process) row.processes.push_back(*process);
      }
    } else if (second_line && !rows.empty()) {
      rows.back().bus_id = cells[1][0];
      read_memory(cells.back(), rows.back());
      second_line = false;
    } else if (cells[0].size() >= 2) {
      rows.push_back({.id = *id, .name = cells[0][1], .health = cells[1][0]});
      second_line = true;
    }
  }
  return rows;
}

std::string cann_of_torch_npu(const std::string& torch_npu) {
  // Ascend/pytorch, COMPATIBILITY.en.md; a row covers its version and later posts up to the next.
  struct Row {
    const char* series;
    int64_t first_post;
    const char* cann;
  };
  static constexpr Row kRows[] = {
      {"2.12.0", 0, "9.1.0"}, {"2.11.0", 0, "9.1.0"}, {"2.10.0", 4, "9.1.0"},
      {"2.9.0", 6, "9.1.0"},  {"2.9.0", 2, "9.0.0"},  {"2.9.0", 0, "8.5.0"},
      {"2.8.0", 4, "9.0.0"},  {"2.8.0", 2, "8.5.0"},  {"2.8.0", 0, "8.3.RC1"}};
  static const std::regex kVersion(R"((\d+\.\d+\.\d+)(?:\.post(\d+))?.*)");
  std::smatch parts;
  if (!std::regex_match(torch_npu, parts, kVersion)) return {};
  const int64_t post = parts[2].matched ? std::stoll(parts[2].str()) : 0;
  for (const auto& row : kRows) {
    if (parts[1].str() == row.series && post >= row.first_post) return row.cann;
  }
  return {};
}

AscendFacts collect_ascend_facts(const AscendPlaces& places) {
  AscendFacts facts;
  const fs::path ascend = places.root / "usr/local/Ascend";
  facts.cann_home = places.cann_home;
  if (facts.cann_home.empty()) {
    facts.cann_home =
        env::get("ASCEND_HOME_PATH").value_or((ascend / "ascend-toolkit/latest").string());
  }
  facts.driver = version_in(ascend / "driver/version.info");
  facts.firmware = version_in(ascend / "firmware/version.info");
  facts.cann = cann_version(facts.cann_home);
  facts.torch_npu = places.torch_npu;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(places.root / "dev", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("davinci") && name.size() > 7 &&
        std::all_of(name.begin() + 7, name.end(),
                    [](unsigned char c) { return std::isdigit(c); })) {
      facts.device_files.push_back("/dev/" + name);
    }
  }
  std::ranges::sort(facts.device_files);
  facts.present = !facts.driver.empty() || !facts.cann.empty() || !facts.device_files.empty();
  if (!facts.present) return facts;
  const std::string smi = output_of(places.npu_smi + " info");
  facts.devices = parse_npu_smi(smi);
  if (facts.devices.empty()) {
    facts.npu_smi = smi.empty() ? "it says nothing" : smi.substr(0, smi.find('\n'));
  }
  Findings findings(facts);
  check_versions(facts, places, findings);
  check_devices(facts, places, findings);
  check_operators(facts, findings);
  check_network(facts, places, findings);
  return facts;
}

}  // namespace titan::cli
