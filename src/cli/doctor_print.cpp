// The two forms of `titan doctor`'s facts: a screen for people and one JSON object for programs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/doctor_facts.h"

namespace titan::cli {
namespace {

using DoctorJson = nlohmann::ordered_json;

// Sections of "  name   value" lines.
class Screen {
 public:
  void section(std::string_view name) {
    if (!text_.empty()) text_ += '\n';
    text_ += fmt::format("{}\n", name);
  }
  void row(std::string_view name, std::string_view value) {
    text_ += fmt::format("  {:<14} {}\n", name, value);
  }
  void line(std::string_view text) { text_ += fmt::format("  {}\n", text); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string rate(double bytes_per_s) {
  return fmt::format("{:.1f} GiB/s", bytes_per_s / (1 << 30));
}

std::string memory_text(const MemorySpeed& speed) {
  std::string text = rate(speed.copy) + " copy (read and write)";
  if (speed.to_device > 0) {
    text += fmt::format(", {} from and {} to the host", rate(speed.to_device), rate(speed.to_host));
  }
  return text;
}

void print_cpu(Screen& screen, const CpuFacts& cpu) {
  screen.section("cpu");
  screen.row("name", cpu.name);
  screen.row("cores",
             fmt::format("{} usable ({} physical), quota {}", cpu.cores, cpu.physical_cores,
                         cpu.quota ? fmt::format("{:.1f}", *cpu.quota) : "none"));
  screen.row("threads", fmt::format("{} ({})", cpu.threads, cpu.threads_reason));
  screen.row("vector units", cpu.vector_units);
  screen.row("memory", fmt::format("{}, {} available", text::bytes(cpu.memory),
                                   text::bytes(cpu.memory_available)));
  screen.row("speed",
             fmt::format("{:.0f} GFLOP/s float32 ({})", cpu.flops / 1e9, cpu.flops_source));
  screen.row("memory speed", memory_text(cpu.memory_speed));
  screen.row("health", cpu.health);
}

void print_device(Screen& screen, const DeviceFacts& facts) {
  screen.section(facts.module.name);
  if (!facts.module.built) {
    screen.row("module", "not part of this build");
    return;
  }
  screen.row("module", fmt::format("built ({})", facts.module.path));
  if (!facts.settings.empty()) screen.row("settings", device::npu::describe(facts.settings));
  if (!facts.module.usable) {
    screen.row("device", fmt::format("none can be used: {}", facts.module.detail));
    return;
  }
  screen.row("device", fmt::format("{} of {}: {}", facts.device, facts.count, facts.module.detail));
  screen.row("memory",
             fmt::format("{}, {} free", text::bytes(facts.memory), text::bytes(facts.memory_free)));
  screen.row("speed",
             fmt::format("{:.0f} TFLOP/s bfloat16 ({})", facts.flops / 1e12, facts.flops_source));
  screen.row("memory speed", memory_text(facts.memory_speed));
  screen.row("health", facts.health);
}

void print_ascend(Screen& screen, const AscendFacts& facts) {
  if (!facts.present) return;
  const auto or_none = [](const std::string& text) { return text.empty() ? "none" : text; };
  screen.section("ascend");
  screen.row("driver", or_none(facts.driver) + ", firmware " + or_none(facts.firmware));
  screen.row("CANN", fmt::format("{} in {}", or_none(facts.cann), facts.cann_home));
  screen.row("torch_npu", or_none(facts.torch_npu));
  screen.row("device files",
             facts.device_files.empty() ? "none" : text::listed(facts.device_files, 16));
  for (const auto& device : facts.devices) {
    screen.row(
        fmt::format("npu {}", device.id),
        fmt::format("{}, health {}, {} of {} MiB used, {} process(es)", device.name, device.health,
                    device.memory_used_mb, device.memory_total_mb, device.processes.size()));
  }
  for (const auto& finding : facts.findings) {
    screen.row(finding.is_error ? "ERROR" : "warning", finding.what);
    screen.row("", finding.advice);
  }
  if (facts.findings.empty()) screen.row("verdict", "ready");
}

void print_network(Screen& screen, const DoctorFacts& facts) {
  screen.section("network");
  for (const auto* list : {&facts.network, &facts.hccl}) {
    for (const auto& finding : *list) {
      screen.row(finding.is_error ? "ERROR" : "warning", finding.what);
      screen.row("", finding.advice);
    }
  }
  if (facts.network.empty() && facts.hccl.empty()) screen.row("settings", "nothing wrong");
}

void print_all_reduce(Screen& screen, const AllReduceFacts& facts) {
  screen.section(fmt::format("all-reduce over {} ranks", facts.ranks.size()));
  for (const auto& rank : facts.ranks) {
    screen.row(fmt::format("rank {}", rank.rank),
               rank.doing == "done"
                   ? fmt::format("{}, {}", rank.device, memory_text(rank.memory))
                   : fmt::format("{}, did not get past: {}", rank.device, rank.doing));
    if (!rank.problem.empty()) screen.row("", rank.problem);
  }
  for (const auto& size : facts.ranks.front().sizes) {
    screen.row(text::bytes(size.bytes),
               fmt::format("{:.3f} ms, bus {}", size.seconds * 1e3, rate(size.bus_speed)));
  }
  screen.row(facts.problem.empty() ? "verdict" : "ERROR",
             facts.problem.empty() ? "all sums are right" : facts.problem);
}

void print_environment(Screen& screen, const std::vector<EnvironmentFact>& environment) {
  screen.section("environment");
  size_t widest = 0;
  for (const auto& fact : environment) widest = std::max(widest, fact.name.size());
  for (const auto& fact : environment) {
    screen.line(fmt::format("{:<{}} {:<12} {}", fact.name, widest, fact.value.value_or("(unset)"),
                            fact.meaning));
  }
}

std::string kernels_text(const std::vector<std::string>& kernels) {
  return kernels.empty() ? "titan's own kernel" : text::join(kernels, ", ");
}

void print_ops(Screen& screen, const std::vector<OpFact>& ops) {
  std::string group;
  for (const auto& fact : ops) {
    if (const std::string next = fact.device + " " + fact.dtype; next != group) {
      group = next;
      screen.section("ops on " + group);
    }
    const std::string verdict =
        fact.agrees ? "agrees with the reference" : "DIFFERS from the reference";
    screen.row(fact.op, fmt::format("{} (by {:.0e} forward, {:.0e} backward)", verdict,
                                    fact.forward_difference, fact.gradient_difference));
    screen.row("", "forward:  " + kernels_text(fact.forward));
    screen.row("", "backward: " + kernels_text(fact.backward));
  }
}

DoctorJson json_of(const MemorySpeed& speed) {
  DoctorJson json = {{"copy_bytes_per_s", speed.copy}};
  if (speed.to_device > 0) json["to_device_bytes_per_s"] = speed.to_device;
  if (speed.to_host > 0) json["to_host_bytes_per_s"] = speed.to_host;
  return json;
}

DoctorJson json_of(const std::vector<AscendFinding>& findings) {
  DoctorJson json = DoctorJson::array();
  for (const auto& finding : findings) {
    json.push_back(
        {{"is_error", finding.is_error}, {"what", finding.what}, {"advice", finding.advice}});
  }
  return json;
}

DoctorJson json_of(const AllReduceFacts& facts) {
  DoctorJson json = {{"device", facts.device}, {"ready", facts.problem.empty()}};
  json["problem"] = facts.problem.empty() ? DoctorJson() : DoctorJson(facts.problem);
  json["ranks"] = json["sizes"] = DoctorJson::array();
  for (const auto& rank : facts.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"device", rank.device},
                             {"doing", rank.doing},
                             {"memory_speed", json_of(rank.memory)}});
    json["ranks"].back()["problem"] =
        rank.problem.empty() ? DoctorJson() : DoctorJson(rank.problem);
  }
  for (const auto& size : facts.ranks.front().sizes) {
    json["sizes"].push_back(
        {{"bytes", size.bytes}, {"seconds", size.seconds}, {"bus_bytes_per_s", size.bus_speed}});
  }
  return json;
}

DoctorJson json_of(const OpFact& fact) {
  return {{"op", fact.op},
          {"device", fact.device},
          {"dtype", fact.dtype},
          {"forward", fact.forward},
          {"backward", fact.backward},
          {"forward_difference", fact.forward_difference},
          {"gradient_difference", fact.gradient_difference},
          {"agrees", fact.agrees}};
}

DoctorJson json_of(const CpuFacts& cpu) {
  return {{"name", cpu.name},
          {"cores", cpu.cores},
          {"physical_cores", cpu.physical_cores},
          {"quota_cores", cpu.quota ? DoctorJson(*cpu.quota) : DoctorJson()},
          {"threads", cpu.threads},
          {"threads_reason", cpu.threads_reason},
          {"vector_units", cpu.vector_units},
          {"memory_bytes", cpu.memory},
          {"memory_available_bytes", cpu.memory_available},
          {"memory_resident_bytes", cpu.memory_resident},
          {"float32_flops", cpu.flops},
          {"flops_source", cpu.flops_source},
          {"memory_speed", json_of(cpu.memory_speed)},
          {"health", cpu.health}};
}

DoctorJson json_of(const DeviceFacts& facts) {
  DoctorJson json = {
      {"name", facts.module.name}, {"built", facts.module.built}, {"usable", facts.module.usable}};
  if (facts.module.built) json["module"] = facts.module.path;
  if (!facts.module.usable) {
    json["reason"] = facts.module.built ? facts.module.detail : "not part of this build";
    return json;
  }
  json["device"] = facts.device;
  json["device_name"] = facts.module.detail;
  json["count"] = facts.count;
  json["memory_bytes"] = facts.memory;
  json["memory_free_bytes"] = facts.memory_free;
  json["bfloat16_flops"] = facts.flops;
  json["flops_source"] = facts.flops_source;
  json["memory_speed"] = json_of(facts.memory_speed);
  for (const auto& setting : facts.settings) {
    json["settings"][setting.variable] = {{"value", setting.value}, {"source", setting.source}};
  }
  json["health"] = facts.health;
  return json;
}

DoctorJson json_of(const AscendFacts& facts) {
  DoctorJson json = {{"driver", facts.driver},       {"firmware", facts.firmware},
                     {"cann", facts.cann},           {"cann_home", facts.cann_home},
                     {"torch_npu", facts.torch_npu}, {"device_files", facts.device_files}};
  json["devices"] = DoctorJson::array();
  for (const auto& device : facts.devices) {
    json["devices"].push_back({{"id", device.id},
                               {"name", device.name},
                               {"health", device.health},
                               {"bus_id", device.bus_id},
                               {"memory_used_mb", device.memory_used_mb},
                               {"memory_total_mb", device.memory_total_mb},
                               {"processes", device.processes}});
  }
  json["findings"] = json_of(facts.findings);
  return json;
}

}  // namespace

