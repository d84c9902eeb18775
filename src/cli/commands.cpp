#include "cli/command.h"

namespace titan::cli {
namespace {

constexpr Command kCommands[] = {
    {"train", "train a model: titan train CONFIG.toml [--section.key value …]", run_train},
    {"launch", "run a command as several processes: titan launch --nproc N -- train …", run_launch},
    {"generate", "write text with a trained model", run_generate},
    {"config", "show, explain or check a configuration", run_config},
    {"checkpoint", "list, check, import and export checkpoints", run_checkpoint},
    {"doctor", "show what this build and this machine can do", run_doctor},
    {"data", "look into training data, print its documents, measure the reading", run_data},
    {"tokenizer", "train, try and inspect tokenizers", run_tokenizer},
    {"report", "make one HTML file about a run: curves, summary, generated text", run_report},
    {"comm-trace", "compare the ranks' last collectives after a job hung or failed",
     run_comm_trace},
    {"schedule", "draw a pipeline schedule: idle time, memory, order of each rank", run_schedule},
    {"selfcheck", "train a small copy of a config in its layout and as one process, and compare",
     run_selfcheck},
    {"emulate-cann", "run a command on emulated Ascend chips: titan emulate-cann -- COMMAND…",
     run_emulate_cann},
    {"version", "print the versions of titan, libtorch and the compiler, and the devices built in",
     run_version},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace titan::cli
