// `titan report`: a run folder becomes one HTML file.
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/options.h"
#include "observe/report.h"

namespace titan::cli {
namespace {

struct ReportCommand {
  std::string run_folder;
  std::string output;  // empty: report.html in the run folder
  std::string language = "en";
};

// nullopt when --help was asked for and printed.
std::optional<ReportCommand> parse_report(Arguments arguments) {
  ReportCommand command;
  CLI::App app(
      "Makes one self-contained HTML file about a run: curves, summary, generated text and config. "
      "It needs no "
      "network, and works while the run goes on.",
      "titan report");
  app.add_option("run_folder", command.run_folder, "the folder training wrote to (job.dump_folder)")
      ->required();
  app.add_option("-o,--output", command.output,
                 "the file to write (default: report.html in the run folder)");
  app.add_option("-l,--language", command.language, "en or zh")->capture_default_str();
  if (!parse_options(app, arguments)) return std::nullopt;
  if (command.language != "en" && command.language != "zh") {
    throw Error("[cli] titan report: --language '{}' is not spoken — use en or zh",
                command.language);
  }
  return command;
}

}  // namespace

int run_report(Arguments arguments) {
  const auto command = parse_report(arguments);
  if (!command) return 0;
  const std::filesystem::path folder = command->run_folder;
  auto input = observe::read_run(folder);
  input.titan_version = TITAN_VERSION;
  const auto language =
      command->language == "zh" ? observe::Language::kChinese : observe::Language::kEnglish;
  const std::string html = observe::report_html(input, language);
  const std::filesystem::path output =
      command->output.empty() ? folder / "report.html" : std::filesystem::path(command->output);
  files::write_atomically(output, html);
  std::printf("report: %s (%s, %zu logged steps)\n", output.c_str(),
              text::bytes(static_cast<int64_t>(html.size())).c_str(), input.history.rows.size());
  return 0;
}

}  // namespace titan::cli
