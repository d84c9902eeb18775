// What the ranks print, brought to their log files and to the terminal by one thread, line by line
// as it comes. The bytes are not looked at: invalid UTF-8 passes as it is.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace titan::launch {

// The whole lines of a stream. A line is held until it ends, or the stream ends, or it is longer
// than kLongestLine; then its parts are handed on as they come.
class LineAssembler {
 public:
  static constexpr size_t kLongestLine = size_t{16} << 20;

  // The text that became whole with `bytes`: lines that end in '\n', or a part of a long one.
  std::string add(std::string_view bytes);
  // The rest at the end of the stream.
  std::string finish();

 private:
  std::string pending_;
};

// `prefix` before each line of `text` that does not begin with `mark`, the rank's own way of saying
// the same, and '\n' after the last. An empty mark stands nowhere.
std::string with_prefix(std::string_view text, std::string_view prefix, std::string_view mark);

// The last lines of a stream, each cut to a length that a terminal can bear.
class Tail {
 public:
  void add(std::string_view text);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::deque<std::string> lines_;
};

struct RankOutput {
  std::filesystem::path log;           // appended to
  bool shown = false;                  // on the terminal too
  std::string mark;                    // "[rank0]:"
  std::string out_prefix, err_prefix;  // the mark, perhaps in colour, or nothing
};

class Output {
 public:
  // Opens the logs. Throws EnvironmentError for one that cannot be opened.
  explicit Output(std::vector<RankOutput> ranks);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Takes over the read ends of the ranks' pipes, which do not block, and starts the thread.
  struct Pipes {
    int out_fd = -1, err_fd = -1;
  };
  void start(const std::vector<Pipes>& pipes);

  // Prints a line of the launcher's own on standard error, between the ranks' lines, once the
  // thread runs. Never waits for the terminal.
  void say(std::string line);

  // Brings what is left in the pipes, waits for the thread, and ends it. Call when all ranks ended.
  void finish();

  // After finish(): the last lines of a rank's standard error, or, when it has none, of its
  // standard output; and which of them it is.
  struct LastLines {
    std::deque<std::string> lines;
    bool from_stderr = true;
  };
  LastLines last_lines(int64_t rank) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace titan::launch
