// aclrtMalloc and friends, and the reserve/map calls that expandable segments use: physical memory
// is a memory file, mapped over a reserved range.
#include "runtime/memory.h"

#include <acl/acl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "graph/capture.h"
#include "runtime/device.h"
#include "runtime/fault.h"
#include "runtime/report.h"
#include "runtime/stream.h"
#include "settings.h"

namespace cannemu {
namespace {

constexpr int kOutOfMemory = 207001;
constexpr int kBadArgument = 107000;
constexpr size_t kAlignment = 512;  // of a device allocation
constexpr size_t kPage = 2 << 20;   // of physical memory

struct Range {
  size_t bytes = 0;
  int device = 0;
};

struct Physical {
  int file = -1;
  size_t bytes = 0;
  int device = 0;
};

struct State {
  std::mutex mutex;
  std::map<char*, Range> device;  // aclrtMalloc and mapped ranges
  std::map<char*, Range> host;    // pinned
  std::map<char*, size_t> reserved;
  std::map<int, size_t> used;  // bytes of each device
  size_t total = 0, peak = 0;
};

State& state() {
  static auto* all = new State;
  return *all;
}

// REQUIRES the lock. False when the device is full.
bool take(int device, size_t bytes) {
  State& all = state();
  if (all.used[device] + bytes > settings().memory_bytes) return false;
  all.used[device] += bytes;
  all.peak = std::max(all.peak, all.total += bytes);
  return true;
}

void give_back(int device, size_t bytes) {
  state().used[device] -= bytes;
  state().total -= bytes;
}

const Range* find(const std::map<char*, Range>& ranges, const void* address) {
  auto at = ranges.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  if (at == ranges.begin()) return nullptr;
  --at;
  return static_cast<const char*>(address) < at->first + at->second.bytes ? &at->second : nullptr;
}

int out_of_memory(size_t bytes) {
  return fail(kOutOfMemory, "out of memory: " + std::to_string(bytes) +
                                " bytes asked for, device " + std::to_string(current_device()) +
                                " of " + std::to_string(settings().memory_bytes >> 20) +
                                " MiB (CANNEMU_HBM_MB) holds " +
                                std::to_string(state().used[current_device()]) + " bytes");
}

bool full_on_order() {
  return fault_now("oom") || (Capture::any_active() && fault_now("capture-oom"));
}

aclError allocate(void** address, size_t bytes) {
  if (device_lost()) return fail(507901, "the device is lost");
  bytes = std::max((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  State& all = state();
  std::lock_guard lock(all.mutex);
  if (full_on_order() || !take(current_device(), bytes)) return out_of_memory(bytes);
  *address = std::aligned_alloc(kAlignment, bytes);
  if (!*address) return out_of_memory(bytes);
  if (settings().poison) std::memset(*address, 0xff, bytes);
  all.device[static_cast<char*>(*address)] = {bytes, current_device()};
  return 0;
}

aclError allocate_host(void** address, size_t bytes) {
  constexpr size_t kHostPage = 4096;
  bytes = std::max((bytes + kHostPage - 1) / kHostPage * kHostPage, kHostPage);
  *address = std::aligned_alloc(kHostPage, bytes);
  if (!*address) return fail(kOutOfMemory, "out of host memory");
  State& all = state();
  std::lock_guard lock(all.mutex);
  all.host[static_cast<char*>(*address)] = {bytes, current_device()};
  return 0;
}

aclError copy(void* to, size_t room, const void* from, size_t bytes) {
  if (bytes > room) {
    return fail(kBadArgument,
                "copy of " + std::to_string(bytes) + " bytes into " + std::to_string(room));
  }
  std::memmove(to, from, bytes);
  return 0;
}

}  // namespace

size_t peak_bytes() {
  std::lock_guard lock(state().mutex);
  return state().peak;
}

}  // namespace cannemu

using namespace cannemu;

aclError aclrtMalloc(void** address, size_t bytes, aclrtMemMallocPolicy) {
  CANNEMU_CALL();
  return allocate(address, bytes);
}

aclError aclrtMallocAlign32(void** address, size_t bytes, aclrtMemMallocPolicy) {
  CANNEMU_CALL();
  return allocate(address, bytes);
}

aclError aclrtFree(void* address) {
  CANNEMU_CALL();
  State& all = state();
  std::lock_guard lock(all.mutex);
  auto at = all.device.find(static_cast<char*>(address));
  if (at == all.device.end())
    return fail(kBadArgument, "aclrtFree of an address that was not allocated");
  give_back(at->second.device, at->second.bytes);
  all.device.erase(at);
  std::free(address);
  return 0;
}

aclError aclrtMallocHost(void** address, size_t bytes) {
  CANNEMU_CALL();
  return allocate_host(address, bytes);
}

aclError aclrtMallocHostWithCfg(void** address, uint64_t bytes, aclrtMallocConfig*) {
  CANNEMU_CALL();
  return allocate_host(address, bytes);
}

aclError aclrtFreeHost(void* address) {
  CANNEMU_CALL();
  {
    std::lock_guard lock(state().mutex);
    state().host.erase(static_cast<char*>(address));
  }
  std::free(address);
  return 0;
}

aclError aclrtHostRegister(void* address, uint64_t bytes, aclrtHostRegisterType,
                           void** device_address) {
  CANNEMU_CALL();
  std::lock_guard lock(state().mutex);
  state().host[static_cast<char*>(address)] = {bytes, current_device()};
  *device_address = address;
  return 0;
}

aclError aclrtHostUnregister(void* address) {
  CANNEMU_CALL();
  std::lock_guard lock(state().mutex);
  state().host.erase(static_cast<char*>(address));
  return 0;
}

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free_bytes, size_t* total) {
  CANNEMU_CALL();
  std::lock_guard lock(state().mutex);
  *total = settings().memory_bytes;
  *free_bytes = *total - state().used[current_device()];
  return 0;
}

aclError aclrtPointerGetAttributes(const void* address, aclrtPtrAttributes* attributes) {
  CANNEMU_CALL();
  State& all = state();
  std::lock_guard lock(all.mutex);
  *attributes = {};
  if (const Range* range = find(all.device, address)) {
    attributes->location = {static_cast<uint32_t>(range->device), ACL_MEM_LOCATION_TYPE_DEVICE};
  } else {
    attributes->location.type =
        find(all.host, address) ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  }
  return 0;
}

// A copy without a stream waits for the device, as the host's own thread would see it.
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind) {
  CANNEMU_CALL();
  return copy(to, room, from, bytes);
}

aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind,
                          aclrtStream stream) {
  CANNEMU_CALL();
  return launch(stream, "aclrtMemcpyAsync", [=] { return copy(to, room, from, bytes); });
}

aclError aclrtMemcpyAsyncWithCondition(void* to, size_t room, const void* from, size_t bytes,
                                       aclrtMemcpyKind, aclrtStream stream) {
  CANNEMU_CALL();
  return launch(stream, "aclrtMemcpyAsync", [=] { return copy(to, room, from, bytes); });
}

aclError aclrtMemset(void* address, size_t, int32_t value, size_t bytes) {
  CANNEMU_CALL();
  std::memset(address, value, bytes);
  return 0;
}

aclError aclrtMemsetAsync(void* address, size_t, int32_t value, size_t bytes, aclrtStream stream) {
  CANNEMU_CALL();
  return launch(stream, "aclrtMemsetAsync", [=] {
    std::memset(address, value, bytes);
    return 0;
  });
}

aclError aclrtReserveMemAddress(void** address, size_t bytes, size_t, void*, uint64_t) {
  CANNEMU_CALL();
  // Of a mapping that is larger by a page the part that begins at a page's border.
  char* raw = static_cast<char*>(
      mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (raw == MAP_FAILED)
    return fail(kOutOfMemory, "no address range of " + std::to_string(bytes) + " bytes");
  const size_t before = (kPage - reinterpret_cast<uintptr_t>(raw) % kPage) % kPage;
  if (before > 0) munmap(raw, before);
  munmap(raw + before + bytes, kPage - before);
  *address = raw + before;
  std::lock_guard lock(state().mutex);
  state().reserved[raw + before] = bytes;
  return 0;
}

aclError aclrtReleaseMemAddress(void* address) {
  CANNEMU_CALL();
  std::lock_guard lock(state().mutex);
  auto at = state().reserved.find(static_cast<char*>(address));
  if (at == state().reserved.end())
    return fail(kBadArgument, "aclrtReleaseMemAddress of an address not reserved");
  munmap(at->first, at->second);
  state().reserved.erase(at);
  return 0;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t bytes,
                             const aclrtPhysicalMemProp* property, uint64_t) {
  CANNEMU_CALL();
  const int device = static_cast<int>(property->location.id);
  std::lock_guard lock(state().mutex);
  if (full_on_order() || !take(device, bytes)) return out_of_memory(bytes);
  const int file = memfd_create("cannemu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return out_of_memory(bytes);
  *handle = new Physical{file, bytes, device};
  return 0;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  CANNEMU_CALL();
  auto* physical = static_cast<Physical*>(handle);
  std::lock_guard lock(state().mutex);
  give_back(physical->device, physical->bytes);
  close(physical->file);
  delete physical;
  return 0;
}

aclError aclrtMapMem(void* address, size_t bytes, size_t offset, aclrtDrvMemHandle handle,
                     uint64_t) {
  CANNEMU_CALL();
  auto* physical = static_cast<Physical*>(handle);
  void* mapped = mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      physical->file, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return fail(kOutOfMemory, "aclrtMapMem failed");
  if (settings().poison) std::memset(address, 0xff, bytes);
  std::lock_guard lock(state().mutex);
  state().device[static_cast<char*>(address)] = {bytes, physical->device};
  return 0;
}

aclError aclrtUnmapMem(void* address) {
  CANNEMU_CALL();
  std::lock_guard lock(state().mutex);
  auto at = state().device.find(static_cast<char*>(address));
  if (at == state().device.end())
    return fail(kBadArgument, "aclrtUnmapMem of an address not mapped");
  mmap(address, at->second.bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  state().device.erase(at);
  return 0;
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp*, aclrtMemGranularityOptions,
                                          size_t* granularity) {
  CANNEMU_CALL();
  *granularity = kPage;
  return 0;
}
