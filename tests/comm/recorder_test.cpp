#include "comm/recorder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/files.h"
#include "comm/watch.h"

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

TEST(Recorder, ForgetsWhatCameAfterAMarkAndGoesOnCountingFromThere) {
  Recorder recorder(4);
  recorder.issued("tp", "all-reduce", 8, 1, "forward");
  const auto mark = recorder.mark();
  recorder.issued("tp", "all-reduce", 16, 2, "forward");
  recorder.issued("fsdp", "all-gather", 24, 2, "forward");
  recorder.back_to(mark);
  EXPECT_EQ(written(recorder)["collectives"].size(), 1U);
  recorder.issued("tp", "all-gather", 32, 2, "backward");
  recorder.issued("fsdp", "all-gather", 40, 2, "backward");
  const auto record = written(recorder);
  const auto& list = record["collectives"];
  ASSERT_EQ(list.size(), 2U);  // of the last four
  EXPECT_EQ(list[0]["number"], 1);
  EXPECT_EQ(list[0]["bytes"], 32);
  EXPECT_EQ(list[1]["number"], 0);
}

TEST(Recorder, FindsTheCollectiveThatALibraryNames) {
  Recorder recorder(8);
  recorder.add_group("world", {0, 1}, /*of_device=*/false);
  recorder.add_group("fsdp", {2, 3}, /*of_device=*/true);
  recorder.add_group("tp", {3, 7}, /*of_device=*/true);
  for (const char* axis : {"world", "fsdp", "tp", "tp", "world"}) {
    recorder.issued(axis, "all-reduce", 8, 4, "backward");
  }
  const double now = recorder.last_event();
  const auto second = recorder.find(2, now);  // the host's collectives are not the library's
  ASSERT_TRUE(second);
  EXPECT_EQ(second->axis, "tp");
  EXPECT_EQ(second->number, 1);
  EXPECT_EQ(second->step, 4);
  EXPECT_EQ(second->ranks, (std::vector<int64_t>{3, 7}));
  const auto earlier = recorder.find(1, now);
  ASSERT_TRUE(earlier);
  EXPECT_EQ(earlier->axis, "tp");
  EXPECT_EQ(earlier->number, 0);
  EXPECT_FALSE(recorder.find(2, now - 60));
  const auto file = std::filesystem::path(testing::TempDir()) / "recorder_test" / "failed.json";
  recorder.write(file, 3, 4, second);
  const auto record = nlohmann::json::parse(files::read(file));
  EXPECT_EQ(record["failed"]["axis"], "tp");
  EXPECT_EQ(record["failed"]["number"], 1);
  EXPECT_EQ(record["groups"]["fsdp"], (std::vector<int64_t>{2, 3}));
}

TEST(Watch, ReadsWhatALibrarySays) {
  const auto said = read_timed_out(
      "[Rank 1] Watchdog caught collective operation timeout: WorkHCCL(SeqNum=9, "
      "OpType=ALLREDUCE, NumelIn=2, Timeout(ms)=5000) ran for 5128 milliseconds before timing "
      "out.");
  ASSERT_TRUE(said);
  EXPECT_EQ(said->sequence, 9);
  EXPECT_DOUBLE_EQ(said->ran_s, 5.128);
  EXPECT_FALSE(read_timed_out("HCCL error 7"));
}

std::filesystem::path fresh(const char* name) {
  const auto file = std::filesystem::path(testing::TempDir()) / "watch_test" / name;
  std::filesystem::remove(file);
  return file;
}

template <typename Condition>
bool comes_true(const Condition& condition) {
  for (int i = 0; i < 500 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return condition();
}

TEST(Watch, WritesTheRecordOfASilenceAndRemovesItWhenTheSilenceEnds) {
  const auto file = fresh("silence.json");
  const auto context = std::make_shared<RankContext>();
  context->recorder.set_capacity(4);
  Watch watch(context, file, 2, 0.4);
  const int64_t ticket = context->recorder.issued("tp", "all-reduce", 8, 1, "forward");
  ASSERT_TRUE(comes_true([&] { return std::filesystem::exists(file); }));
  const auto record = nlohmann::json::parse(files::read(file));
  EXPECT_GE(record["silent_s"].get<double>(), 0.2);
  EXPECT_EQ(record["collectives"].size(), 1U);
  watch.set_timeout(1000);
  context->recorder.waited_for(ticket);
  EXPECT_TRUE(comes_true([&] { return !std::filesystem::exists(file); }));
}

TEST(Watch, LeavesTheRecordOfAFailure) {
  const auto file = fresh("failure.json");
  {
    Watch watch(std::make_shared<RankContext>(), file, 2, 100);
    watch.write();
  }
  EXPECT_TRUE(std::filesystem::exists(file));
}

void end_by_two_threads(const std::filesystem::path& file) {
  const auto context = std::make_shared<RankContext>();
  context->rank = 1;
  context->recorder.set_capacity(4);
  context->recorder.add_group("tp", {0, 1}, /*of_device=*/true);
  context->recorder.issued("tp", "all-reduce", 8, 3, "forward");
  const Watch watch(context, file, 2, 100);
  const auto give_up = [] {
    throw std::runtime_error("Work(SeqNum=1, x) ran for 50 milliseconds");
  };
  std::thread first(give_up), second(give_up);
  first.join();
  second.join();
}

TEST(WatchDeathTest, AThreadThatNobodyCatchesEndsWithTheRecordAndOneMessage) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto file = fresh("end.json");
  EXPECT_EXIT(end_by_two_threads(file), testing::ExitedWithCode(3),
              "^titan: rank 1: .comm. rank 1, step 3, [^\n]*: all-reduce over axis tp .2 ranks. "
              "failed: [^\n]*\n$");
  EXPECT_EQ(nlohmann::json::parse(files::read(file))["failed"]["number"], 0);
}

TEST(Recorder, KeepsNothingWithoutCapacity) {
  Recorder recorder(0);
  recorder.waited_for(recorder.issued("tp", "all-reduce", 8, 1, "forward"));
  EXPECT_TRUE(recorder.empty());
  EXPECT_TRUE(written(recorder)["collectives"].empty());
}

}  // namespace
}  // namespace titan::comm
