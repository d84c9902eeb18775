#include "checkpoint/store.h"

#include <ATen/CPUGeneratorImpl.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/folder.h"

namespace titan::checkpoint {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Snapshot snapshot_of(int64_t seed, at::ScalarType dtype = at::kFloat) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  Snapshot snapshot;
  const auto add = [&](const std::string& name, at::IntArrayRef shape) {
    snapshot.model.push_back({name, at::randn(shape, generator).to(dtype)});
    snapshot.optimizer.push_back({optimizer_name("exp_avg", name), at::randn(shape, generator)});
  };
  add("tok_embeddings.weight", {13, 8});
  add("layers.0.attention.wq.weight", {8, 8});
  add("norm.weight", {8});
  snapshot.optimizer.push_back(
      {optimizer_name("step", "norm.weight"), at::full({}, seed, at::kLong)});
  snapshot.state = {
      {"step", seed}, {"tokens_seen", seed * 100}, {"loss_scale", 65536.5}, {"rng", "00ff"}};
  return snapshot;
}

std::vector<NamedTensor> zeros_like(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> zeros;
  for (const auto& [name, tensor, placement] : tensors)
    zeros.push_back({name, at::zeros_like(tensor)});
  return zeros;
}

void expect_bit_equal(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
  }
}

std::vector<int64_t> steps_in(const fs::path& folder) {
  std::vector<int64_t> steps;
  for (const auto& step : list_steps(folder)) steps.push_back(step.step);
  return steps;
}

TEST(Store, LoadGivesBackWhatWasSavedBitForBit) {
  const TestFolder folder;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    const Snapshot saved = snapshot_of(3, dtype);
    const auto result = save(folder.path(), 3, saved);
    const Step step(result.folder);
    auto model = zeros_like(saved.model);
    auto optimizer = zeros_like(saved.optimizer);
    EXPECT_TRUE(load_part(step, Part::kModel, model).empty());
    EXPECT_TRUE(load_part(step, Part::kOptimizer, optimizer).empty());
    expect_bit_equal(model, saved.model);
    expect_bit_equal(optimizer, saved.optimizer);
    EXPECT_EQ(step.state(), saved.state);
    EXPECT_EQ(step.index().step, 3);
  }
  EXPECT_EQ(latest(folder.path()), 3);
}

TEST(Store, OddTensorsSurvive) {
  const TestFolder folder;
  Snapshot saved;
  saved.model = {{"scalar", at::full({}, 2.5)},
                 {"empty", at::empty({0, 4})},
                 {"transposed", at::arange(12, at::kFloat).view({3, 4}).t()},
                 {"bytes", at::arange(3, at::kByte)},
                 {"counter", at::full({1}, int64_t{1} << 40, at::kLong)},
                 {"half", at::full({3}, 0.5, at::kHalf)},
                 {"grad", at::ones({2}).requires_grad_(true)}};
  const Step step(save(folder.path(), 0, saved).folder);
  auto loaded = zeros_like(saved.model);
  loaded.back().tensor.requires_grad_(true);
  load_part(step, Part::kModel, loaded);
  expect_bit_equal(loaded, saved.model);
}

TEST(Store, SplitsAtTheSizeLimitAndCastsForExport) {
  const TestFolder folder;
  const Snapshot saved = snapshot_of(1);
  const auto result =
      save(folder.path(), 1, saved, {.export_dtype = at::kBFloat16, .max_file_bytes = 300});
  EXPECT_TRUE(fs::exists(result.folder / "model-00002-of-00002.safetensors"));
  EXPECT_FALSE(fs::exists(result.folder / "model-00003-of-00002.safetensors"));
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(result.folder))
    bytes += static_cast<int64_t>(entry.file_size());
  EXPECT_EQ(result.bytes, bytes);
  const Step step(result.folder);
  auto model = zeros_like(saved.model);
  EXPECT_THAT([&] { load_part(step, Part::kModel, model); },
              ThrowsMessage<Error>(HasSubstr(
                  "'tok_embeddings.weight' is stored as bfloat16, this run keeps it as float32")));
  load_part(step, Part::kModel, model, {.allow_cast = true});
  for (size_t i = 0; i < model.size(); ++i) {
    EXPECT_TRUE(at::equal(model[i].tensor, saved.model[i].tensor.to(at::kBFloat16).to(at::kFloat)));
  }
  auto optimizer = zeros_like(saved.optimizer);
  load_part(step, Part::kOptimizer, optimizer);  // not cast
  expect_bit_equal(optimizer, saved.optimizer);
}

