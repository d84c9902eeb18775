// CANN's profiler behind device/tracing.h. Its functions lie in libmsprofiler.so, which neither
// torch_npu nor titan links: they are looked up by name, and declared by the headers of the wheel.
#include "device/npu/tracing.h"

#include <dlfcn.h>
#include <third_party/acl/inc/acl/acl.h>
#include <third_party/acl/inc/acl/acl_prof.h>
#include <torch_npu/csrc/core/npu/NPUFunctions.h>

#include <atomic>

#include "base/error.h"

namespace titan::device::npu {
namespace {

template <class Function>
Function* find(const char* name) {
  // Never closed: CANN keeps threads in it.
  static void* const library = dlopen("libmsprofiler.so", RTLD_LAZY | RTLD_GLOBAL);
  void* found = library ? dlsym(library, name) : nullptr;
  if (found == nullptr) found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    throw EnvironmentError(
        "[profiling] CANN's profiler cannot be used: no {} — install the CANN toolkit (its "
        "libmsprofiler.so) and source its set_env.sh",
        name);
  }
  return reinterpret_cast<Function*>(found);
}

#define TITAN_FOUND(name) find<decltype(::name)>(#name)

// Looked up together, so that a session either has them all or does not begin.
struct Functions {
  decltype(::aclprofInit)* init = TITAN_FOUND(aclprofInit);
  decltype(::aclprofFinalize)* finalize = TITAN_FOUND(aclprofFinalize);
  decltype(::aclprofCreateConfig)* create_config = TITAN_FOUND(aclprofCreateConfig);
  decltype(::aclprofDestroyConfig)* destroy_config = TITAN_FOUND(aclprofDestroyConfig);
  decltype(::aclprofStart)* start = TITAN_FOUND(aclprofStart);
  decltype(::aclprofStop)* stop = TITAN_FOUND(aclprofStop);
  decltype(::aclprofCreateStamp)* create_stamp = TITAN_FOUND(aclprofCreateStamp);
  decltype(::aclprofDestroyStamp)* destroy_stamp = TITAN_FOUND(aclprofDestroyStamp);
  decltype(::aclprofSetStampTraceMessage)* set_message = TITAN_FOUND(aclprofSetStampTraceMessage);
  decltype(::aclprofRangeStart)* range_start = TITAN_FOUND(aclprofRangeStart);
  decltype(::aclprofRangeStop)* range_stop = TITAN_FOUND(aclprofRangeStop);
};

#undef TITAN_FOUND

// One session at a time in a process. Never destroyed: a range may end while the process does.
struct Session {
  Functions call;
  aclprofConfig* config = nullptr;
  std::atomic<bool> on{false};

  static Session& get() {
    static auto* const session = new Session;
    return *session;
  }
};

void check(aclError status, const char* call) {
  if (status == ACL_SUCCESS) return;
  const char* said = aclGetRecentErrMsg();
  throw EnvironmentError("[profiling] {} failed with {}: {}", call, status, said ? said : "");
}

void start(const std::string& folder) {
  constexpr uint64_t kKinds =
      ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_HCCL_TRACE | ACL_PROF_MSPROFTX;
  Session& session = Session::get();
  check(session.call.init(folder.c_str(), folder.size()), "aclprofInit");
  uint32_t device = static_cast<uint32_t>(c10_npu::current_device());
  session.config = session.call.create_config(&device, 1, ACL_AICORE_NONE, nullptr, kKinds);
  check(session.config ? ACL_SUCCESS : ACL_ERROR_FAILURE, "aclprofCreateConfig");
  check(session.call.start(session.config), "aclprofStart");
  session.on = true;
}

void stop() {
  Session& session = Session::get();
  session.on = false;
  const aclError stopped = session.call.stop(session.config);
  session.call.destroy_config(session.config);
  session.config = nullptr;
  const aclError finalized = session.call.finalize();
  check(stopped, "aclprofStop");
  check(finalized, "aclprofFinalize");
}

// A range that CANN refuses is left out of the trace: it is no reason to end the training.
uint64_t open_range(const char* name) {
  Session& session = Session::get();
  if (!session.on) return 0;
  void* stamp = session.call.create_stamp();
  if (stamp == nullptr) return 0;
  uint32_t range = 0;
  const std::string_view text = name;
  if (session.call.set_message(stamp, name, static_cast<uint32_t>(text.size())) != ACL_SUCCESS ||
      session.call.range_start(stamp, &range) != ACL_SUCCESS) {
    range = 0;
  }
  session.call.destroy_stamp(stamp);
  return range;
}

void close_range(uint64_t range) {
  if (range != 0) Session::get().call.range_stop(static_cast<uint32_t>(range));
}

}  // namespace

const Tracing* cann_tracing() {
  static constexpr Tracing kTracing{.start = start,
                                    .stop = stop,
                                    .open_range = open_range,
                                    .close_range = close_range,
                                    .reader = "msprof --export=on, then MindStudio Insight"};
  return &kTracing;
}

}  // namespace titan::device::npu
