// The process that outlives a killed launcher for as long as it takes to end the ranks' process
// groups. A rank itself asks the kernel to die with the launcher (see child.cpp), but the processes
// a rank has started would live on.
#pragma once

#include <sys/types.h>

namespace titan::launch {

class Guardian {
 public:
  // Forks. Before this process starts a thread or opens what a child must not keep open.
  Guardian();
  // Tells the guardian that all is well and waits for its end.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // `group` is killed if this process ends without forget(group).
  void watch(pid_t group);
  void forget(pid_t group);

 private:
  void tell(pid_t message);

  int pipe_ = -1;
  pid_t pid_ = -1;
};

}  // namespace titan::launch
