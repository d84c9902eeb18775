// Opens the emulated NPU before the tests, and leaves without destroying static objects:
// torch_npu's expect an interpreter that has closed it.
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  at::globalContext().lazyInitDevice(c10::kPrivateUse1);
  const int status = RUN_ALL_TESTS();
  std::fflush(nullptr);
  _exit(status);
}
