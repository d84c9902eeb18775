// `titan generate` as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "generate/run_folder.h"

namespace titan::generate {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class GenerateCommand : public testing::Test {
 protected:
  void SetUp() override { run_.save(3); }

  cli::Outcome titan(std::vector<std::string> words) const {
    words.insert(words.begin(),
                 {"generate", "--device", "cpu", "--checkpoint", run_.path().string()});
    return cli::run_titan(words, run_.path());
  }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(run_.path() / name) << content;
    return (run_.path() / name).string();
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& part,
                      int code = 2) const {
    const auto outcome = titan(words);
    EXPECT_EQ(outcome.exit_code, code) << part;
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_THAT(outcome.out, Not(HasSubstr("titan")));
  }

  RunFolder run_;
};

TEST_F(GenerateCommand, WritesTextToStdoutAndTheRestToStderr) {
  const auto outcome = titan({"--prompt", "the fox", "--max_new_tokens", "12", "--seed", "4"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("the fox"), Not(HasSubstr("[titan]"))));
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("step 3 in"), HasSubstr("that the run was trained with"),
                    HasSubstr("Prefill: "), HasSubstr("Decode: "), HasSubstr("tokens/s")));
  // Dashes, =, and writing at the end give the same text.
  EXPECT_EQ(titan({"--prompt=the fox", "--max-new-tokens=12", "--seed=4", "--no-stream"}).out,
            outcome.out);
  EXPECT_NE(titan({"--prompt=the fox", "--max-new-tokens=12", "--seed=5"}).out, outcome.out);
  EXPECT_EQ(
      "the fox" + titan({"--prompt=the fox", "--max-new-tokens=12", "--seed=4", "--no_echo"}).out,
      outcome.out);
}

TEST_F(GenerateCommand, AnswersAFileOfPromptsInItsOrder) {
  const auto prompts = write("prompts.txt", "the\nthe quick brown fox\n\nlazy\n");
  const auto file = (run_.path() / "out.jsonl").string();
  const auto outcome = titan({"--prompt_file", prompts, "--max_new_tokens", "8", "--seed", "1",
                              "--json", "--ignore_eos", "--batch_size", "2", "--output", file});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<std::string> seen;
  for (const auto& line : text::split(text::trim(outcome.out), '\n')) {
    const auto object = nlohmann::json::parse(line);
    EXPECT_EQ(object["index"], seen.size());
    EXPECT_EQ(object["ids"].size(), 8U);
    EXPECT_EQ(object["finish"], "length");
    seen.push_back(object["prompt"]);
  }
  EXPECT_THAT(seen, testing::ElementsAre("the", "the quick brown fox", "lazy"));
  std::ifstream written(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), outcome.out);
  const auto plain =
      titan({"--prompt_file", prompts, "--max_new_tokens", "8", "--seed", "1", "--ignore_eos"});
  EXPECT_THAT(plain.out, AllOf(StartsWith("the"), HasSubstr("\n---\nthe quick brown fox"),
                               HasSubstr("\n---\nlazy")));
}

TEST_F(GenerateCommand, RefusesBadInputWithItsValue) {
  expect_refused({"--prompt", "a", "--temperature", "-1"}, "temperature is -1");
  expect_refused({"--prompt", "a", "--top_p", "0"}, "top_p is 0");
  expect_refused({"--prompt", "a", "--top_k", "-3"}, "top_k is -3");
  expect_refused({"--prompt", "a", "--max_new_tokens", "0"}, "max_new_tokens is 0");
  expect_refused({"--prompt", "a", "--max_new_tokens", "many"}, "many");
  expect_refused({"--prompt", "a", "--dtype", "int8"}, "dtype 'int8'");
  expect_refused({"--prompt", "a", "--tokenizer", "/nowhere"}, "/nowhere");
  expect_refused({"--prompt", "a", "--max_new_tokens", "100000000000"}, "keys and values", 3);
  expect_refused({"--prompt", std::string(300, 'x')}, "the model's context is 64");
  expect_refused({}, "no prompt");
  expect_refused({"--prompt", "a", "--prompt_file", "b"}, "excludes");
  const auto missing =
      cli::run_titan({"generate", "--checkpoint", "/nowhere", "--prompt", "a"}, run_.path());
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("there is no /nowhere"));
}

TEST_F(GenerateCommand, StartsADocumentFromAnEmptyPrompt) {
  const auto outcome =
      titan({"--prompt", "", "--max_new_tokens", "5", "--seed", "1", "--ignore_eos"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_GT(outcome.out.size(), 1U);
}

TEST_F(GenerateCommand, WarnsBeyondTheContext) {
  const auto outcome =
      titan({"--prompt", "a", "--max_new_tokens", "90", "--ignore_eos", "--seed", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("more than the model's context of 64"));
}

// SIGINT: what was generated stays, exit code 130.
TEST_F(GenerateCommand, KeepsWhatThereIsOnAnInterrupt) {
  const auto out = (run_.path() / "out.txt").string(), err = (run_.path() / "err.txt").string();
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen(out.c_str(), "w", stdout) || !freopen(err.c_str(), "w", stderr)) _exit(9);
    execl(TITAN_BINARY, TITAN_BINARY, "generate", "--device", "cpu", "--checkpoint",
          run_.path().c_str(), "--prompt", "the fox", "--max_new_tokens", "200000", "--ignore_eos",
          "--seed", "1", nullptr);
    _exit(9);
  }
  for (int i = 0;
       i < 600 && (!std::filesystem::exists(out) || std::filesystem::file_size(out) < 40); ++i)
    usleep(100000);
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  std::ifstream text(out), log(err);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(text), {}),
              AllOf(StartsWith("the fox"), testing::EndsWith("\n")));
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(log), {}), HasSubstr("Decode: "));
}

}  // namespace
}  // namespace titan::generate
