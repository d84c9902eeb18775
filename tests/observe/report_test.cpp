#include "observe/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "observe/html.h"
#include "observe/report_data.h"
#include "observe/report_text.h"
#include "observe/temp_folder.h"

namespace titan::observe {
namespace {

using testing::HasSubstr;
using testing::Not;

StepMetrics row_of(int64_t step, double loss) {
  StepMetrics m;
  m.step = step;
  m.loss = loss;
  m.lr = 1e-3;
  m.end_to_end_s = 0.1;
  m.tokens_per_second = 1000;
  m.mfu = 10;
  m.data_wait_s = 0.01;
  m.memory_gib = 0.5;
  m.time_s = 0.1 * static_cast<double>(step);
  m.tokens_seen = 100 * step;
  return m;
}

StepMetrics validation_of(int64_t step, double loss) {
  StepMetrics m;
  m.step = step;
  m.val_loss = loss;
  m.time_s = 0.1 * static_cast<double>(step);
  return m;
}

TEST(Html, EscapesWhatCouldBecomeMarkup) {
  EXPECT_EQ(escape_html("a<b>&\"'\x01\n\xFF"), "a&lt;b&gt;&amp;&quot;&#39;\n\xEF\xBF\xBD");
  EXPECT_EQ(escape_json("{\"a\":\"</script><!--\"}"), "{\"a\":\"\\u003c/script>\\u003c!--\"}");
  EXPECT_EQ(nlohmann::json::parse(escape_json("{\"a\":\"</script>\"}"))["a"], "</script>");
}

TEST(Html, FillsPlacesOnceAndMissesNone) {
  EXPECT_EQ(fill_template("<{{a}}|{{b}}>", {{"a", "{{b}}"}, {"b", "2"}}), "<{{b}}|2>");
  EXPECT_THROW(fill_template("{{c}}", {{"a", "1"}}), InternalError);
}

TEST(RunTotals, AreMeansOverTheStepsThatRowsStandFor) {
  ReportInput input;
  input.history.rows = {row_of(1, 8), row_of(10, 6), row_of(30, 4)};
  input.history.rows[0].tokens_per_second = 1;  // the first row pays for warming up
  input.history.rows[1].tokens_per_second = 1000;
  input.history.rows[2].tokens_per_second = 2000;
  const RunTotals totals = run_totals(input);
  // 9 steps of 0.1 s at 1000 and 20 at 2000 tokens/s.
  EXPECT_NEAR(totals.average_tokens_per_second, (9 * 1000.0 + 20 * 2000.0) / 29, 1e-9);
  EXPECT_NEAR(totals.average_mfu, 10, 1e-9);
  EXPECT_NEAR(totals.data_wait_percent, 10, 1e-9);
  EXPECT_EQ(totals.steps, 30);
  EXPECT_EQ(totals.tokens_seen, 3000);
  EXPECT_EQ(totals.loss, 4);
  EXPECT_DOUBLE_EQ(totals.duration_s, 3.0);
  EXPECT_DOUBLE_EQ(totals.peak_memory_gib, 0.5);
  EXPECT_EQ(totals.val_loss, std::nullopt);
  EXPECT_EQ(totals.first_bad_step, std::nullopt);
}

TEST(RunTotals, TakeTheRecordOfAnEndedRunButNotOfARunningOne) {
  ReportInput input;
  input.history.rows = {row_of(1, 8), validation_of(2, 7), row_of(10, 6), validation_of(10, 5)};
  input.record = RunRecord{};
  input.record->average_tokens_per_second = 777;
  input.record->training_s = 60;
  input.record->last_step = 12;
  input.record->val_loss = 4.5;
  EXPECT_EQ(run_totals(input).average_tokens_per_second, 1000);
  EXPECT_EQ(run_totals(input).val_loss, 5);
  EXPECT_EQ(run_totals(input).first_val_loss, 7);
  input.record->status = RunStatus::kFinished;
  EXPECT_EQ(run_totals(input).average_tokens_per_second, 777);
  EXPECT_EQ(run_totals(input).duration_s, 60);
  EXPECT_EQ(run_totals(input).steps, 12);
  EXPECT_EQ(run_totals(input).val_loss, 4.5);
  input.record->sessions = 2;
  EXPECT_EQ(run_totals(input).average_tokens_per_second, 1000);
  input.record->peak_memory = int64_t{1} << 28;
  EXPECT_DOUBLE_EQ(run_totals(input).peak_memory_gib, 0.5);
  input.record->peak_memory = int64_t{1} << 30;
  EXPECT_DOUBLE_EQ(run_totals(input).peak_memory_gib, 1.0);
}

TEST(RunTotals, FindTheFirstLossThatIsNoNumber) {
  ReportInput input;
  input.history.rows = {row_of(1, 8), validation_of(5, 7), row_of(10, kUnknown),
                        row_of(20, kUnknown)};
  EXPECT_EQ(run_totals(input).first_bad_step, 10);
}

TEST(ThinRows, KeepsEndsSpikesAndValidations) {
  std::vector<StepMetrics> rows;
  for (int64_t step = 1; step <= 10000; ++step)
    rows.push_back(row_of(step, step == 4321 ? 99 : step == 777 ? -5 : 3));
  rows[6001].val_loss = 2.5;
  const auto thinned = thin_rows(rows, 100);
  EXPECT_LE(thinned.size(), 104u);
  EXPECT_GE(thinned.size(), 45u);
  std::vector<int64_t> steps;
  for (const auto& row : thinned) steps.push_back(row.step);
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  EXPECT_THAT(steps, testing::IsSupersetOf({1, 777, 4321, 6002, 10000}));
  EXPECT_EQ(thin_rows(rows, 10000).size(), 10000u);
}

TEST(ThinRows, CopesWithLossesThatAreNoNumbers) {
  std::vector<StepMetrics> rows;
  for (int64_t step = 1; step <= 1000; ++step)
    rows.push_back(row_of(step, step > 500 ? kUnknown : 3));
  const auto thinned = thin_rows(rows, 50);
  EXPECT_EQ(thinned.front().step, 1);
  EXPECT_EQ(thinned.back().step, 1000);
}

TEST(CurvesJson, HoldsColumnsOfEqualLengthWithNullForUnknown) {
  StepMetrics bad = row_of(20, kUnknown);
  bad.mfu = kUnknown;
  const auto json = nlohmann::json::parse(curves_json({row_of(10, 8), validation_of(15, 7), bad}));
  ASSERT_EQ(json["train"]["step"], (nlohmann::json{10, 20}));
  EXPECT_EQ(json["train"]["loss"], (nlohmann::json{8, nullptr}));
  EXPECT_EQ(json["train"]["mfu"], (nlohmann::json{10, nullptr}));
  EXPECT_EQ(json["train"]["data_wait_ms"], (nlohmann::json{10, 10}));
  EXPECT_EQ(json["validation"]["step"], nlohmann::json::array({15}));
  EXPECT_EQ(json["validation"]["tokens"], nlohmann::json::array({1500}));  // between its neighbours
  EXPECT_EQ(json["validation"]["bits_per_byte"], nlohmann::json::array({nullptr}));
  for (const auto& part : {json["train"], json["validation"]}) {
    for (const auto& [name, column] : part.items())
      EXPECT_EQ(column.size(), part["step"].size()) << name;
  }
}

TEST(ReportText, SaysEverythingInEachLanguage) {
  // The words are one struct of C strings: none may be missing, and only lr_unit may be empty.
  for (const Language language : {Language::kEnglish, Language::kChinese}) {
    const ReportText& words = report_text(language);
    const auto* members = reinterpret_cast<const char* const*>(&words);
    int64_t empty = 0;
    for (size_t i = 0; i < sizeof(ReportText) / sizeof(const char*); ++i) {
      ASSERT_NE(members[i], nullptr) << "word " << i;
      empty += *members[i] == 0 ? 1 : 0;
    }
    EXPECT_EQ(empty, 1);
  }
}

TEST(Report, ShowsRecordResultsSampleAndConfig) {
  ReportInput input;
  input.folder = "/runs/first";
  input.titan_version = "9.8.7";
  input.history.rows = {row_of(1, 8), validation_of(1, 7.5), row_of(10, 6),
                        validation_of(10, 5.25)};
  input.history.rows[3].val_bits_per_byte = 2.125;
  input.record = RunRecord{};
  input.record->model = "llama3 debugmodel";
  input.record->parameters = 6163712;
  input.record->config = "steps = 10 # <i>";
  input.record->status = RunStatus::kFailed;
  input.record->error = "disk <full>";
  input.generated = "Once & upon";
  const std::string page = report_html(input, Language::kEnglish);
  for (const char* expected :
       {"llama3 debugmodel", "6,163,712", "6.16 M", "steps = 10 # &lt;i&gt;", "Once &amp; upon",
        "7.50000 → 5.25000", "2.1250", "/runs/first", "badge failed", "disk &lt;full&gt;",
        "titan 9.8.7", "lang=\"en\"", "Content-Security-Policy"}) {
    EXPECT_THAT(page, HasSubstr(expected));
  }
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(report_html(input, Language::kChinese), HasSubstr("lang=\"zh-CN\""));
}

TEST(Report, LeavesOutWhatIsNotThere) {
  ReportInput input;
  input.folder = "/runs/first";
  input.history.rows = {row_of(1, 8)};
  input.history.skipped_lines = 2;
  const std::string page = report_html(input, Language::kEnglish);
  EXPECT_THAT(page, Not(HasSubstr("Generated text")));
  EXPECT_THAT(page, Not(HasSubstr("Config as run")));
  EXPECT_THAT(page, HasSubstr("no run record"));
  EXPECT_THAT(page, HasSubstr("2 lines of metrics.jsonl could not be read"));
}

TEST(Report, RefusesWhatIsNoRunFolder) {
  const TempFolder folder;
  const auto message_of = [](const std::filesystem::path& path) -> std::string {
    try {
      read_run(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message_of(folder.path() / "absent"), HasSubstr("absent is no folder"));
  EXPECT_THAT(message_of(folder.path()), HasSubstr("has no metrics.jsonl"));
  std::ofstream(folder.path() / "metrics.jsonl") << "{\"step\":1";
  EXPECT_THAT(message_of(folder.path()), HasSubstr("holds no logged step (1 lines"));
  std::ofstream(folder.path() / "metrics.jsonl") << "{\"step\":1,\"loss\":2}\n";
  EXPECT_EQ(message_of(folder.path()), "no error");
  std::ofstream(folder.path() / "generated.txt") << "text";
  EXPECT_EQ(read_run(folder.path()).generated, "text");
  EXPECT_FALSE(read_run(folder.path()).record);
}

}  // namespace
}  // namespace titan::observe
