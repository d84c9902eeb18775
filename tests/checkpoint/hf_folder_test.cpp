#include "checkpoint/hf_folder.h"

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

// A family whose parameters are called "hf.<name>" elsewhere, with the rows of "w" reversed.
ForeignNames reversed() {
  const auto flip = [](const std::string& name, const at::Tensor& tensor) {
    return name == "w" ? tensor.flip(0) : tensor;
  };
  return {.foreign_name = [](const std::string& name) { return "hf." + name; },
          .from_foreign = flip,
          .to_foreign = flip,
          .ignored = [](const std::string& name) { return name == "hf.table"; }};
}

const std::vector<NamedTensor> kModel = {{"w", at::arange(6, at::kFloat).view({3, 2})},
                                         {"b", at::ones({4})}};

class HfFolderTest : public testing::Test {
 protected:
  fs::path export_model(int64_t max_file_bytes = 1 << 20) {
    const fs::path target = folder_.path() / "hf";
    files::write_atomically(folder_.path() / "tokenizer.json", "{}");
    save_hf(target, sources_of(kModel, at::kBFloat16), reversed(),
            {.config_json = "{\"x\": 1}",
             .assets = hf_assets_in(folder_.path()),
             .max_file_bytes = max_file_bytes});
    return target;
  }
  void replace_index(const std::string& text) {
    files::write_atomically(folder_.path() / "hf" / kHfIndexFile, text);
  }

  TestFolder folder_;
};

TEST_F(HfFolderTest, ExportAndLoadGiveTheSameTensors) {
  for (const int64_t max_file_bytes : {1, 1 << 20}) {
    const HfFolder hf(export_model(max_file_bytes));
    EXPECT_THAT(hf.names(), ElementsAre("hf.b", "hf.w"));
    EXPECT_EQ(hf.find("hf.w")->dtype, at::kBFloat16);
    EXPECT_EQ(hf.view("hf.w")[0][0].item<float>(), 4);
    std::vector<NamedTensor> loaded = {{"w", at::zeros({3, 2})}, {"b", at::zeros({4})}};
    load_hf(hf, loaded, reversed());
    for (size_t i = 0; i < loaded.size(); ++i)
      EXPECT_TRUE(at::equal(loaded[i].tensor, kModel[i].tensor));
    EXPECT_EQ(files::read(hf.folder() / "config.json"), "{\"x\": 1}");
    EXPECT_EQ(files::read(hf.folder() / "tokenizer.json"), "{}");
    EXPECT_EQ(fs::exists(hf.folder() / "model-00002-of-00002.safetensors"), max_file_bytes == 1);
  }
}

TEST_F(HfFolderTest, SourcesReadLazilyUnderOurNames) {
  const HfFolder hf(export_model());
  const ForeignNames names = reversed();
  const std::vector<NamedShape> parameters = {{"w", {3, 2}}, {"b", {4}}};
  auto sources = hf_sources(hf, parameters, names, std::nullopt);
  EXPECT_EQ(sources[0].dtype, at::kBFloat16);
  EXPECT_TRUE(at::equal(sources[0].make().to(at::kFloat), kModel[0].tensor));
  EXPECT_EQ(hf_sources(hf, parameters, names, at::kFloat)[0].dtype, at::kFloat);
}

TEST_F(HfFolderTest, OtherModelsAreRefusedByName) {
  const HfFolder hf(export_model());
  std::vector<NamedTensor> targets = {
      {"w", at::zeros({3, 2})}, {"b", at::zeros({4})}, {"c", at::zeros({1})}};
  EXPECT_THAT([&] { load_hf(hf, targets, reversed()); },
              ThrowsMessage<Error>(HasSubstr("lacks 1 of 3 tensors: hf.c")));
  targets = {{"w", at::zeros({3, 2})}};
  EXPECT_THAT([&] { load_hf(hf, targets, reversed()); },
              ThrowsMessage<Error>(HasSubstr("holds 1 tensors that this model has not: hf.b")));
  targets = {{"b", at::zeros({4})}, {"w", at::zeros({2, 3})}};
  EXPECT_THAT([&] { load_hf(hf, targets, reversed()); },
              ThrowsMessage<Error>(
                  HasSubstr("'hf.w' has the shape [3, 2], the model needs [2, 3] for 'w'")));
  EXPECT_EQ(targets[0].tensor.sum().item<float>(), 0);
}

TEST_F(HfFolderTest, DamagedFoldersAreRefusedByName) {
  const fs::path hf = export_model(1);
  const std::string second = "model-00002-of-00002.safetensors",
                    first = "model-00001-of-00002.safetensors";
  replace_index("{\"weight_map\": {}}");
  EXPECT_THAT([&] { HfFolder{hf}; }, ThrowsMessage<Error>(HasSubstr("names no tensors")));
  replace_index("{\"weight_map\": {\"hf.w\": \"" + second + "\"}}");
  EXPECT_THAT([&] { HfFolder{hf}; },
              ThrowsMessage<Error>(HasSubstr("'hf.w' should be in " + second)));
  replace_index("{\"weight_map\": {\"hf.w\": \"../" + first + "\"}}");
  EXPECT_THAT([&] { HfFolder{hf}; }, ThrowsMessage<Error>(HasSubstr("a file name is needed")));
  replace_index("{\"weight_map\": {\"hf.w\": \"x.safetensors\"}}");
  EXPECT_THAT([&] { HfFolder{hf}; }, ThrowsMessage<Error>(HasSubstr("x.safetensors is missing")));
  fs::copy_file(hf / first, hf / "copy.safetensors");
  replace_index("{\"weight_map\": {\"hf.w\": \"" + first + "\", \"hf.x\": \"copy.safetensors\"}}");
  EXPECT_THAT([&] { HfFolder{hf}; },
              ThrowsMessage<Error>(HasSubstr("'hf.w' is in copy.safetensors and in " + first)));
  fs::remove(hf / kHfIndexFile);
  files::write_atomically(hf / "pytorch_model.bin", "x");
  EXPECT_THAT([&] { HfFolder{hf}; }, ThrowsMessage<Error>(HasSubstr("pickled weights")));
}

}  // namespace
}  // namespace titan::checkpoint
