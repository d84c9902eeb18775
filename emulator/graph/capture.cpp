#include "graph/capture.h"

#include <acl/acl.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <utility>

#include "runtime/fault.h"
#include "runtime/report.h"

namespace cannemu {
namespace {

std::atomic<int> active_captures{0};

size_t at(const Capture::Clock& clock, size_t line) {
  return line < clock.size() ? clock[line] : 0;
}

void merge(Capture::Clock& into, const Capture::Clock& other) {
  into.resize(std::max(into.size(), other.size()), 0);
  for (size_t line = 0; line < other.size(); ++line) into[line] = std::max(into[line], other[line]);
}

}  // namespace

Capture::Capture(Stream& origin) {
  lines_.push_back({.stream = &origin});
  ++active_captures;
}

bool Capture::any_active() { return active_captures > 0; }

// REQUIRES the lock, and that the stream is captured.
size_t Capture::line_of(Stream& stream) {
  for (size_t line = 0; line < lines_.size(); ++line) {
    if (lines_[line].stream == &stream) return line;
  }
  lines_.push_back({.stream = &stream});
  return lines_.size() - 1;
}

void Capture::add(Stream& stream, const char* name, Task task) {
  std::lock_guard lock(mutex_);
  const size_t index = line_of(stream);
  Line& line = lines_[index];
  line.nodes.push_back({name, std::move(task), line.clock});
  line.clock.resize(std::max(line.clock.size(), index + 1), 0);
  line.clock[index] = line.nodes.size();
}

Capture::Clock Capture::record(Stream& stream) {
  std::lock_guard lock(mutex_);
  return lines_[line_of(stream)].clock;
}

int Capture::wait(Stream& stream, const Clock& event) {
  if (stream.capture && stream.capture.get() != this) {
    return fail(kCaptureError, "a captured stream waits for an event of another capture");
  }
  std::lock_guard lock(mutex_);
  if (!stream.capture) {
    stream.capture = lines_.front().stream->capture;
    line_of(stream);
  }
  merge(lines_[line_of(stream)].clock, event);
  return 0;
}

int Capture::end(Stream& origin) {
  std::lock_guard lock(mutex_);
  active_ = false;
  --active_captures;
  const Clock& known = lines_.front().clock;
  int error = valid_ ? 0 : fail(kCaptureError, "the capture was invalidated");
  for (size_t line = 0; line < lines_.size(); ++line) {
    if (lines_[line].stream != &origin) lines_[line].stream->capture = nullptr;
    if (at(known, line) != lines_[line].nodes.size()) {
      error =
          fail(kCaptureError, "a stream that joined the capture was not awaited before its end");
    }
  }
  return error;
}

int Capture::replay(void* handle) {
  Stream& main = stream_of(handle);
  std::lock_guard lock(mutex_);
  // One event for each task that another line waits for; simpler and cheap enough: a count per
  // line.
  std::vector<std::shared_ptr<EventState>> progress;
  for (Line& line : lines_) {
    progress.push_back(std::make_shared<EventState>());
    if (!line.replay && &line != &lines_.front()) line.replay = new Stream(main.device());
  }
  auto start = std::make_shared<EventState>();
  main.push([start] { return start->mark(1), 0; }, true);
  // In the order of dependencies, so that a synchronous stream can run each task as it is pushed.
  std::vector<size_t> next(lines_.size(), 0);
  size_t left = 0;
  for (const Line& line : lines_) left += line.nodes.size();
  while (left > 0) {
    for (size_t index = 0; index < lines_.size(); ++index) {
      Line& line = lines_[index];
      Stream& stream = index == 0 ? main : *line.replay;
      for (; next[index] < line.nodes.size(); ++next[index], --left) {
        const Node& node = line.nodes[next[index]];
        bool ready = true;
        for (size_t other = 0; other < lines_.size(); ++other) {
          ready &= other == index || at(node.after, other) <= next[other];
        }
        if (!ready) break;
        if (next[index] == 0 && index > 0) stream.push([start] { return start->wait(1), 0; }, true);
        for (size_t other = 0; other < lines_.size(); ++other) {
          const size_t count = at(node.after, other);
          if (other == index || count == 0) continue;
          stream.push([state = progress[other], count] { return state->wait(count), 0; }, true);
        }
        stream.push(node.task);
        stream.push(
            [state = progress[index], done = next[index] + 1] { return state->mark(done), 0; },
            true);
      }
    }
  }
  for (size_t index = 1; index < lines_.size(); ++index) {
    const size_t count = lines_[index].nodes.size();
    main.push([state = progress[index], count] { return state->wait(count), 0; }, true);
    Stream* stream = lines_[index].replay;
    main.push([stream] { return stream->error(); });
  }
  return 0;
}

size_t Capture::tasks() const {
  std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const Line& line : lines_) total += line.nodes.size();
  return total;
}

