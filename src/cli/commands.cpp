#include "cli/command.h"

namespace titan::cli {
namespace {

constexpr Command kCommands[] = {
    {"version", "print the versions of titan, libtorch and the compiler, and the devices built in", run_version},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace titan::cli
