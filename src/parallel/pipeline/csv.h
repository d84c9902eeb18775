// Schedules as CSV files, in the form TorchTitan and PyTorch read and write: a row per rank, a
// cell per action, `<stage><F|I|W|B><micro-batch>`; empty cells are bubbles and mean nothing here.
// A cell of two actions that run overlapped, "(0F4;7B1)OVERLAP_F_B", is read as one after the
// other.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "parallel/pipeline/schedule.h"

namespace titan::parallel::pipeline {

// `file` names the text in messages. The number of ranks is the number of rows (empty ones at the
// end do not count), that of stages and micro-batches follows from the largest named. Throws Error
// with file, row, column and cell (rows and columns from 1) for each bad cell, for actions that are
// missing, double or in the wrong order, and for rows that would wait for each other for ever.
Schedule parse_csv(std::string_view text, const std::string& file);
Schedule read_csv(const std::filesystem::path& path);

// The compute lists without bubbles; parse_csv() makes the same lists of it.
std::string to_csv(const Schedule& compute);

}  // namespace titan::parallel::pipeline
