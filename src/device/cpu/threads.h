// CPU threads of libtorch: how many, and whether idle ones spin.
//
// libtorch's OpenMP threads spin for some milliseconds when they run out of work. On cores that
// nobody else uses that is the fastest way to wait; on shared cores the spinning takes the core
// from the thread that is waited for, and training runs 2 to 8 times slower. SpinControl switches
// between the two while the process runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace titan::device {

struct ThreadChoice {
  int64_t count = 1;
  std::string reason;  // "2 cores", "OMP_NUM_THREADS", "device.threads", …
};

// The first that is set of: device.threads, TITAN_THREADS, OMP_NUM_THREADS; else one thread for
// each core that the affinity mask and the container's CPU quota leave, shared fairly among
// LOCAL_WORLD_SIZE ranks. Throws Error for a value below 1.
ThreadChoice choose_threads(std::optional<int64_t> configured);

// Sets libtorch's intra-op threads for the whole process. Call before the first parallel operation.
void use_threads(const ThreadChoice& choice);

// Watches how long this process's threads wait for a core, and makes idle OpenMP threads sleep at
// once while others compete for the cores. Results do not depend on it, only speed. Does nothing
// when OMP_WAIT_POLICY or GOMP_SPINCOUNT is set, or when libtorch uses another OpenMP library than
// libgomp.
class SpinControl {
 public:
  SpinControl();
  ~SpinControl();
  SpinControl(const SpinControl&) = delete;
  SpinControl& operator=(const SpinControl&) = delete;

  // True while idle threads sleep instead of spinning. Any thread.
  bool sleeping() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace titan::device
