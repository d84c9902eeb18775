#include "comm/recorder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"

namespace titan::comm {
namespace {

nlohmann::json written(const Recorder& recorder) {
  const auto file = std::filesystem::path(testing::TempDir()) / "recorder_test" / "rank_3.json";
  recorder.write(file, 3, 4);
  return nlohmann::json::parse(files::read(file));
}

TEST(Recorder, KeepsTheLastCollectivesInOrderAndNumbersThemByAxis) {
  Recorder recorder(3);
  EXPECT_TRUE(recorder.empty());
  recorder.issued("tp", "all-reduce", 8, 1, "forward");
  const int64_t second = recorder.issued("fsdp", "all-gather", 16, 1, "forward");
  const int64_t third = recorder.issued("tp", "all-gather", 24, 1, "backward");
  recorder.issued("tp", "all-reduce", 32, 2, "forward");
  recorder.waits_for(third);
  recorder.waited_for(third);
  const auto record = written(recorder);
  EXPECT_EQ(record["rank"], 3);
  EXPECT_EQ(record["ranks"], 4);
  const auto& list = record["collectives"];
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0]["axis"], "fsdp");
  EXPECT_EQ(list[0]["number"], 0);
  EXPECT_TRUE(list[0]["waited"].is_null());
  EXPECT_EQ(list[1]["number"], 1);
  EXPECT_GE(list[1]["waiting"].get<double>(), list[1]["issued"].get<double>());
  EXPECT_GE(list[1]["waited"].get<double>(), list[1]["waiting"].get<double>());
  EXPECT_TRUE(list[0]["waiting"].is_null());
  EXPECT_EQ(list[2]["number"], 2);
  EXPECT_EQ(list[2]["step"], 2);
  EXPECT_EQ(list[2]["bytes"], 32);

  // A ticket whose place was taken over does not end the newer collective.
  recorder.issued("tp", "all-reduce", 40, 2, "backward");
  recorder.waited_for(second);
  EXPECT_TRUE(written(recorder)["collectives"][2]["waited"].is_null());
}

TEST(Recorder, KeepsNothingWithoutCapacity) {
  Recorder recorder(0);
  recorder.waited_for(recorder.issued("tp", "all-reduce", 8, 1, "forward"));
  EXPECT_TRUE(recorder.empty());
  EXPECT_TRUE(written(recorder)["collectives"].empty());
}

}  // namespace
}  // namespace titan::comm
