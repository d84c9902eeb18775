// A sub-command of the binary: a row in commands.cpp's table and one file that implements it.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace titan::cli {

using Arguments = std::span<const std::string>;  // the words after the sub-command's name

struct Command {
  const char* name;
  const char* summary;              // one line for `titan --help`
  int (*run)(Arguments arguments);  // returns the exit code; throws titan::Error for bad input
};

std::span<const Command> commands();

// The words of `titan train` with its short forms written out.
std::vector<std::string> train_words(Arguments words);

int run_checkpoint(Arguments arguments);
int run_comm_trace(Arguments arguments);
int run_config(Arguments arguments);
int run_data(Arguments arguments);
int run_doctor(Arguments arguments);
int run_emulate_cann(Arguments arguments);
int run_generate(Arguments arguments);
int run_launch(Arguments arguments);
int run_tokenizer(Arguments arguments);
int run_report(Arguments arguments);
int run_selfcheck(Arguments arguments);
int run_schedule(Arguments arguments);
int run_train(Arguments arguments);
int run_version(Arguments arguments);

}  // namespace titan::cli
