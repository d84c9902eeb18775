#include "runtime/stream.h"

#include <acl/acl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "graph/capture.h"
#include "runtime/device.h"
#include "runtime/fault.h"
#include "runtime/report.h"
#include "settings.h"

namespace cannemu {
namespace {

std::atomic<int> next_id{1};

struct Registry {
  std::mutex mutex;
  std::vector<Stream*> all;
  std::map<int, Stream*> default_of;  // device
};

Registry& registry() {
  static auto* streams = new Registry;
  return *streams;
}

int lost() { return fail(507901, "the device is lost (CANNEMU_FAULT)"); }

}  // namespace

double now_milliseconds() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Stream::Stream(int device) : id_(next_id++), device_(device) {}

void Stream::push(Task task, bool always) {
  if (!settings().asynchronous) {
    if (error_ && !always) return;
    if (int code = task(); code && !error_) error_ = code;
    return;
  }
  std::lock_guard lock(mutex_);
  queue_.push_back({std::move(task), always});
  ++pushed_;
  if (!started_) {
    started_ = true;
    std::thread([this] { run(); }).detach();
  }
  changed_.notify_all();
}

void Stream::run() {
  set_current_device(device_);
  const int jitter = settings().jitter_us;
  unsigned seed = static_cast<unsigned>(id_) * 7919;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) return;
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    const bool skip = error_ != 0 && !entry.always;
    lock.unlock();
    if (jitter > 0) std::this_thread::sleep_for(std::chrono::microseconds(rand_r(&seed) % jitter));
    const int code = skip ? 0 : entry.task();
    entry.task = nullptr;
    lock.lock();
    if (code && !error_) error_ = code;
    ++done_;
    changed_.notify_all();
  }
}

int Stream::wait() {
  std::unique_lock lock(mutex_);
  const uint64_t until = pushed_;
  changed_.wait(lock, [&] { return done_ >= until; });
  return error_;
}

bool Stream::idle() {
  std::lock_guard lock(mutex_);
  return done_ == pushed_;
}

int Stream::error() {
  std::lock_guard lock(mutex_);
  return error_;
}

void Stream::stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void EventState::mark(uint64_t record) {
  std::lock_guard lock(mutex);
  done = std::max(done, record);
  milliseconds = now_milliseconds();
  changed.notify_all();
}

void EventState::wait(uint64_t record) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done >= record; });
}

Stream& stream_of(void* handle) {
  if (handle) return *static_cast<Stream*>(handle);
  Registry& streams = registry();
  std::lock_guard lock(streams.mutex);
  Stream*& stream = streams.default_of[current_device()];
  if (!stream) {
    stream = new Stream(current_device());
    streams.all.push_back(stream);
  }
  return *stream;
}

int launch(void* handle, const char* name, Task task) {
  if (fault_now("device-lost")) lose_device();
  if (device_lost()) return lost();
  Stream& stream = stream_of(handle);
  if (stream.capture) {
    if (fault_now("capture-refuse", name)) {
      stream.capture->invalidate();
      return fail(kCaptureError, std::string(name) + " cannot be captured, on order");
    }
    stream.capture->add(stream, name, std::move(task));
    return 0;
  }
  stream.push(std::move(task));
  return settings().asynchronous ? 0 : stream.error();
}

}  // namespace cannemu

using namespace cannemu;

