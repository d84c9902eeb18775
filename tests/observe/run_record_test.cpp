#include "observe/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "observe/temp_folder.h"

namespace titan::observe {
namespace {

RunRecord sample_record() {
  RunRecord record;
  record.status = RunStatus::kFinished;
  record.description = "first run";
  record.config = "[training]\nsteps = 10\n";
  record.versions = {{"titan", "0.1.0"}, {"torch", "2.11.0"}};
  record.start_time = 1700000000.5;
  record.sessions = 2;
  record.device_name = "AMD EPYC";
  record.device_memory = int64_t{24} << 30;
  record.model = "llama3 debugmodel";
  record.model_sizes = {{"dim", "256"}, {"layers", "6"}};
  record.parameters = 6163712;
  record.val_loss = 3.5;
  record.training_s = 12.5;
  return record;
}

TEST(RunRecord, IsReadBackAsWritten) {
  const TempFolder folder;
  write_run_record(folder.path() / "run", sample_record());
  const auto read = read_run_record(folder.path() / "run");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->status, RunStatus::kFinished);
  EXPECT_EQ(read->config, sample_record().config);
  EXPECT_EQ(read->versions, sample_record().versions);
  EXPECT_EQ(read->model_sizes, sample_record().model_sizes);
  EXPECT_EQ(read->start_time, 1700000000.5);
  EXPECT_EQ(read->device_memory, int64_t{24} << 30);
  EXPECT_EQ(read->parameters, 6163712);
  EXPECT_EQ(read->val_loss, 3.5);
  EXPECT_EQ(read->first_val_loss, std::nullopt);
  EXPECT_TRUE(std::isnan(read->loss));
}

TEST(RunRecord, KeepsEveryKeyOfTheFormat) {
  const TempFolder folder;
  write_run_record(folder.path(), {});
  const auto json = nlohmann::json::parse(files::read(folder.path() / "run.json"));
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["status"], "running");
  EXPECT_EQ(json.size(), 37u);  // only ever grows
}

TEST(RunRecord, TextThatIsNoUtf8DoesNotStopARun) {
  const TempFolder folder;
  RunRecord record = sample_record();
  record.description = "caf\xE9";
  write_run_record(folder.path(), record);
  EXPECT_EQ(read_run_record(folder.path())->description, "caf\xEF\xBF\xBD");
}

TEST(RunRecord, AbsentDamagedAndNewerFilesAreToldApart) {
  const TempFolder folder;
  EXPECT_FALSE(read_run_record(folder.path()));
  const auto message_of = [&](const char* content) -> std::string {
    std::ofstream(folder.path() / "run.json") << content;
    try {
      read_run_record(folder.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message_of("{\"form"), testing::HasSubstr("run.json is no run record"));
  EXPECT_THAT(message_of("{\"format\": 2}"),
              testing::HasSubstr("has format 2, this titan reads up to 1"));
  EXPECT_THAT(message_of("{\"format\": 1, \"parameters\": \"many\"}"),
              testing::HasSubstr("run.json is damaged"));
  EXPECT_THAT(message_of("{\"format\": 1, \"status\": \"asleep\"}"),
              testing::HasSubstr("'asleep'"));
  EXPECT_EQ(message_of("{\"format\": 1, \"status\": \"failed\"}"), "no error");
}

TEST(RunRecord, AResumeGoesOnWithTheSameRun) {
  const TempFolder folder;
  RunRecord fresh;
  fresh.start_time = 1800000000;
  EXPECT_EQ(begin_record(folder.path(), fresh, true).sessions, 1);  // the old record is lost
  write_run_record(folder.path(), sample_record());
  EXPECT_EQ(begin_record(folder.path(), fresh, false).sessions, 1);
  const RunRecord resumed = begin_record(folder.path(), fresh, true);
  EXPECT_EQ(resumed.status, RunStatus::kRunning);
  EXPECT_EQ(resumed.sessions, 3);
  EXPECT_EQ(resumed.start_time, 1700000000.5);
  EXPECT_EQ(resumed.training_s, 12.5);
  EXPECT_EQ(resumed.val_loss, 3.5);
}

}  // namespace
}  // namespace titan::observe
