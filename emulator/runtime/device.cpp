// Devices, contexts, versions and the settings a chip has. A context is the number of its device
// plus one.
#include "runtime/device.h"

#include <acl/acl.h>
#include <acl/acl_op_compiler.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "runtime/fault.h"
#include "runtime/report.h"
#include "settings.h"

namespace cannemu {
namespace {

thread_local int device_of_thread = 0;

constexpr int kBadDevice = 107001;

int check_device(int device) {
  if (device_lost()) return fail(507901, "the device is lost");
  if (device >= 0 && device < settings().devices) return 0;
  return fail(kBadDevice,
              "device " + std::to_string(device) + " of " + std::to_string(settings().devices));
}

// Cores of the chip, by what CANN calls them.
int64_t cores(bool vector) {
  const int64_t cube = is_950() ? 32 : settings().soc == "Ascend910B2" ? 24 : 20;
  return vector ? 2 * cube : cube;
}

}  // namespace

int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }

}  // namespace cannemu

using namespace cannemu;

#define ACL_NOTHING(name, ...) \
  aclError name(__VA_ARGS__) { \
    CANNEMU_CALL();            \
    return 0;                  \
  }

ACL_NOTHING(aclInit, const char*)

aclError aclFinalize() {
  CANNEMU_CALL();
  write_stats();
  return 0;
}

const char* aclGetRecentErrMsg() {
  CANNEMU_CALL();
  thread_local std::string text;
  text = recent_message();
  return text.c_str();
}

aclError aclsysGetCANNVersion(aclCANNPackageName, aclCANNPackageVersion* version) {
  CANNEMU_CALL();
  *version = {};
  std::strncpy(version->version, settings().cann_version.c_str(), sizeof(version->version) - 1);
  return 0;
}

aclError aclsysGetVersionStr(char*, char* version) {
  CANNEMU_CALL();
  std::strncpy(version, settings().cann_version.c_str(), ACL_PKG_VERSION_MAX_SIZE - 1);
  return 0;
}

const char* aclrtGetSocName() {
  CANNEMU_CALL();
  return settings().soc.c_str();
}

aclError aclGetCannAttribute(aclCannAttr, int32_t* value) {
  CANNEMU_CALL();
  *value = 1;  // Inf and NaN are kept
  return 0;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  CANNEMU_CALL();
  *count = static_cast<uint32_t>(settings().devices);
  return 0;
}

aclError aclrtSetDevice(int32_t device) {
  CANNEMU_CALL();
  if (int code = check_device(device)) return code;
  set_current_device(device);
  return 0;
}

aclError aclrtGetDevice(int32_t* device) {
  CANNEMU_CALL();
  *device = current_device();
  return 0;
}

ACL_NOTHING(aclrtResetDevice, int32_t)

aclError aclrtGetCurrentContext(aclrtContext* context) {
  CANNEMU_CALL();
  *context = reinterpret_cast<aclrtContext>(static_cast<intptr_t>(current_device()) + 1);
  return 0;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  CANNEMU_CALL();
  if (context) set_current_device(static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1);
  return 0;
}

aclError aclrtGetPrimaryCtxState(int32_t, uint32_t*, int32_t* active) {
  CANNEMU_CALL();
  *active = 1;
  return 0;
}

aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t, int32_t) {
  CANNEMU_CALL();
  *can = 1;
  return 0;
}

ACL_NOTHING(aclrtDeviceEnablePeerAccess, int32_t, uint32_t)

aclError aclrtGetDeviceUtilizationRate(int32_t, aclrtUtilizationInfo* rate) {
  CANNEMU_CALL();
  rate->cubeUtilization = rate->vectorUtilization = rate->aicpuUtilization =
      rate->memoryUtilization = 0;
  return 0;
}

aclError aclGetDeviceCapability(uint32_t, aclDeviceInfo which, int64_t* value) {
  CANNEMU_CALL();
  constexpr int64_t kCache = 192 << 20;
  *value =
      which == ACL_DEVICE_INFO_L2_SIZE ? kCache : cores(which == ACL_DEVICE_INFO_VECTOR_CORE_NUM);
  return 0;
}

aclError aclrtGetDeviceInfo(uint32_t, aclrtDevAttr which, int64_t* value) {
  CANNEMU_CALL();
  *value = cores(which == ACL_DEV_ATTR_VECTOR_CORE_NUM);
  return 0;
}

aclError aclrtGetDeviceCapability(int32_t, aclrtDevFeatureType, int32_t* value) {
  CANNEMU_CALL();
  *value = ACL_DEV_FEATURE_SUPPORT;
  return 0;
}

aclError aclrtDeviceGetBareTgid(int32_t* process) {
  CANNEMU_CALL();
  *process = getpid();
  return 0;
}

ACL_NOTHING(aclrtSetDeviceSatMode, aclrtFloatOverflowMode)
ACL_NOTHING(aclrtSetOpWaitTimeout, uint32_t)
ACL_NOTHING(aclrtSetOpExecuteTimeOut, uint32_t)
ACL_NOTHING(aclrtCtxSetSysParamOpt, aclSysParamOpt, int64_t)
ACL_NOTHING(aclrtSetSysParamOpt, aclSysParamOpt, int64_t)
ACL_NOTHING(aclrtPeekAtLastError, aclrtLastErrLevel)
ACL_NOTHING(aclrtGetLastError, aclrtLastErrLevel)
ACL_NOTHING(aclrtSetDeviceResLimit, int32_t, aclrtDevResLimitType, uint32_t)
ACL_NOTHING(aclrtResetDeviceResLimit, int32_t)

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actual) {
  CANNEMU_CALL();
  if (actual) *actual = timeout;
  return 0;
}

aclError aclrtGetDeviceResLimit(int32_t, aclrtDevResLimitType which, uint32_t* value) {
  CANNEMU_CALL();
  *value = static_cast<uint32_t>(cores(which != ACL_RT_DEV_RES_CUBE_CORE));
  return 0;
}

void aclAppLog(aclLogLevel, const char*, const char*, uint32_t, const char*, ...) {}

// Operators come compiled: "disable" makes the adapter take the aclnn path without being told.
size_t aclGetCompileoptSize(aclCompileOpt) { return sizeof("disable"); }

aclError aclGetCompileopt(aclCompileOpt, char* value, size_t length) {
  CANNEMU_CALL();
  std::strncpy(value, "disable", length);
  return 0;
}

ACL_NOTHING(aclSetCompileopt, aclCompileOpt, const char*)
ACL_NOTHING(aclmdlInitDump)
ACL_NOTHING(aclmdlFinalizeDump)
ACL_NOTHING(aclmdlSetDump, const char*)