std::string Capture::json() const {
  std::lock_guard lock(mutex_);
  std::string text = "{\"streams\": [";
  for (size_t index = 0; index < lines_.size(); ++index) {
    text += index ? ", [" : "[";
    for (size_t node = 0; node < lines_[index].nodes.size(); ++node) {
      text += (node ? ", \"" : "\"") + lines_[index].nodes[node].name + "\"";
    }
    text += "]";
  }
  return text + "]}\n";
}

}  // namespace cannemu

using namespace cannemu;

namespace {

// A graph's handle is the address of its capture, the same while it is recorded and after.
struct Graphs {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<Capture>> of;
};
Graphs& graphs() {
  static auto* all = new Graphs;
  return *all;
}

std::shared_ptr<Capture> graph(aclmdlRI model) {
  std::lock_guard lock(graphs().mutex);
  auto at = graphs().of.find(model);
  return at == graphs().of.end() ? nullptr : at->second;
}

thread_local aclmdlRICaptureMode mode_of_thread = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

}  // namespace

aclError aclmdlRICaptureBegin(aclrtStream handle, aclmdlRICaptureMode) {
  CANNEMU_CALL();
  Stream& stream = stream_of(handle);
  if (stream.capture) return fail(kCaptureError, "the stream is captured already");
  if (fault_now("capture-begin")) return fail(kCaptureError, "no capture can begin, on order");
  stream.capture = std::make_shared<Capture>(stream);
  return 0;
}

aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus* status,
                                aclmdlRI* model) {
  CANNEMU_CALL();
  Stream& stream = stream_of(handle);
  *status = !stream.capture           ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
            : stream.capture->valid() ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
                                      : ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
  if (model) *model = stream.capture.get();
  return 0;
}

aclError aclmdlRICaptureEnd(aclrtStream handle, aclmdlRI* model) {
  CANNEMU_CALL();
  Stream& stream = stream_of(handle);
  std::shared_ptr<Capture> capture = std::exchange(stream.capture, nullptr);
  *model = nullptr;
  if (!capture) return fail(kCaptureError, "the stream is not captured");
  if (int code = capture->end(stream)) return code;
  *model = capture.get();
  std::lock_guard lock(graphs().mutex);
  graphs().of[capture.get()] = std::move(capture);
  return 0;
}

aclError aclmdlRIExecuteAsync(aclmdlRI model, aclrtStream stream) {
  CANNEMU_CALL();
  auto capture = graph(model);
  return capture ? capture->replay(stream) : fail(kCaptureError, "there is no such graph");
}

aclError aclmdlRIDestroy(aclmdlRI model) {
  CANNEMU_CALL();
  std::lock_guard lock(graphs().mutex);
  graphs().of.erase(model);
  return 0;
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  CANNEMU_CALL();
  std::swap(*mode, mode_of_thread);
  return 0;
}

aclError aclmdlRIDebugPrint(aclmdlRI model) {
  CANNEMU_CALL();
  auto capture = graph(model);
  if (!capture) return fail(kCaptureError, "there is no such graph");
  std::fprintf(stderr, "[cannemu] graph of %zu tasks\n", capture->tasks());
  return 0;
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI model, const char* path, uint32_t) {
  CANNEMU_CALL();
  auto capture = graph(model);
  if (!capture) return fail(kCaptureError, "there is no such graph");
  std::FILE* file = std::fopen(path, "w");
  if (!file) return fail(107009, std::string("cannot open ") + path);
  std::fputs(capture->json().c_str(), file);
  std::fclose(file);
  return 0;
}
