#include "checkpoint/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/folder.h"
#include "checkpoint/store.h"

namespace titan::checkpoint {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class Inspect : public testing::Test {
 protected:
  Inspect() {
    Snapshot snapshot;
    snapshot.model = {{"a", at::ones({3, 4})}, {"b", at::full({5}, 2, at::kBFloat16)}};
    snapshot.optimizer = {{optimizer_name("exp_avg", "a"), at::zeros({3, 4})}};
    snapshot.state = {{"tokens_seen", 1234}};
    save(steps(), 7, snapshot);
    snapshot.optimizer.clear();
    save(steps(), 8, snapshot);
  }

  fs::path steps() const { return folder_.path() / "checkpoint"; }
  fs::path model_file() const { return steps() / "step-7" / "model-00001-of-00001.safetensors"; }
  // Changes the byte `from_end` before the end of a file.
  static void damage(const fs::path& path, size_t from_end) {
    std::string bytes = files::read(path);
    bytes[bytes.size() - from_end] ^= 1;
    files::write_atomically(path, bytes);
  }

  TestFolder folder_;
};

TEST_F(Inspect, SummarySaysWhatAStepHolds) {
  const auto found = find_steps(folder_.path());  // through the run's folder
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].kind, StepKind::kFull);
  EXPECT_EQ(found[1].kind, StepKind::kModelOnly);
  const auto summary = summarize(found[0]);
  EXPECT_EQ(summary.parameters, 17);
  EXPECT_EQ(summary.dtypes, "bfloat16+float32");
  EXPECT_EQ(summary.tokens_seen, 1234);
  EXPECT_EQ(summary.problem, "");
  EXPECT_GT(summary.bytes, 12 * 4 * 2 + 10);
  EXPECT_EQ(find_steps(steps() / "step-8").front().step, 8);
  EXPECT_EQ(find_steps(steps() / "step-8" / "").front().step, 8);
  EXPECT_THAT([&] { find_steps(folder_.path() / "none"); },
              ThrowsMessage<Error>(HasSubstr("there is no folder")));
  EXPECT_THAT([&] { find_steps(fs::temp_directory_path()); },
              ThrowsMessage<Error>(HasSubstr("is no checkpoint")));
}

TEST_F(Inspect, IncompleteStepsAreNotedByName) {
  fs::create_directories(steps() / "step-9");
  fs::create_directories(steps() / "step-10.partial");
  EXPECT_THAT(incomplete_steps(steps()), ElementsAre("step-10.partial", "step-9"));
}

TEST_F(Inspect, VerifyNamesEachDamagedTensorAndFile) {
  EXPECT_THAT(verify(find_steps(steps())[0]).problems, IsEmpty());
  EXPECT_EQ(verify(find_steps(steps())[0]).tensors, 3);
  damage(model_file(), 1);   // in b, the last tensor
  damage(model_file(), 30);  // in a
  fs::remove(steps() / "step-7" / "optimizer-00001-of-00001.safetensors");
  const StepInfo step{7, steps() / "step-7", StepKind::kFull};
  EXPECT_THAT(
      verify(step).problems,
      ElementsAre(AllOf(HasSubstr("model-00001-of-00001.safetensors"), HasSubstr("'a' is damaged")),
                  HasSubstr("'b' is damaged"),
                  HasSubstr("optimizer-00001-of-00001.safetensors is missing")));
  EXPECT_THAT(summarize(step).problem, HasSubstr("is missing"));
}

TEST_F(Inspect, VerifyNamesADamagedIndex) {
  std::string text = files::read(steps() / "step-8" / kIndexFile);
  text.replace(text.find("1234"), 4, "1235");
  files::write_atomically(steps() / "step-8" / kIndexFile, text);
  EXPECT_THAT(verify(find_steps(steps() / "step-8")[0]).problems,
              ElementsAre(AllOf(HasSubstr("index.json is damaged"), HasSubstr("checksum"))));
}

}  // namespace
}  // namespace titan::checkpoint
