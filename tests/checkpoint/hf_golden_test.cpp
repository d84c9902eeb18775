// Folders that transformers wrote (tools/make_hf_goldens.py): read, written again, compared with
// the originals.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"
#include "checkpoint/folder.h"
#include "checkpoint/hf_folder.h"
#include "models/hf.h"
#include "models/hf_config.h"
#include "models/model.h"
#include "nn/plain_runner.h"

namespace titan::checkpoint {
namespace {
namespace fs = std::filesystem;

class HfGolden : public testing::TestWithParam<const char*> {
 protected:
  HfGolden()
      : path_(fs::path(TITAN_SOURCE_DIR) / "tests/golden/hf" / GetParam()),
        args_(models::read_hf_config(path_)) {
    for (const auto& [name, shape] : models::parameter_shapes(args_))
      shapes_.push_back({name, shape});
  }

  fs::path path_;
  models::ModelArgs args_;
  std::vector<NamedShape> shapes_;
  ForeignNames names_ = ForeignNames::of(models::HfNames{args_});
};

// transformers computed in float32, so this is the distance of its rounding from float64.
TEST_P(HfGolden, TheModelGivesTheLogitsOfTransformers) {
  const at::NoGradGuard no_grad;
  const auto model = models::make_model_uninitialized(args_, at::kDouble, at::kCPU);
  std::vector<NamedTensor> targets;
  model->visit([&](const std::string& name, at::Tensor& parameter, const nn::Init&) {
    targets.push_back({name, parameter.detach()});
  });
  load_hf(HfFolder(path_), targets, names_);
  const SafetensorsFile expected(path_ / "expected.safetensors");
  nn::PlainRunner runner(at::kDouble);
  const at::Tensor hidden = model->hidden(expected.view("ids"), runner);
  const at::Tensor logits = at::matmul(hidden, model->output_weight().t());
  const at::Tensor wanted = expected.view("logits").to(at::kDouble);
  EXPECT_LT((logits - wanted).abs().max().item<double>() / wanted.abs().max().item<double>(), 1e-5);
  // Without the reordering of wq and wk a Llama gives something else.
  for (auto& [name, tensor, placement] : targets) {
    if (name == "layers.1.attention.wq.weight") tensor.copy_(models::from_hf(args_, name, tensor));
  }
  const at::Tensor other =
      at::matmul(model->hidden(expected.view("ids"), runner), model->output_weight().t());
  EXPECT_EQ((other - wanted).abs().max().item<double>() > 1e-3, args_.family != "qwen3");
}

TEST_P(HfGolden, ExportGivesTheTensorsThatTransformersWrote) {
  const TestFolder folder;
  const HfFolder source(path_);
  const auto sources = hf_sources(source, shapes_, names_, std::nullopt);
  save_hf(folder.path() / "out", sources, names_,
          {.config_json = "{}", .assets = {}, .max_file_bytes = 10000});
  const HfFolder written(folder.path() / "out");
  EXPECT_EQ(written.names(), source.names());
  for (const auto& name : source.names()) {
    EXPECT_EQ(written.find(name)->dtype, source.find(name)->dtype) << name;
    EXPECT_TRUE(at::equal(written.view(name), source.view(name))) << name;
  }
}

TEST_P(HfGolden, QueriesAndKeysOfLlamaAreReordered) {
  const HfFolder source(path_);
  const auto sources = hf_sources(source, shapes_, names_, std::nullopt);
  const auto wq = std::find_if(sources.begin(), sources.end(), [](const auto& s) {
    return s.name == "layers.1.attention.wq.weight";
  });
  const bool same = at::equal(wq->make(), source.view("model.layers.1.self_attn.q_proj.weight"));
  EXPECT_EQ(same, args_.family == "qwen3");
}

// What titan writes must say what transformers wrote, in the older spelling of the rotation.
TEST_P(HfGolden, ConfigSaysWhatTransformersWrote) {
  const auto theirs = json::parse_strict(files::read(path_ / "config.json"), "golden");
  const auto ours = models::hf_config_of(args_, theirs["dtype"]);
  EXPECT_EQ(ours["torch_dtype"], theirs["dtype"]);
  for (const auto& [key, value] : ours.items()) {
    if (!theirs.contains(key) || key.ends_with("_token_id")) continue;
    EXPECT_EQ(value, theirs[key]) << key;
  }
  EXPECT_EQ(ours["rope_theta"], theirs["rope_parameters"]["rope_theta"]);
  for (const auto& [key, value] : theirs["rope_parameters"].items()) {
    if (key == "rope_theta" || value == "default") continue;
    EXPECT_EQ(ours["rope_scaling"][key], value) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, HfGolden,
                         testing::Values("llama3", "llama32_tied", "qwen3", "qwen3_tied"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace titan::checkpoint
