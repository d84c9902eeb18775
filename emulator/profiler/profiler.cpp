// The profiler's entry points. A session takes the order of calls that CANN's documentation gives
// (init, start, ranges, stop, finalize) and refuses another one; nothing on the device is measured.
// Ranges are recorded with their names and times while a session is on that asked for them, and
// written at its end to FOLDER/PROF_…/emulated_ranges.json, where a chip's session leaves its data.
#include <acl/acl.h>
#include <acl/acl_prof.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/report.h"
#include "runtime/stream.h"

struct aclprofConfig {
  uint64_t kinds;  // ACL_PROF_…
};

namespace {

constexpr int kInvalid = 100000, kRepeated = 200025, kNotStarted = 200026;

struct Range {
  std::string name;
  double begin_ms = 0, end_ms = 0;
};

struct Session {
  std::mutex mutex;
  std::string folder;  // empty: not initialised
  bool on = false, ranges_wanted = false;
  int sessions = 0;
  uint32_t last_id = 0;
  std::map<uint32_t, Range> open;
  std::vector<Range> done;

  static Session& get() {
    static auto* session = new Session;
    return *session;
  }
};

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

// One file for each session, with what was recorded of it.
aclError write_ranges(Session& session) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(session.folder) / ("PROF_" + std::to_string(++session.sessions) +
                                                      "_" + std::to_string(getpid()));
  std::error_code failure;
  fs::create_directories(folder, failure);
  std::ofstream file(folder / "emulated_ranges.json");
  file << "{\"ranges\": [";
  for (size_t i = 0; i < session.done.size(); ++i) {
    const Range& range = session.done[i];
    file << (i ? ",\n" : "\n") << "{\"name\": " << quoted(range.name)
         << ", \"begin_ms\": " << std::fixed << range.begin_ms << ", \"end_ms\": " << range.end_ms
         << "}";
  }
  file << "\n], \"unfinished\": " << session.open.size() << "}\n";
  session.done.clear();
  session.open.clear();
  return file ? 0 : cannemu::fail(kInvalid, "aclprofStop: cannot write " + folder.string());
}

}  // namespace

aclError aclprofInit(const char* path, size_t length) {
  CANNEMU_CALL();
  Session& session = Session::get();
  const std::lock_guard lock(session.mutex);
  if (!path || length == 0) return cannemu::fail(kInvalid, "aclprofInit: no folder");
  if (!session.folder.empty()) return cannemu::fail(kRepeated, "aclprofInit: initialised already");
  session.folder.assign(path, length);
  return 0;
}

aclError aclprofFinalize() {
  CANNEMU_CALL();
  Session& session = Session::get();
  const std::lock_guard lock(session.mutex);
  if (session.on) return cannemu::fail(kInvalid, "aclprofFinalize: a session is on");
  session.folder.clear();
  return 0;
}

aclprofConfig* aclprofCreateConfig(uint32_t*, uint32_t devices, aclprofAicoreMetrics,
                                   const aclprofAicoreEvents*, uint64_t kinds) {
  CANNEMU_CALL();
  if (devices == 0) {
    cannemu::fail(kInvalid, "aclprofCreateConfig: no device");
    return nullptr;
  }
  return new aclprofConfig{kinds};
}

aclError aclprofDestroyConfig(const aclprofConfig* config) {
  CANNEMU_CALL();
  delete config;
  return 0;
}

aclError aclprofStart(const aclprofConfig* config) {
  CANNEMU_CALL();
  Session& session = Session::get();
  const std::lock_guard lock(session.mutex);
  if (!config) return cannemu::fail(kInvalid, "aclprofStart: no configuration");
  if (session.folder.empty()) return cannemu::fail(kNotStarted, "aclprofStart: not initialised");
  if (session.on) return cannemu::fail(kRepeated, "aclprofStart: a session is on");
  session.on = true;
  session.ranges_wanted = config->kinds & ACL_PROF_MSPROFTX;
  return 0;
}

aclError aclprofStop(const aclprofConfig* config) {
  CANNEMU_CALL();
  Session& session = Session::get();
  const std::lock_guard lock(session.mutex);
  if (!config || !session.on) return cannemu::fail(kNotStarted, "aclprofStop: no session is on");
  session.on = false;
  return write_ranges(session);
}

aclError aclprofSetConfig(aclprofConfigType, const char*, size_t) {
  CANNEMU_CALL();
  return 0;
}

void* aclprofCreateStamp() {
  CANNEMU_CALL();
  return new std::string;
}

void aclprofDestroyStamp(void* stamp) {
  CANNEMU_CALL();
  delete static_cast<std::string*>(stamp);
}

aclError aclprofSetStampTraceMessage(void* stamp, const char* message, uint32_t length) {
  CANNEMU_CALL();
  if (!stamp) return cannemu::fail(kInvalid, "aclprofSetStampTraceMessage: no stamp");
  static_cast<std::string*>(stamp)->assign(message, length);
  return 0;
}

aclError aclprofRangeStart(void* stamp, uint32_t* id) {
  CANNEMU_CALL();
  Session& session = Session::get();
  const std::lock_guard lock(session.mutex);
  if (!stamp || !id) return cannemu::fail(kInvalid, "aclprofRangeStart: no stamp");
  *id = ++session.last_id;
  session.open[*id] = {*static_cast<std::string*>(stamp), cannemu::now_milliseconds()};
  return 0;
}

aclError aclprofRangeStop(uint32_t id) {
  CANNEMU_CALL();
  Session& session = Session::get();
  const std::lock_guard lock(session.mutex);
  const auto found = session.open.find(id);
  if (found == session.open.end()) {
    return cannemu::fail(kInvalid, "aclprofRangeStop: no range of this number is open");
  }
  if (session.on && session.ranges_wanted) {
    found->second.end_ms = cannemu::now_milliseconds();
    session.done.push_back(found->second);
  }
  session.open.erase(found);
  return 0;
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
