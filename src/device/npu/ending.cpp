#include "device/npu/ending.h"

#include <third_party/acl/inc/acl/acl.h>
#include <torch_npu/csrc/core/npu/CachingHostAllocator.h>
#include <torch_npu/csrc/core/npu/NPUCachingAllocator.h>
#include <torch_npu/csrc/core/npu/sys_ctrl/npu_sys_ctrl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "base/error.h"
#include "device/npu/error_codes.h"

namespace titan::device::npu {
namespace {

// Exit handlers see nothing but globals.
std::atomic<bool> ended_well{false};

// Registered last, it runs before the destructors of what torch_npu has made until then.
void leave_unless_well(int status, void*) {
  if (ended_well) return;
  std::fflush(nullptr);
  _exit(status);
}

// torch_npu's threads throw what they find, a collective that ran out of time for one, and nobody
// can catch it.
[[noreturn]] void end_by_exception() {
  std::string what = "an unknown exception";
  try {
    if (const auto current = std::current_exception()) std::rethrow_exception(current);
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  const char* rank = std::getenv("RANK");
  const std::string message = explain_error(what).value_or(what.substr(0, what.find('\n')));
  std::fflush(stdout);
  std::fprintf(stderr, "titan: %s%s[npu] a thread of torch_npu gave up: %s\n", rank ? "rank " : "",
               rank ? (std::string(rank) + ": ").c_str() : "", message.c_str());
  std::fflush(nullptr);
  _exit(static_cast<int>(ExitCode::kEnvironment));
}

}  // namespace

void watch_the_end() {
  static const bool once = [] {
    on_exit(leave_unless_well, nullptr);
    std::set_terminate(end_by_exception);
    return true;
  }();
  static_cast<void>(once);
  ended_well = false;
}

void note_clean_end() { ended_well = true; }

void note_failure() { on_exit(leave_unless_well, nullptr); }

void close_cann() {
  auto& system = c10_npu::NpuSysCtrl::GetInstance();
  if (!ended_well || !system.GetInitFlag()) return;
  c10_npu::NPUCachingAllocator::emptyCache(/*check_error=*/false);
  at_npu::native::CachingHostAllocator_emptyCache();
  system.Finalize();
}

}  // namespace titan::device::npu
