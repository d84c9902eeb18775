// Prints the schemas that titan calls ("calls …", "other …") and those of all operators that are
// registered once the real libtorch_npu.so is loaded ("live …"): what schemas_test.py holds the
// reading of the library's texts against.
#include <ATen/core/dispatch/Dispatcher.h>
#include <unistd.h>

#include <iostream>

#include "ops/npu_ops.h"

int main() {
  for (const auto& schema : titan::ops::npu::npu_schemas()) {
    std::cout << "calls " << schema.text << '\n';
    if (schema.other) std::cout << "other " << schema.other << '\n';
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (const auto found = dispatcher.findSchema(name)) {
      std::cout << "live " << found->schema() << '\n';
    }
  }
  std::cout.flush();
  _exit(0);
}