TEST(Store, KeepsTheLatestK) {
  const TestFolder folder;
  const Snapshot snapshot = snapshot_of(1);
  for (const int64_t step : {5, 10, 15, 100})
    save(folder.path(), step, snapshot, {.keep_latest_k = 2});
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(15, 100));
  save(folder.path(), 120, snapshot, {.keep_latest_k = 2, .last = true});
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(15, 100, 120));
  // After a return to an earlier step the newly saved one is not the one to go.
  const auto result = save(folder.path(), 20, snapshot, {.keep_latest_k = 2});
  EXPECT_THAT(result.deleted, ElementsAre(15, 100));
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(20, 120));
  EXPECT_THAT([&] { save(folder.path(), 6, snapshot, {.keep_latest_k = 1}); },
              ThrowsMessage<Error>(HasSubstr("keep_latest_k is 1")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(Store, SavingAStepAgainReplacesIt) {
  const TestFolder folder;
  save(folder.path(), 4, snapshot_of(1));
  save(folder.path(), 4, snapshot_of(2), {.max_file_bytes = 100});
  const Step step(folder.path() / "step-4");
  EXPECT_EQ(step.state()["step"], 2);
  auto model = zeros_like(snapshot_of(2).model);
  load_part(step, Part::kModel, model);
  expect_bit_equal(model, snapshot_of(2).model);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Store, LeftoversOfDeadWritersAreRemovedAndNeverListed) {
  const TestFolder folder;
  save(folder.path(), 1, snapshot_of(1));
  for (const char* name :
       {"step-2.partial", "step-3.deleting", "step-4.partial.deleting", "step-5", "keep.partial"}) {
    fs::create_directories(folder.path() / name);
    files::write_atomically(folder.path() / name / "model-00001-of-00001.safetensors", "x");
  }
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(1));
  EXPECT_THAT(remove_leftovers(folder.path()),
              ElementsAre("step-2.partial", "step-3.deleting", "step-4.partial.deleting"));
  EXPECT_TRUE(fs::exists(folder.path() / "step-1"));
  EXPECT_TRUE(fs::exists(folder.path() / "step-5"));
  EXPECT_TRUE(fs::exists(folder.path() / "keep.partial"));
}

TEST(Store, FolderOfALiveWriterIsLeftAlone) {
  const TestFolder folder;
  const PartialFolder writing(folder.path() / "step-7");
  EXPECT_TRUE(remove_leftovers(folder.path()).empty());
  EXPECT_THAT([&] { save(folder.path(), 7, snapshot_of(1)); },
              ThrowsMessage<Error>(HasSubstr("another process is writing")));
}

TEST(Store, MissingUnexpectedAndDifferentTensorsAreNamed) {
  const TestFolder folder;
  const Snapshot saved = snapshot_of(1);
  const Step step(save(folder.path(), 1, saved).folder);
  auto targets = zeros_like(saved.model);
  targets.push_back({"output.weight", at::zeros({13, 8})});
  EXPECT_THAT([&] { load_part(step, Part::kModel, targets); },
              ThrowsMessage<Error>(HasSubstr("lacks 1 of 4 tensors: output.weight")));
  targets = zeros_like(saved.model);
  targets.pop_back();
  EXPECT_THAT(
      [&] { load_part(step, Part::kModel, targets); },
      ThrowsMessage<Error>(HasSubstr("holds 1 tensors that this model has not: norm.weight")));
  EXPECT_THAT(load_part(step, Part::kModel, targets, {.allow_unexpected = true}),
              ElementsAre("norm.weight"));
  targets = zeros_like(saved.model);
  targets[1].tensor = at::zeros({8, 4});
  targets[0].tensor.fill_(7);
  EXPECT_THAT([&] { load_part(step, Part::kModel, targets); },
              ThrowsMessage<Error>(HasSubstr(
                  "'layers.0.attention.wq.weight' has the shape [8, 8], the model needs [8, 4]")));
  EXPECT_EQ(targets[0].tensor.min().item<float>(), 7);  // nothing was copied
}

TEST(Store, SpaceIsCheckedWithNumbers) {
  const TestFolder folder;
  EXPECT_THAT([&] { check_free_space(folder.path() / "new", int64_t{1} << 60); },
              ThrowsMessage<EnvironmentError>(HasSubstr("1152921504606846976 bytes")));
}

TEST(Store, AFailedSaveLeavesNothing) {
  const TestFolder folder;
  const std::vector<TensorSource> model = {
      {"a", at::kFloat, {2}, [] { return at::ones({2}); }},
      {"b", at::kFloat, {2}, []() -> at::Tensor { throw Error("[test] no such tensor"); }}};
  EXPECT_THAT([&] { save_model(folder.path(), 1, model, {}); },
              ThrowsMessage<Error>(HasSubstr("no such tensor")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Store, RngBytesSurviveAsText) {
  const at::Tensor bytes = at::arange(256, at::kByte);
  EXPECT_TRUE(at::equal(decode_bytes(encode_bytes(bytes)), bytes));
  EXPECT_THROW(decode_bytes("0g"), Error);
  EXPECT_THROW(decode_bytes("000"), Error);
}

}  // namespace
}  // namespace titan::checkpoint
