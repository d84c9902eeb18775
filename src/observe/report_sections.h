// The parts of the report that need no script: tiles, notes, sample text, summary table, config.
// Each returns HTML with everything from outside escaped; empty when there is nothing to show.
#pragma once

#include <string>

#include "observe/report.h"
#include "observe/report_data.h"
#include "observe/report_text.h"

namespace titan::observe {

std::string subtitle_html(const ReportInput& input);
std::string notes_html(const ReportInput& input, const RunTotals& totals, const ReportText& words);
std::string tiles_html(const ReportInput& input, const RunTotals& totals, const ReportText& words);
std::string sample_html(const ReportInput& input, const ReportText& words);
std::string summary_html(const ReportInput& input, const RunTotals& totals,
                         const ReportText& words);
std::string config_html(const ReportInput& input, const ReportText& words);

}  // namespace titan::observe
