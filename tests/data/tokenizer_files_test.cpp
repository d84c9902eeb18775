#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "data/json_reader.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/trainer.h"

namespace titan::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenizerFiles : public ::testing::Test {
 protected:
  TokenizerFiles() { fs::create_directories(folder_); }
  ~TokenizerFiles() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  // A character BPE of a few tokens; `model` and `rest` are put into the file as they are.
  std::string json(const std::string& vocab, const std::string& merges,
                   const std::string& rest = "") {
    return R"({"version": "1.0")" + rest + R"(, "model": {"type": "BPE", "vocab": )" + vocab +
           R"(, "merges": )" + merges + "}}";
  }
  static std::string error_of(const fs::path& path) {
    try {
      load_tokenizer(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "no error";
  }
  static std::vector<int32_t> ids(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<int32_t> out;
    tokenizer.encode(text, out);
    return out;
  }

  fs::path folder_ =
      fs::temp_directory_path() / ("titan_tokenizer_files_" + std::to_string(::getpid()));
};

constexpr const char* kVocab = R"({"a": 0, "b": 1, "ab": 2, "</s>": 3, "<s>": 4})";

TEST_F(TokenizerFiles, EachDamageIsNamedWithFileAndPlace) {
  const std::string whole = json(kVocab, R"([["a", "b"]])");
  EXPECT_THAT(error_of(write("cut.json", whole.substr(0, whole.size() - 3))),
              AllOf(HasSubstr("cut.json, line 1, column"), HasSubstr("the text ends early")));
  EXPECT_THAT(error_of(write("empty.json", "")), HasSubstr("empty.json: the file is empty"));
  EXPECT_THAT(error_of(write("m.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}}})")),
              HasSubstr("model: the key \"merges\" is missing"));
  EXPECT_THAT(
      error_of(write("u.json", json(kVocab, R"([["a", "x"]])"))),
      AllOf(HasSubstr("model.merges: [0]"), HasSubstr("token \"x\" is not in model.vocab")));
  EXPECT_THAT(error_of(write("p.json", json(kVocab, R"(["a b", "ab"])"))),
              HasSubstr("[1]: \"ab\" is no merge"));
  EXPECT_THAT(error_of(write("d.json", json(R"({"a": 0, "b": 0})", "[]"))),
              HasSubstr("id 0 belongs to two tokens: \"a\" and \"b\""));
  EXPECT_THAT(error_of(write("t.json", json(R"({"a": 0, "a": 1})", "[]"))),
              HasSubstr("token \"a\" occurs twice"));
  EXPECT_THAT(error_of(write("n.json", json(R"({"a": -1})", "[]"))),
              HasSubstr("the id of token \"a\""));
  EXPECT_THAT(error_of(write("v.json", json("{}", "[]"))), HasSubstr("the vocabulary is empty"));
  EXPECT_THAT(error_of(folder_ / "none.json"), HasSubstr("does not exist"));
  EXPECT_THAT(error_of(folder_), HasSubstr("holds"));  // no tokenizer.json in it
}

TEST_F(TokenizerFiles, WhatIsNotSupportedIsRefusedByName) {
  for (const char* type : {"WordPiece", "Unigram", "WordLevel"}) {
    const auto file =
        write("x.json", std::string(R"({"model": {"type": ")") + type + R"(", "vocab": {}}})");
    EXPECT_THAT(error_of(file), HasSubstr(std::string("a ") + type + " model is not supported"));
  }
  const auto refuse = [&](const char* part, const char* type) {
    const auto file =
        write("y.json",
              json(kVocab, "[]", std::string(R"(, ")") + part + R"(": {"type": ")" + type + "\"}"));
    EXPECT_THAT(error_of(file), HasSubstr(type));
  };
  refuse("normalizer", "Precompiled");
  refuse("pre_tokenizer", "UnicodeScripts");
  refuse("post_processor", "Mystery");
  refuse("decoder", "WordPiece");
  const auto regex = write(
      "r.json", json(kVocab, "[]", R"(, "pre_tokenizer": {"type": "Split", "behavior": "Isolated",
      "invert": false, "pattern": {"Regex": "[a-"}})"));
  EXPECT_THAT(error_of(regex), HasSubstr("the regex [a-"));
}

TEST_F(TokenizerFiles, ASuffixIsSeenAlsoBehindByteLevel) {
  const std::string vocab = R"({"a": 0, "a</w>": 1, "Ġ": 2})";
  const auto file = write(
      "s.json", R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "model": {
      "type": "BPE", "end_of_word_suffix": "</w>", "merges": [], "vocab": )" +
                    vocab + "}}");
  EXPECT_THAT(ids(*load_tokenizer(file), "aa a"), ElementsAre(0, 1, 2, 1));
}

TEST_F(TokenizerFiles, ADamagedRankFileIsNamedWithItsLine) {
  EXPECT_THAT(error_of(write("a.model", "IQ== 0\nI? 1\n")),
              AllOf(HasSubstr("a.model, line 2"), HasSubstr("no base64")));
  EXPECT_THAT(error_of(write("b.model", "IQ== 0\nIg== x\n")),
              AllOf(HasSubstr("line 2"), HasSubstr("\"x\" is no rank")));
  EXPECT_THAT(error_of(write("c.model", "IQ== 0\nIg== 0\n")), HasSubstr("rank 0 occurs twice"));
  EXPECT_THAT(error_of(write("d.model", "IQ== 0\nIg== 2\n")),
              HasSubstr("the file is not complete"));
  EXPECT_THAT(error_of(write("e.model", std::string("\x0a\x03\0nonsense", 11))),
              HasSubstr("no SentencePiece model"));
}

TEST_F(TokenizerFiles, BosAndEosComeFromTheFirstFileThatNamesThem) {
  write("tokenizer.json", json(kVocab, R"([["a", "b"]])"));
  const auto none = load_tokenizer(folder_);
  EXPECT_FALSE(none->bos_id() || none->eos_id());
  EXPECT_TRUE(none->document_prefix().empty());
  write("config.json", R"({"bos_token_id": 1, "eos_token_id": [0, 1]})");
  EXPECT_EQ(load_tokenizer(folder_)->bos_id(), 1);
  EXPECT_EQ(load_tokenizer(folder_)->eos_id(), 0);
  write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>"})");
  const auto named = load_tokenizer(folder_);
  EXPECT_EQ(named->bos_id(), 4);
  EXPECT_EQ(named->eos_id(), 3);
  EXPECT_THAT(ids(*named, "abaab"), ElementsAre(2, 0, 2));
  write("tokenizer_config.json", R"({"bos_token": "<none>"})");
  EXPECT_THAT(error_of(folder_), HasSubstr("\"<none>\" is not in tokenizer.json"));
}

TEST_F(TokenizerFiles, TrainingAddsBosOnlyWhereThePostProcessorDoesNot) {
  const std::string post = R"(, "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}})";
  write("tokenizer.json", json(kVocab, "[]", post));
  write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  const auto tokenizer = load_tokenizer(folder_);
  EXPECT_THAT(tokenizer->document_prefix(), ElementsAre(4));
  EXPECT_THAT(tokenizer->document_suffix(), ElementsAre(3));
}

