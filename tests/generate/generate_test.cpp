#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generate/generate.h"
#include "generate/small_models.h"

namespace titan::generate {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class Generate : public testing::Test {
 protected:
  struct Told {
    std::vector<std::string> streamed;
    std::vector<Result> results;
    Timing timing;
  };

  Told run(const std::vector<std::string>& prompts, const Options& options) {
    std::vector<std::vector<int32_t>> ids;
    for (const auto& prompt : prompts) ids.push_back(encode_prompt(tokenizer_, prompt));
    return run_ids(ids, options);
  }
  Told run_ids(const std::vector<std::vector<int32_t>>& ids, const Options& options) {
    Told told{.streamed = std::vector<std::string>(ids.size()),
              .results = std::vector<Result>(ids.size())};
    Decoder decoder(*model_, at::kFloat, at::kCPU);
    told.timing = generate(
        decoder, tokenizer_, ids, options,
        {.on_text = [&](size_t row, std::string_view piece) { told.streamed[row] += piece; },
         .on_finished = [&](size_t row, const Result& result) { told.results[row] = result; }});
    return told;
  }

  models::ModelArgs args_ = small_llama3();
  std::unique_ptr<models::Model> model_ = small_model(args_);
  ByteTokenizer tokenizer_;
  const std::vector<std::string> prompts_{"once upon", "a",      "the quick brown fox",
                                          "",          "zz top", "0123"};
};

std::vector<std::vector<int32_t>> ids_of(const std::vector<Result>& results) {
  std::vector<std::vector<int32_t>> ids;
  for (const auto& result : results) ids.push_back(result.ids);
  return ids;
}

TEST_F(Generate, GreedyIsTheArgmaxOfTheTrainingForward) {
  const auto told = run({"once upon"}, {.max_new_tokens = 20, .sampling = {.temperature = 0}});
  std::vector<int32_t> ids = encode_prompt(tokenizer_, "once upon");
  nn::PlainRunner runner(at::kFloat);
  for (const int32_t chosen : told.results[0].ids) {
    const at::Tensor tokens = at::tensor(std::vector<int64_t>(ids.begin(), ids.end())).unsqueeze(0);
    const at::Tensor logits =
        at::mv(model_->output_weight(), model_->hidden(tokens, runner)[0][-1]).narrow(0, 0, 258);
    ASSERT_EQ(logits.argmax().item<int64_t>(), chosen);
    ids.push_back(chosen);
  }
  EXPECT_EQ(told.results[0].ids.size(), 20U);
  EXPECT_EQ(told.results[0].finish, Finish::kLength);
  EXPECT_EQ(told.timing.prompt_tokens, 10);
  EXPECT_EQ(told.timing.new_tokens, 20);
  EXPECT_EQ(told.timing.step_tokens, 19);
}

// Whatever shares the batch, a prompt gets the text it gets alone at its place in the file.
TEST_F(Generate, TextDoesNotDependOnTheBatch) {
  Options options{.max_new_tokens = 24,
                  .batch_size = 1,
                  .sampling = {.temperature = 0.9, .top_k = 40, .top_p = 0.95, .seed = 3},
                  .end_ids = {257, 'e', 'q'}};
  const auto alone = run(prompts_, options);
  size_t ended = 0;
  for (const auto& result : alone.results) ended += result.finish == Finish::kEnd ? 1 : 0;
  EXPECT_GT(ended, 0U) << "no row leaves its batch early, which is to be tested";
  for (const int64_t batch_size : {2, 3, 4, 6, 100}) {
    options.batch_size = batch_size;
    const auto together = run(prompts_, options);
    EXPECT_EQ(ids_of(together.results), ids_of(alone.results)) << batch_size;
    EXPECT_EQ(together.streamed, alone.streamed);
    EXPECT_EQ(together.timing.new_tokens, alone.timing.new_tokens);
  }
}

TEST_F(Generate, SeedDecidesTheText) {
  Options options{.max_new_tokens = 16, .sampling = {.seed = 3}};
  const auto first = ids_of(run(prompts_, options).results);
  EXPECT_EQ(ids_of(run(prompts_, options).results), first);
  options.sampling.seed = 4;
  EXPECT_NE(ids_of(run(prompts_, options).results), first);
  // Equal prompts at different places of a file get texts of their own.
  const auto twins = run({"same", "same"}, options);
  EXPECT_NE(twins.results[0].ids, twins.results[1].ids);
}

TEST_F(Generate, EndsBeforeAnEndTokenAndStreamsWhatItReturns) {
  const auto endless = run({"once upon"}, {.max_new_tokens = 20, .sampling = {.seed = 1}});
  const auto& ids = endless.results[0].ids;
  // The first token that has not occurred before it ends the text there.
  const int32_t end = ids[7];
  const auto position = std::find(ids.begin(), ids.end(), end) - ids.begin();
  const auto ended =
      run({"once upon"}, {.max_new_tokens = 20, .sampling = {.seed = 1}, .end_ids = {end}});
  EXPECT_EQ(ended.results[0].ids, std::vector<int32_t>(ids.begin(), ids.begin() + position));
  EXPECT_EQ(ended.results[0].finish, Finish::kEnd);
  EXPECT_EQ(ended.streamed[0], ended.results[0].text);
  EXPECT_EQ(ended.results[0].text, tokenizer_.decode(ended.results[0].ids));
}

TEST_F(Generate, NeverChoosesARowOfTheVocabularyThatIsNoToken) {
  {
    const at::NoGradGuard no_grad;
    // Rows 258 and 259 would win every time.
    const_cast<at::Tensor&>(model_->output_weight()).narrow(0, 258, 2).mul_(1000);
  }
  const auto told =
      run(prompts_, {.max_new_tokens = 30, .sampling = {.temperature = 3, .seed = 1}});
  for (const auto& ids : ids_of(told.results)) {
    for (const int32_t id : ids) EXPECT_LT(id, 258);
  }
}

TEST_F(Generate, StopsWhenAskedAndKeepsWhatThereIs) {
  int asked = 0;
  Options options{.max_new_tokens = 50, .batch_size = 2, .sampling = {.seed = 1}, .stop = [&] {
                    return ++asked > 6;
                  }};
  const auto told = run(prompts_, options);
  EXPECT_EQ(told.results[0].finish, Finish::kStopped);
  EXPECT_EQ(told.results[0].ids.size(), 6U);
  EXPECT_EQ(told.results[0].text, told.streamed[0]);
  EXPECT_THAT(told.streamed[2], IsEmpty()) << "a batch was begun after the stop";
}

TEST_F(Generate, GoesOnBeyondTheTrainedContext) {
  const auto told = run({"once upon"}, {.max_new_tokens = 150, .sampling = {.seed = 1}});
  EXPECT_EQ(told.results[0].ids.size(), 150U);
}

TEST(EncodePrompt, StartsAsDocumentsDoInTraining) {
  EXPECT_EQ(encode_prompt(ByteTokenizer(), "ab"), (std::vector<int32_t>{256, 'a', 'b'}));
  EXPECT_EQ(encode_prompt(ByteTokenizer(), ""), (std::vector<int32_t>{256}));
  EXPECT_EQ(encode_prompt(ByteTokenizer(false), "ab"), (std::vector<int32_t>{'a', 'b'}));
  EXPECT_THAT([] { encode_prompt(ByteTokenizer(false), ""); },
              ThrowsMessage<Error>(HasSubstr("the prompt is empty")));
}

TEST(Check, NamesTheNumbers) {
  const std::vector<std::vector<int32_t>> prompts{std::vector<int32_t>(5),
                                                  std::vector<int32_t>(12)};
  EXPECT_EQ(check(prompts, 64, {.max_new_tokens = 52}), "");
  EXPECT_THAT(check(prompts, 64, {.max_new_tokens = 53}),
              HasSubstr("12 prompt tokens and 53 new ones"));
  EXPECT_THAT([&] { check(prompts, 10, {.max_new_tokens = 1}); },
              ThrowsMessage<Error>(
                  HasSubstr("prompt 2 has 12 tokens (BOS included), the model's context is 10")));
  EXPECT_THAT([&] { check(prompts, 64, {.max_new_tokens = 0}); },
              ThrowsMessage<Error>(HasSubstr("max_new_tokens is 0")));
  EXPECT_THAT([&] { check(prompts, 64, {.max_new_tokens = 1, .batch_size = 0}); },
              ThrowsMessage<Error>(HasSubstr("batch_size is 0")));
  EXPECT_THAT([&] { check(prompts, 64, {.max_new_tokens = 1, .sampling = {.top_p = 0}}); },
              ThrowsMessage<Error>(HasSubstr("top_p is 0")));
}

TEST(CacheBytes, AreThoseOfTheLargestBatch) {
  const auto args = small_llama3();
  const std::vector<std::vector<int32_t>> prompts{std::vector<int32_t>(5), std::vector<int32_t>(12),
                                                  std::vector<int32_t>(30)};
  // Batches of two: 2 x (12 + 8) tokens, then 1 x (30 + 8).
  EXPECT_EQ(cache_bytes(prompts, args, {.max_new_tokens = 8, .batch_size = 2}, at::kFloat),
            cache_bytes(args, 2, 20, at::kFloat));
}

}  // namespace
}  // namespace titan::generate
