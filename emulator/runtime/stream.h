// Streams and events. A stream is a queue of tasks with one thread (or runs a task at once,
// CANNEMU_ASYNC=0); an event is a count of records asked for and done. A task that fails makes its
// stream skip what follows, except the records of events, and every later wait for the stream gives
// the task's error.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace cannemu {

class Capture;

using Task = std::function<int()>;  // an error code, 0 for success

class Stream {
 public:
  explicit Stream(int device);
  int id() const { return id_; }
  int device() const { return device_; }
  // `always` tasks run even after a failed one.
  void push(Task task, bool always = false);
  int wait();  // until all that was pushed is done; the stream's error
  bool idle();
  int error();
  void stop();  // the thread ends after the last task

  std::shared_ptr<Capture> capture;  // while the stream's tasks are recorded; see graph/capture.h

 private:
  void run();

  const int id_, device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Entry {
    Task task;
    bool always;
  };
  std::deque<Entry> queue_;
  uint64_t pushed_ = 0, done_ = 0;
  int error_ = 0;
  bool stopping_ = false, started_ = false;
};

// Shared by an event and the tasks that record or await it, so that an event can be destroyed at
// any time.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t asked = 0, done = 0;
  double milliseconds = 0;  // time of the last record done
  void mark(uint64_t record);
  void wait(uint64_t record);
};

// The stream behind a handle; null is the default stream of the current device.
Stream& stream_of(void* handle);

// Runs the task on the stream: recorded into a graph while the stream is captured, else queued,
// else at once.
int launch(void* stream, const char* name, Task task);

double now_milliseconds();

}  // namespace cannemu