TEST_F(TokenizerFiles, WhatTrainingWritesEncodesAndDecodesAnyBytes) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the cat sat on the mat " + std::to_string(i) + "\n";
  TrainRequest request{{write("text.txt", text)}, 300, 0, 2};
  const auto report = train_tokenizer(request, folder_ / "out");
  EXPECT_EQ(report.bytes, static_cast<int64_t>(text.size()));
  const auto tokenizer = load_tokenizer(folder_ / "out");
  EXPECT_EQ(tokenizer->vocab_size(), report.vocab_size);
  EXPECT_EQ(tokenizer->bos_id(), 0);
  EXPECT_EQ(tokenizer->eos_id(), 1);
  const std::string any = "the mat — 你好 \x01\n\t😀";
  EXPECT_EQ(tokenizer->decode(ids(*tokenizer, any)), any);
  EXPECT_LT(ids(*tokenizer, " the mat").size(), 4u);
  EXPECT_EQ(tokenizer->decode(ids(*tokenizer, "a\xFF\xE4\xBD!")), "a\uFFFD\uFFFD!");
  EXPECT_THROW(tokenizer->token_bytes(static_cast<int32_t>(tokenizer->vocab_size())), Error);
}

TEST_F(TokenizerFiles, TrainingDoesNotDependOnTheNumberOfThreads) {
  std::string text;
  for (int i = 0; i < 60000; ++i)
    text += "word" + std::to_string(i * 7919 % 5003) + (i % 9 ? " " : "\n");
  const auto file = write("text.txt", text);
  std::string first;
  for (const int threads : {1, 2, 5}) {
    train_tokenizer({{file}, 600, 0, threads}, folder_ / "out");
    std::ifstream stream(folder_ / "out" / "tokenizer.json");
    const std::string made((std::istreambuf_iterator<char>(stream)), {});
    if (first.empty()) first = made;
    EXPECT_EQ(made, first) << threads << " threads";
  }
}

TEST(JsonReader, ReadsAndRefusesAsPythonDoes) {
  JsonReader json;
  EXPECT_FALSE(json.parse(
      R"({"a": [1, -2.5e3, true, null, NaN], "b": "x\n\u00e9\ud83d\ude00", "a": "last"})"));
  EXPECT_EQ(json.node(*json.member(0, "a")).text, "last");
  EXPECT_EQ(json.node(*json.member(0, "b")).text, "x\né😀");
  EXPECT_FALSE(json.parse(R"(["\ud800x", "\udc00\ud800"])"));
  EXPECT_EQ(json.node(1).text, "\uFFFDx");
  EXPECT_EQ(json.mended_escapes(), 3);
  for (const char* bad : {"", "{", "[1,]", "{\"a\" 1}", "{\"a\": 1,}", "\"a", "\"\\x\"", "\"a\nb\"",
                          "01a", "tru", "[1] 2", "{1: 2}", "\"\\u12\"", "-", "1.", "[1 2]"}) {
    EXPECT_TRUE(json.parse(bad)) << bad;
  }
  const auto problem = json.parse(R"({"a": [1, }])");
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->offset, 10u);
  EXPECT_TRUE(json.parse(std::string(100000, '[')));  // no stack overflow
}

}  // namespace
}  // namespace titan::data
