// The timeline of a schedule as a picture: text for a terminal, SVG for a browser.
#pragma once

#include <cstdint>
#include <string>

#include "parallel/pipeline/simulate.h"

namespace titan::parallel::pipeline {

// A row per rank, time to the right, at most `columns` wide (at least 40). Each computation is
// labelled ("3B0" or, with one stage per rank, "B0") where that fits; otherwise a unit of time, the
// shortest computation, is one letter, small for odd micro-batches. What does not fit even so is
// cut, and a last line says so. '.' is idling.
std::string draw_text(const Schedule& schedule, const Report& report, int64_t columns = 120);

// One SVG document without references to other files, readable on light and on dark ground.
// Colours say the kind, numbers the micro-batch and (if a rank has several) the stage; a pointer on
// a box shows its times.
std::string draw_svg(const Schedule& schedule, const Report& report);

}  // namespace titan::parallel::pipeline
