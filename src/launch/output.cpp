#include "launch/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

namespace titan::launch {
namespace {

constexpr size_t kTailLines = 30;
constexpr size_t kTailLineBytes = 2000;
constexpr double kDrain_s = 1.0;  // for what somebody outside the ranks' groups still writes

// Writes all of it; false when nobody can read it any more or the disk is full (errno says).
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = write(fd, bytes.data(), bytes.size());
    if (size >= 0) {
      bytes.remove_prefix(static_cast<size_t>(size));
    } else if (errno == EAGAIN) {  // a terminal that another program has made non-blocking
      pollfd writable{fd, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string LineAssembler::add(std::string_view bytes) {
  const size_t end = bytes.rfind('\n');
  if (end == std::string_view::npos) {
    pending_ += bytes;
    return pending_.size() > kLongestLine ? finish() : std::string();
  }
  std::string whole = std::move(pending_);
  whole += bytes.substr(0, end + 1);
  pending_ = bytes.substr(end + 1);
  return whole;
}

std::string LineAssembler::finish() { return std::exchange(pending_, {}); }

std::string with_prefix(std::string_view text, std::string_view prefix, std::string_view mark) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (mark.empty() || !text.starts_with(mark)) out += prefix;
    out += text.substr(0, end);
    out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

void Tail::add(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool cut = line.size() > kTailLineBytes;
    if (cut) {
      line = line.substr(0, kTailLineBytes);
      line = line.substr(0, text::complete_utf8_prefix(line));
    }
    lines_.push_back(std::string(line) + (cut ? "…" : ""));
    if (lines_.size() > kTailLines) lines_.pop_front();
  }
}

struct Output::State {
  struct Stream {
    int fd = -1;  // -1: ended
    int terminal_fd = 1;
    size_t rank = 0;
    std::string prefix;
    LineAssembler assembler;
    Tail tail;
  };

  std::vector<RankOutput> ranks;
  std::vector<int> logs;        // -1: broken, said once
  std::vector<Stream> streams;  // two per rank: output, error
  bool terminal_works[3] = {true, true, true};
  int wake = -1;
  std::atomic<bool> finishing = false;
  std::mutex mutex;
  std::vector<std::string> said;  // under mutex
  std::thread thread;

  void run();
  bool read_some(Stream& stream);
  void deliver(Stream& stream, const std::string& text);
  void print(int fd, std::string_view text);
  void print_said();
};

// A closed terminal (`titan launch … | head`) ends the printing, not the run.
void Output::State::print(int fd, std::string_view text) {
  if (terminal_works[fd] && !write_all(fd, text)) terminal_works[fd] = false;
}

void Output::State::print_said() {
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(mutex);
    lines.swap(said);
  }
  for (const auto& line : lines) print(2, line + "\n");
}

void Output::State::deliver(Stream& stream, const std::string& text) {
  if (text.empty()) return;
  const RankOutput& rank = ranks[stream.rank];
  int& log = logs[stream.rank];
  stream.tail.add(text);
  if (rank.shown) print(stream.terminal_fd, with_prefix(text, stream.prefix, rank.mark));
  if (log < 0 || write_all(log, text)) return;
  print(2, fmt::format("titan launch: cannot write {}: {}; rank {} goes on without a log\n",
                       rank.log.string(), std::strerror(errno), stream.rank));
  close(log);
  log = -1;
}

// False when nothing was there.
bool Output::State::read_some(Stream& stream) {
  char buffer[65536];
  const ssize_t size = read(stream.fd, buffer, sizeof buffer);
  if (size > 0) {
    deliver(stream, stream.assembler.add({buffer, static_cast<size_t>(size)}));
    return true;
  }
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  std::string rest = stream.assembler.finish();
  if (!rest.empty()) rest += '\n';
  deliver(stream, rest);
  close(stream.fd);
  stream.fd = -1;
  return true;
}

void Output::State::run() {
  std::optional<Stopwatch> draining;
  for (;;) {
    // What was finished before the look into the pipes leaves nothing behind there.
    const bool last_look = finishing;
    std::vector<pollfd> waited{{wake, POLLIN, 0}};
    for (const auto& stream : streams) waited.push_back({stream.fd, POLLIN, 0});
    poll(waited.data(), waited.size(), last_look ? 0 : -1);
    uint64_t count = 0;
    if (waited[0].revents) [[maybe_unused]]
      const auto size = read(wake, &count, sizeof count);
    bool moved = false;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (waited[i + 1].revents) moved = read_some(streams[i]) || moved;
    }
    print_said();
    if (!last_look) continue;
    if (!draining) draining.emplace();
    if (!moved || draining->seconds() > kDrain_s) break;
  }
  for (auto& stream : streams) {
    std::string rest = stream.assembler.finish();
    if (!rest.empty()) rest += '\n';
    deliver(stream, rest);
  }
}

Output::Output(std::vector<RankOutput> ranks) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.ranks = std::move(ranks);
  for (size_t rank = 0; rank < state.ranks.size(); ++rank) {
    const RankOutput& one = state.ranks[rank];
    const int log = open(one.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log < 0) {
      throw EnvironmentError("[launch] cannot write {}: {} — give another --log-dir",
                             one.log.string(), std::strerror(errno));
    }
    state.logs.push_back(log);
    state.streams.push_back({-1, 1, rank, one.out_prefix, {}, {}});
    state.streams.push_back({-1, 2, rank, one.err_prefix, {}, {}});
  }
  state.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (state.wake < 0)
    throw EnvironmentError("[launch] cannot make an event: {}", std::strerror(errno));
}

void Output::start(const std::vector<Pipes>& pipes) {
  State& state = *state_;
  TITAN_CHECK(pipes.size() == state.ranks.size(), "{} pipes of {} ranks", pipes.size(),
              state.ranks.size());
  for (size_t rank = 0; rank < pipes.size(); ++rank) {
    state.streams[2 * rank].fd = pipes[rank].out_fd;
    state.streams[2 * rank + 1].fd = pipes[rank].err_fd;
  }
  state.thread = std::thread([&state] { state.run(); });
}

Output::~Output() {
  finish();
  for (const auto& stream : state_->streams) {
    if (stream.fd >= 0) close(stream.fd);
  }
  for (const int log : state_->logs) {
    if (log >= 0) close(log);
  }
  close(state_->wake);
}

void Output::say(std::string line) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->said.push_back(std::move(line));
  }
  const uint64_t one = 1;
  [[maybe_unused]] const auto size = write(state_->wake, &one, sizeof one);
}

void Output::finish() {
  if (!state_->thread.joinable()) return;
  state_->finishing = true;
  const uint64_t one = 1;
  [[maybe_unused]] const auto size = write(state_->wake, &one, sizeof one);
  state_->thread.join();
}

Output::LastLines Output::last_lines(int64_t rank) const {
  const auto& out = state_->streams[static_cast<size_t>(2 * rank)];
  const auto& err = state_->streams[static_cast<size_t>(2 * rank + 1)];
  if (!err.tail.lines().empty()) return {err.tail.lines(), true};
  return {out.tail.lines(), false};
}

}  // namespace titan::launch
