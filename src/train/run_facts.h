// What a run is, as plain facts: for the start-up lines, the run record and the report.
#pragma once

#include "observe/run_record.h"
#include "observe/summary.h"
#include "train/job.h"
#include "train/loop.h"

namespace titan::train {

observe::RunRecord run_record(Job& job, const RunContext& context);
observe::StartupFacts startup_facts(const Job& job, const observe::RunRecord& record);

}  // namespace titan::train
