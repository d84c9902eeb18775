#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "generate/prompts.h"

namespace titan::generate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Prompts, AreTheLinesOfAText) {
  const auto file = parse_prompts("\xEF\xBB\xBFone\r\n\n  two \n{\"prompt\": 3}", "p.txt");
  EXPECT_THAT(file.prompts, ElementsAre("one", "  two ", "{\"prompt\": 3}"));
  EXPECT_EQ(file.blank_lines, 1);
  EXPECT_EQ(file.replaced_bytes, 0);
}

TEST(Prompts, OfJsonLinesAreTheirPromptOrText) {
  const auto file =
      parse_prompts("{\"prompt\": \"a\\nb\"}\n\n{\"text\": \"\", \"id\": 4}\n", "p.jsonl");
  EXPECT_THAT(file.prompts, ElementsAre("a\nb", ""));
}

TEST(Prompts, ThatAreNotUtf8AreRepairedAndCounted) {
  const auto file = parse_prompts(
      "a\xFF"
      "b\n",
      "p.txt");
  EXPECT_THAT(file.prompts, ElementsAre("a\xEF\xBF\xBD"
                                        "b"));
  EXPECT_EQ(file.replaced_bytes, 1);
}

TEST(Prompts, ThatCannotBeReadAreNamedByFileAndLine) {
  const auto message = [](const char* content, const char* part) {
    EXPECT_THAT([&] { parse_prompts(content, "p.jsonl"); }, ThrowsMessage<Error>(HasSubstr(part)));
  };
  message("{\"prompt\": \"a\"}\n{\"prompt\": 3}\n", "p.jsonl:2");
  message("{\"other\": \"a\"}\n", "neither \"prompt\" nor \"text\"");
  message("\"a\"\n", "p.jsonl:1: a JSON object is needed");
  message("{\"prompt\"\n", "p.jsonl:1");
  message("\n\n", "holds no prompt");
  EXPECT_THAT([] { read_prompts("/nowhere/p.txt"); },
              ThrowsMessage<Error>(HasSubstr("there is no file /nowhere/p.txt")));
  EXPECT_THAT([] { read_prompts("/"); }, ThrowsMessage<Error>(HasSubstr("is a folder")));
}

}  // namespace
}  // namespace titan::generate
