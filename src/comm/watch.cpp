#include "comm/watch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <regex>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

namespace titan::comm {
namespace {

// A terminate handler sees nothing but globals.
std::atomic<Watch*> watching{nullptr};
std::atomic<std::terminate_handler> handler_before{nullptr};
std::atomic_flag ending = ATOMIC_FLAG_INIT;

std::string text_of_exception() {
  try {
    if (const auto current = std::current_exception()) std::rethrow_exception(current);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
  }
  return "an unknown exception";
}

[[noreturn]] void end_with_record() {
  // Every group has a thread that may give up: the first one speaks for all.
  if (ending.test_and_set()) {
    while (true) pause();
  }
  if (Watch* watch = watching.load()) {
    if (const auto words = watch->last_words(text_of_exception())) {
      std::fflush(stdout);
      std::fprintf(stderr, "titan: %s\n", words->c_str());
      std::fflush(nullptr);
      _exit(static_cast<int>(ExitCode::kEnvironment));
    }
  }
  if (const auto before = handler_before.load()) before();
  std::abort();
}

}  // namespace

std::optional<TimedOut> read_timed_out(const std::string& text) {
  static const std::regex kPattern(R"(SeqNum=(\d+)\D[\s\S]*?ran for (\d+) milliseconds)");
  std::smatch parts;
  if (!std::regex_search(text, parts, kPattern)) return std::nullopt;
  return TimedOut{.sequence = std::stoll(parts[1]), .ran_s = std::stod(parts[2]) / 1000};
}

Watch::Watch(std::shared_ptr<RankContext> context, std::filesystem::path file, int64_t ranks,
             double timeout_s)
    : context_(std::move(context)), file_(std::move(file)), ranks_(ranks), timeout_s_(timeout_s) {
  TITAN_CHECK(watching.exchange(this) == nullptr, "one watch of collectives in a process");
  handler_before = std::set_terminate(end_with_record);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const double pause_s = std::clamp(timeout_s_ / 20, 0.05, 1.0);
      wake_.wait_for(lock, stop, std::chrono::duration<double>(pause_s), [] { return false; });
      if (!stop.stop_requested()) look();
    }
  });
}

Watch::~Watch() {
  thread_.request_stop();
  thread_.join();
  std::set_terminate(handler_before.exchange(nullptr));
  watching = nullptr;
  std::error_code none;
  if (written_for_ >= 0 && !failed_) std::filesystem::remove(file_, none);
}

void Watch::set_timeout(double seconds) {
  const std::lock_guard lock(mutex_);
  timeout_s_ = seconds;
}

// REQUIRES mutex_.
void Watch::look() {
  const double last = context_->recorder.last_event();
  if (failed_ || last <= 0) return;
  std::error_code none;
  if (written_for_ >= 0 && written_for_ != last) {
    std::filesystem::remove(file_, none);
    written_for_ = -1;
  }
  if (written_for_ >= 0 || unix_time() - last < timeout_s_ / 2) return;
  written_for_ = last;
  try {
    context_->recorder.write(file_, context_->rank, ranks_);
  } catch (const std::exception&) {
    // Written again, and said, by who finds the failure itself.
  }
}

void Watch::write() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  context_->recorder.write(file_, context_->rank, ranks_);
}

std::optional<std::string> Watch::last_words(const std::string& text) {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  const auto timed_out = read_timed_out(text);
  std::optional<Recorder::Found> found;
  if (timed_out)
    found = context_->recorder.find(timed_out->sequence, unix_time() - timed_out->ran_s);
  const int64_t rank = context_->rank;
  std::string record =
      fmt::format("`titan comm-trace {}` compares the ranks", file_.parent_path().string());
  try {
    context_->recorder.write(file_, rank, ranks_, found);
  } catch (const std::exception& error) {
    record = fmt::format("no record: {}", error.what());
  }
  if (!timed_out) return std::nullopt;
  if (!found) {
    return fmt::format(
        "rank {0}: [comm] rank {0}: a collective did not end within {1:.1f} s: {2} — {3}", rank,
        timed_out->ran_s, text.substr(0, text.find('\n')), record);
  }
  std::vector<std::string> ranks;
  for (const int64_t member : found->ranks) ranks.push_back(std::to_string(member));
  return fmt::format(
      "rank {0}: [comm] rank {0}, step {1}, {2}: {3} over axis {4} ({5} ranks) failed: number {6} "
      "of "
      "this axis, among ranks {7}, did not end within {8:.1f} s — a rank did not come, or a device "
      "or "
      "the network between them hangs; {9}",
      rank, found->step, found->phase, found->collective, found->axis, found->ranks.size(),
      found->number, text::listed(ranks, 16), timed_out->ran_s, record);
}

}  // namespace titan::comm
