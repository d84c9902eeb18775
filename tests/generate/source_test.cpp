#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/hf_folder.h"
#include "generate/run_folder.h"
#include "generate/source.h"
#include "generate/tokenizer_choice.h"
#include "models/hf.h"

namespace titan::generate {
namespace {
namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr int64_t kPlenty = int64_t{1} << 40;

// The largest difference of any parameter from those of small_model().
double distance_from_saved(models::Model& model) {
  auto expected = small_model(small_llama3());
  std::vector<at::Tensor> parameters;
  expected->visit([&](const std::string&, at::Tensor& p, const nn::Init&) {
    parameters.push_back(p.detach());
  });
  double worst = 0;
  size_t next = 0;
  model.visit([&](const std::string&, at::Tensor& p, const nn::Init&) {
    EXPECT_FALSE(p.requires_grad());
    worst = std::max(worst, (p.to(at::kFloat) - parameters[next++]).abs().max().item<double>());
  });
  return worst;
}

void export_hf(const fs::path& target) {
  const auto args = small_llama3();
  auto model = small_model(args);
  std::vector<checkpoint::NamedTensor> tensors;
  model->visit([&](const std::string& name, at::Tensor& p, const nn::Init&) {
    tensors.push_back({name, p.detach()});
  });
  checkpoint::save_hf(target, checkpoint::sources_of(tensors),
                      {.foreign_name = [](const std::string& n) { return models::hf_name(n); },
                       .from_foreign = {},
                       .to_foreign = [&](const std::string& n,
                                         const at::Tensor& t) { return models::to_hf(args, n, t); },
                       .ignored = {}},
                      {.config_json = models::hf_config_of(args, "float32").dump()});
}

TEST(Source, IsTheNewestStepOfARun) {
  const RunFolder run;
  run.save(3);
  run.save(20);
  const auto newest = run.path() / "checkpoint" / "step-20";
  EXPECT_EQ(find_source(run.path()).folder, newest);
  EXPECT_EQ(find_source(run.path() / "checkpoint").folder, newest);
  EXPECT_EQ(find_source(run.path() / "checkpoint" / "").folder, newest);
  EXPECT_EQ(find_source(run.path() / "checkpoint" / "step-3").folder,
            run.path() / "checkpoint" / "step-3");
  for (const auto& path :
       {run.path(), run.path() / "checkpoint", run.path() / "checkpoint/step-3"}) {
    EXPECT_EQ(find_source(path).run_folder, run.path()) << path;
  }
  // A step that a dead process left half-written is none.
  fs::create_directory(run.path() / "checkpoint" / "step-30.partial");
  fs::create_directory(run.path() / "checkpoint" / "step-40");
  EXPECT_EQ(find_source(run.path()).folder, newest);
}

TEST(Source, IsFoundUnderAnotherFolderNameUnlessThereAreTwo) {
  const RunFolder run;
  run.save(3, run.state("x", "y"), "mine");
  EXPECT_EQ(find_source(run.path()).folder, run.path() / "mine" / "step-3");
  run.save(4, run.state("x", "y"), "other");
  EXPECT_THAT([&] { find_source(run.path()); },
              ThrowsMessage<Error>(HasSubstr("more than one folder")));
}

TEST(Source, ThatIsNoneSaysWhatWasLookedFor) {
  const RunFolder run;
  EXPECT_THAT([&] { find_source(run.path()); },
              ThrowsMessage<Error>(HasSubstr("holds no complete checkpoint")));
  EXPECT_THAT([&] { find_source(run.path() / "missing"); },
              ThrowsMessage<Error>(HasSubstr("there is no")));
  EXPECT_THAT([&] { find_source(run.path() / "text.txt"); },
              ThrowsMessage<Error>(HasSubstr("is a file")));
}

TEST(LoadModel, ReadsAStepInItsDtypeOrAnother) {
  const RunFolder run;
  run.save(3);
  const auto source = find_source(run.path());
  const auto loaded = load_model(source, std::nullopt, at::kCPU, kPlenty);
  EXPECT_EQ(loaded.dtype, at::kFloat);
  EXPECT_EQ(distance_from_saved(*loaded.model), 0);
  EXPECT_THAT(loaded.description, HasSubstr("step 3"));
  const auto narrow = load_model(source, at::kBFloat16, at::kCPU, kPlenty);
  EXPECT_EQ(narrow.model->output_weight().scalar_type(), at::kBFloat16);
  EXPECT_GT(distance_from_saved(*narrow.model), 0);
  EXPECT_LT(distance_from_saved(*narrow.model), 0.05);
}

TEST(LoadModel, ReadsAHuggingFaceFolderAndItsEndTokens) {
  const RunFolder run;
  const auto folder = run.path() / "hf";
  export_hf(folder);
  const auto source = find_source(folder);
  EXPECT_EQ(source.kind, Source::Kind::kHuggingFace);
  const auto loaded = load_model(source, std::nullopt, at::kCPU, kPlenty);
  EXPECT_EQ(distance_from_saved(*loaded.model), 0);
  EXPECT_THAT(loaded.end_ids, IsEmpty());
  std::ofstream(folder / "generation_config.json") << R"({"eos_token_id": [257, 12]})";
  EXPECT_THAT(load_model(source, std::nullopt, at::kCPU, kPlenty).end_ids, ElementsAre(257, 12));
  std::ofstream(folder / "generation_config.json") << R"({"eos_token_id": "x"})";
  EXPECT_THAT([&] { load_model(source, std::nullopt, at::kCPU, kPlenty); },
              ThrowsMessage<Error>(HasSubstr("'eos_token_id'")));
}

TEST(LoadModel, RefusesWhatIsDamagedOrDoesNotFit) {
  const RunFolder run;
  run.save(3);
  const auto source = find_source(run.path());
  EXPECT_THAT([&] { load_model(source, std::nullopt, at::kCPU, 1000); },
              ThrowsMessage<EnvironmentError>(HasSubstr("1000 B")));
  run.save(4, nlohmann::json::object());
  EXPECT_THAT([&] { load_model(find_source(run.path()), std::nullopt, at::kCPU, kPlenty); },
              ThrowsMessage<Error>(HasSubstr("no 'model_args'")));
  const auto file = source.folder / "model-00001-of-00001.safetensors";
  ASSERT_TRUE(fs::exists(file));
  fs::resize_file(file, fs::file_size(file) - 8);
  EXPECT_THAT([&] { load_model(source, std::nullopt, at::kCPU, kPlenty); },
              ThrowsMessage<Error>(HasSubstr("model-00001-of-00001.safetensors")));
}

TEST(TokenizerChoice, IsTheGivenOneThenTheFoldersThenTheRuns) {
  const RunFolder run;
  run.save(3);
  const auto source = find_source(run.path());
  const auto state = run.state(run.tokenizer().string(), run.path().string());
  EXPECT_EQ(choose_tokenizer("given", source, state).path, "given");
  const auto trained = choose_tokenizer("", source, state);
  EXPECT_EQ(trained.path, run.tokenizer());
  EXPECT_THAT(trained.reason, HasSubstr("trained with"));
  fs::copy(run.tokenizer() / "tokenizer.json", source.folder / "tokenizer.json");
  EXPECT_EQ(choose_tokenizer("", source, state).path, source.folder);
}

// The run folder has moved since, or the command runs elsewhere.
TEST(TokenizerChoice, FollowsARunThatHasMoved) {
  const RunFolder run;
  run.save(3);
  const auto source = find_source(run.path());
  for (const std::string before : {"./outputs/q", "outputs/q/", "/elsewhere/q"}) {
    const auto choice =
        choose_tokenizer("", source, run.state((fs::path(before) / "tokenizer").string(), before));
    EXPECT_EQ(fs::canonical(choice.path), fs::canonical(run.tokenizer())) << before;
  }
  EXPECT_THAT(
      [&] { choose_tokenizer("", source, run.state("./assets/tok", "./outputs/q")); },
      ThrowsMessage<Error>(testing::AllOf(HasSubstr("./assets/tok"), HasSubstr("--tokenizer"))));
  EXPECT_THAT([&] { choose_tokenizer("", source, nullptr); },
              ThrowsMessage<Error>(HasSubstr("give --tokenizer PATH")));
}

TEST(CheckTokenizer, RefusesOneWithMoreIdsAndDoubtsAnother) {
  const RunFolder run;
  const auto state = run.state("", "");
  const auto tokenizer = data::load_tokenizer(run.tokenizer());
  const TokenizerChoice choice{run.tokenizer(), "given"};
  EXPECT_EQ(check_tokenizer(*tokenizer, choice, 260, state), "");
  EXPECT_EQ(check_tokenizer(*tokenizer, choice, 260, nullptr), "");
  EXPECT_THAT([&] { check_tokenizer(*tokenizer, choice, tokenizer->vocab_size() - 1, state); },
              ThrowsMessage<Error>(HasSubstr("rows of vocabulary")));
  EXPECT_THAT(check_tokenizer(ByteTokenizer(), choice, 260, state), HasSubstr("other ids"));
}

}  // namespace
}  // namespace titan::generate
