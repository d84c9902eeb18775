#include "base/clock.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>

namespace titan {

double seconds_since_process_start() {
  // Field 22 of /proc/self/stat: start time in clock ticks since boot; fields are counted after the
  // ")" of the name.
  std::ifstream file("/proc/self/stat");
  std::stringstream content;
  content << file.rdbuf();
  const std::string line = content.str();
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double start_ticks = 0;
  fields >> start_ticks;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string timestamp_for_folder() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M", &local);
  return text;
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace titan