std::string doctor_text(const DoctorFacts& facts) {
  Screen screen;
  screen.section("versions");
  for (const auto& [name, value] : facts.versions) screen.row(name, value);
  print_cpu(screen, facts.cpu);
  for (const auto& device : facts.devices) print_device(screen, device);
  print_ascend(screen, facts.ascend);
  print_network(screen, facts);
  if (facts.all_reduce) print_all_reduce(screen, *facts.all_reduce);
  screen.section("disk");
  for (const auto& place : facts.disk) {
    screen.row(place.what, fmt::format("{} free of {} in {}", text::bytes(place.free),
                                       text::bytes(place.total), place.path));
  }
  print_environment(screen, facts.environment);
  print_ops(screen, facts.ops);
  return screen.take();
}

std::string doctor_json(const DoctorFacts& facts) {
  DoctorJson json;
  for (const auto& [name, value] : facts.versions) json["versions"][name] = value;
  json["cpu"] = json_of(facts.cpu);
  json["devices"] = DoctorJson::array();
  for (const auto& device : facts.devices) json["devices"].push_back(json_of(device));
  if (facts.ascend.present) json["ascend"] = json_of(facts.ascend);
  json["network"] = {{"findings", json_of(facts.network)}, {"hccl_findings", json_of(facts.hccl)}};
  if (facts.all_reduce) json["all_reduce"] = json_of(*facts.all_reduce);
  json["disk"] = DoctorJson::array();
  for (const auto& place : facts.disk) {
    json["disk"].push_back({{"what", place.what},
                            {"path", place.path},
                            {"free_bytes", place.free},
                            {"total_bytes", place.total}});
  }
  for (const auto& fact : facts.environment) {
    json["environment"][fact.name] = fact.value ? DoctorJson(*fact.value) : DoctorJson();
  }
  if (!facts.ops.empty()) {
    json["ops"] = DoctorJson::array();
    for (const auto& fact : facts.ops) json["ops"].push_back(json_of(fact));
  }
  return json.dump(2, ' ', false, DoctorJson::error_handler_t::replace) + "\n";
}

}  // namespace titan::cli
