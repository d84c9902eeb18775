// `titan report`: one self-contained HTML file about a run, readable without network on a desktop
// and a phone, in light and dark. Curves are drawn by Chart.js, which is embedded in the binary at
// build time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "observe/metrics_file.h"
#include "observe/run_record.h"

namespace titan::observe {

enum class Language { kEnglish, kChinese };

// Everything the page shows.
struct ReportInput {
  std::string folder;               // as shown
  std::string titan_version;        // of the binary that makes the report
  std::optional<RunRecord> record;  // run.json, when there is one
  MetricsHistory history;
  std::optional<std::string> generated;  // generated.txt, when there is one
};

// Reads metrics.jsonl and, where present, run.json and generated.txt of a run folder. Throws Error
// when the folder is no run folder or no step has been logged yet.
ReportInput read_run(const std::filesystem::path& run_folder);

// The page. Throws EnvironmentError when this binary was built without Chart.js.
std::string report_html(const ReportInput& input, Language language);

}  // namespace titan::observe
