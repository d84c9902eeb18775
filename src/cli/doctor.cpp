// `titan doctor`: what this machine and this build can do, in one screen; the first thing to send
// with a question.
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/doctor_facts.h"
#include "cli/options.h"

namespace titan::cli {
namespace {

bool is_usable(const DoctorFacts& facts, const std::string& device) {
  if (device.empty()) return true;
  if (device == "cpu") return facts.cpu.health == "good";
  for (const auto& found : facts.devices) {
    if (found.module.name == device) return found.healthy;
  }
  return false;
}

}  // namespace

int run_doctor(Arguments arguments) {
  CLI::App app{
      "Shows what this build and this machine can do: versions, devices, threads, memory, disk, "
      "settings.",
      "titan doctor"};
  std::string required;
  bool as_json = false, with_ops = false;
  app.add_option("--device", required,
                 "exit with code 3 unless this device (cpu, cuda, npu) can be used")
      ->check(CLI::IsMember({"cpu", "cuda", "npu"}));
  app.add_flag("--json", as_json, "print one JSON object instead");
  app.add_flag("--ops", with_ops,
               "also run every op on every device, tell its kernels and compare it with its "
               "reference; exit code 1 "
               "when one differs");
  if (!parse_options(app, arguments)) return 0;
  // Opening devices logs; standard output is for the facts alone.
  log::configure({.level = log::Level::kWarning, .prefix = {}, .to_stderr = true});
  const DoctorFacts facts = collect_doctor_facts(with_ops);
  const std::string text = as_json ? doctor_json(facts) : doctor_text(facts);
  std::fputs(text.c_str(), stdout);
  for (const auto& op : facts.ops) {
    if (!op.agrees) {
      throw InternalError(fmt::format(
          "[doctor] {} on {} in {} differs from its reference — the lines above say how", op.op,
          op.device, op.dtype));
    }
  }
  if (is_usable(facts, required)) return 0;
  throw EnvironmentError("[doctor] device '{}' cannot be used here — the lines above say why",
                         required);
}

}  // namespace titan::cli
