// The profiler's entry points: a session can be opened and closed and ranges marked, and nothing is
// measured. Ranges that a program marks are counted like every call, so a test can see that they
// are there.
#include <acl/acl.h>
#include <acl/acl_prof.h>

#include <cstdint>

#include "runtime/report.h"
#include "runtime/stream.h"

namespace {

char config;  // what a handle of a configuration points to

}  // namespace

#define PROFILER_NOTHING(name, ...) \
  aclError name(__VA_ARGS__) {      \
    CANNEMU_CALL();                 \
    return 0;                       \
  }

PROFILER_NOTHING(aclprofInit, const char*, size_t)
PROFILER_NOTHING(aclprofFinalize)
PROFILER_NOTHING(aclprofStart, const aclprofConfig*)
PROFILER_NOTHING(aclprofStop, const aclprofConfig*)
PROFILER_NOTHING(aclprofDestroyConfig, const aclprofConfig*)
PROFILER_NOTHING(aclprofSetConfig, aclprofConfigType, const char*, size_t)

aclprofConfig* aclprofCreateConfig(uint32_t*, uint32_t, aclprofAicoreMetrics,
                                   const aclprofAicoreEvents*, uint64_t) {
  CANNEMU_CALL();
  return reinterpret_cast<aclprofConfig*>(&config);
}

extern "C" {

aclError aclprofWarmup(const aclprofConfig*) {
  CANNEMU_CALL();
  return 0;
}

aclError aclprofMarkEx(const char*, size_t, aclrtStream) {
  CANNEMU_CALL();
  return 0;
}

aclError aclprofRegisterDeviceCallback() {
  CANNEMU_CALL();
  return 0;
}

// Of libprofapi: time stamps in nanoseconds, reports thrown away.
uint64_t MsprofSysCycleTime() { return static_cast<uint64_t>(cannemu::now_milliseconds() * 1e6); }
uint64_t MsprofGetHashId(const char*, size_t) { return 0; }
int32_t MsprofReportApi(uint32_t, const void*) { return 0; }
int32_t MsprofReportCompactInfo(uint32_t, const void*, uint32_t) { return 0; }
}