namespace {

struct Event {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
  std::shared_ptr<Capture> capture;  // of the stream that recorded it last
  Capture::Clock clock;              // what the record comes after
};

aclError create(aclrtStream* handle) {
  auto* stream = new Stream(current_device());
  std::lock_guard lock(registry().mutex);
  registry().all.push_back(stream);
  *handle = stream;
  return 0;
}

aclError destroy(aclrtStream handle) {
  if (!handle) return 0;
  auto* stream = static_cast<Stream*>(handle);
  stream->wait();
  {
    std::lock_guard lock(registry().mutex);
    std::erase(registry().all, stream);
  }
  stream->stop();  // the object stays: its thread may still be leaving
  return 0;
}

aclError synchronize(aclrtStream handle) {
  if (device_lost()) return lost();
  Stream& stream = stream_of(handle);
  if (stream.capture) {
    stream.capture->invalidate();
    return fail(kCaptureError, "a stream was awaited while it was captured");
  }
  return stream.wait();
}

aclError synchronize_device() {
  if (device_lost()) return lost();
  std::vector<Stream*> streams;
  {
    std::lock_guard lock(registry().mutex);
    streams = registry().all;
  }
  int error = 0;
  for (Stream* stream : streams) {
    if (stream->device() != current_device()) continue;
    if (stream->capture) {
      stream->capture->invalidate();
      return fail(kCaptureError, "the device was awaited while a stream was captured");
    }
    if (int code = stream->wait()) error = code;
  }
  return error;
}

aclError create_event(aclrtEvent* event) {
  *event = new Event;
  return 0;
}

bool recorded(aclrtEvent event) {
  EventState& state = *static_cast<Event*>(event)->state;
  std::lock_guard lock(state.mutex);
  return state.done >= state.asked;
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream) {
  CANNEMU_CALL();
  return create(stream);
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  CANNEMU_CALL();
  return create(stream);
}

aclError aclrtDestroyStream(aclrtStream stream) {
  CANNEMU_CALL();
  return destroy(stream);
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  CANNEMU_CALL();
  return destroy(stream);
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  CANNEMU_CALL();
  return synchronize(stream);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t) {
  CANNEMU_CALL();
  return synchronize(stream);
}

aclError aclrtSynchronizeDevice() {
  CANNEMU_CALL();
  return synchronize_device();
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t) {
  CANNEMU_CALL();
  return synchronize_device();
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
  CANNEMU_CALL();
  Stream& stream = stream_of(handle);
  *status = stream.idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return stream.error();
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* id) {
  CANNEMU_CALL();
  *id = stream_of(stream).id();
  return 0;
}

aclError aclrtSetStreamFailureMode(aclrtStream, uint64_t) {
  CANNEMU_CALL();
  return 0;
}

aclError aclrtSetStreamAttribute(aclrtStream, aclrtStreamAttr, aclrtStreamAttrValue*) {
  CANNEMU_CALL();
  return 0;
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream, uint32_t) {
  CANNEMU_CALL();
  return 0;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream, uint32_t* on) {
  CANNEMU_CALL();
  *on = 1;
  return 0;
}

aclError aclrtCreateEvent(aclrtEvent* event) {
  CANNEMU_CALL();
  return create_event(event);
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) {
  CANNEMU_CALL();
  return create_event(event);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) {
  CANNEMU_CALL();
  return create_event(event);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  CANNEMU_CALL();
  delete static_cast<Event*>(event);
  return 0;
}

aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream_handle) {
  CANNEMU_CALL();
  if (device_lost()) return lost();
  auto* event = static_cast<Event*>(handle);
  Stream& stream = stream_of(stream_handle);
  event->capture = stream.capture;
  if (stream.capture) {
    event->clock = stream.capture->record(stream);
    return 0;
  }
  auto state = event->state;
  uint64_t record;
  {
    std::lock_guard lock(state->mutex);
    record = ++state->asked;
  }
  stream.push(
      [state, record] {
        state->mark(record);
        return 0;
      },
      true);
  return 0;
}

aclError aclrtStreamWaitEvent(aclrtStream stream_handle, aclrtEvent handle) {
  CANNEMU_CALL();
  if (device_lost()) return lost();
  auto* event = static_cast<Event*>(handle);
  Stream& stream = stream_of(stream_handle);
  if (event->capture && event->capture->active()) return event->capture->wait(stream, event->clock);
  if (stream.capture) {
    // Work from before the capture must be done by the time the graph runs; it is not part of it.
    if (recorded(handle)) return 0;
    return fail(kCaptureError, "a captured stream waits for an event from outside of the capture");
  }
  auto state = event->state;
  uint64_t record;
  {
    std::lock_guard lock(state->mutex);
    record = state->asked;
  }
  stream.push(
      [state, record] {
        state->wait(record);
        return 0;
      },
      true);
  return 0;
}

aclError aclrtResetEvent(aclrtEvent, aclrtStream) {
  CANNEMU_CALL();
  return 0;
}

aclError aclrtSynchronizeEvent(aclrtEvent handle) {
  CANNEMU_CALL();
  if (device_lost()) return lost();
  auto state = static_cast<Event*>(handle)->state;
  uint64_t record;
  {
    std::lock_guard lock(state->mutex);
    record = state->asked;
  }
  state->wait(record);
  return 0;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  CANNEMU_CALL();
  *status =
      recorded(event) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return 0;
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  CANNEMU_CALL();
  *status = recorded(event) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return 0;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  CANNEMU_CALL();
  *status = recorded(event) ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return 0;
}

aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent start, aclrtEvent end) {
  CANNEMU_CALL();
  if (int code = aclrtSynchronizeEvent(start)) return code;
  if (int code = aclrtSynchronizeEvent(end)) return code;
  *milliseconds = static_cast<float>(static_cast<Event*>(end)->state->milliseconds -
                                     static_cast<Event*>(start)->state->milliseconds);
  return 0;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* microseconds) {
  CANNEMU_CALL();
  *microseconds = static_cast<uint64_t>(static_cast<Event*>(event)->state->milliseconds * 1000);
  return 0;
}

aclError aclrtLaunchCallback(aclrtCallback function, void* argument, aclrtCallbackBlockType,
                             aclrtStream stream) {
  CANNEMU_CALL();
  return launch(stream, "aclrtLaunchCallback", [=] {
    function(argument);
    return 0;
  });
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc function, void* argument) {
  CANNEMU_CALL();
  return launch(stream, "aclrtLaunchHostFunc", [=] {
    function(argument);
    return 0;
  });
}

// Callbacks run in the stream's thread; the thread that asks for reports only has to be kept from
// spinning.
aclError aclrtProcessReport(int32_t timeout_ms) {
  CANNEMU_CALL();
  std::this_thread::sleep_for(std::chrono::milliseconds(std::clamp(timeout_ms, 1, 100)));
  return 0;
}

aclError aclrtSubscribeReport(uint64_t, aclrtStream) {
  CANNEMU_CALL();
  return 0;
}

aclError aclrtUnSubscribeReport(uint64_t, aclrtStream) {
  CANNEMU_CALL();
  return 0;
}
