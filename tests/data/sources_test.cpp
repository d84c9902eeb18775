#include "data/sources/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/files.h"
#include "data/fixtures.h"
#include "data/writers.h"

namespace titan::data {
namespace {

using testing::Folder;
using testing::gzip;
using testing::options_for;
using testing::read_all;
using testing::Texts;
using testing::write_arrow;
using testing::write_parquet;
using testing::zstd;

// "<s>a</s><s>b</s>" for {"a", "b"}.
std::string joined(const std::vector<std::string>& documents) {
  std::string text;
  for (const auto& document : documents) text += "<s>" + document + "</s>";
  return text;
}

// Checks that exactly these irregularities were counted.
void expect_counts(const DataReport& report, const std::map<Irregularity, int64_t>& wanted) {
  for (int i = 0; i < kNumIrregularities; ++i) {
    const auto what = static_cast<Irregularity>(i);
    const auto found = wanted.find(what);
    EXPECT_EQ(report.count(what), found == wanted.end() ? 0 : found->second) << name(what);
    EXPECT_EQ(report.first[static_cast<size_t>(i)].empty(), found == wanted.end()) << name(what);
  }
}

TEST(TextSource, EveryNonBlankLineIsADocument) {
  const Folder folder;
  const auto result = read_all(options_for(folder.write("a.txt", "one\n  two \nthree\n")));
  EXPECT_EQ(result.text, joined({"one", "  two ", "three"}));
  expect_counts(result.report, {});
  EXPECT_EQ(result.report.documents, 3);
}

TEST(TextSource, CountsMarkLineEndsBlankLinesAndTheLastLine) {
  const Folder folder;
  const auto result =
      read_all(options_for(folder.write("a.txt", "\xEF\xBB\xBFone\r\n\r\n  \t\ntwo\n\nthr\ree")));
  EXPECT_EQ(result.text, joined({"one", "two", "thr\ree"}));
  expect_counts(result.report, {{Irregularity::kByteOrderMark, 1},
                                {Irregularity::kCrlf, 2},
                                {Irregularity::kBlankLine, 3},
                                {Irregularity::kNoFinalNewline, 1}});
  EXPECT_EQ(result.report.first[static_cast<size_t>(Irregularity::kNoFinalNewline)], "a.txt:6");
  EXPECT_EQ(result.report.first[static_cast<size_t>(Irregularity::kBlankLine)], "a.txt:2");
}

TEST(TextSource, ParagraphsEndAtBlankLines) {
  const Folder folder;
  auto options = options_for(folder.write("a.txt", "\n\na\r\nb\n \n\nc\n\nd\ne"));
  options.dataset.text_document = TextDocument::kParagraph;
  const auto result = read_all(options);
  EXPECT_EQ(result.text, joined({"a\nb", "c", "d\ne"}));
  expect_counts(result.report, {{Irregularity::kCrlf, 1},
                                {Irregularity::kBlankLine, 5},
                                {Irregularity::kNoFinalNewline, 1}});
}

TEST(TextSource, WholeFilesAreDocuments) {
  const Folder folder;
  folder.write("t/a.txt",
               "\xEF\xBB\xBF"
               "a\r\n\nb\n");
  folder.write("t/b.txt", "");
  folder.write("t/c.txt", "c");
  auto options = options_for(folder.string());
  options.dataset.text_document = TextDocument::kFile;
  const auto result = read_all(options);
  EXPECT_EQ(result.text, joined({"a\n\nb\n", "c"}));
  expect_counts(
      result.report,
      {{Irregularity::kCrlf, 1}, {Irregularity::kByteOrderMark, 1}, {Irregularity::kEmptyFile, 1}});
}

TEST(TextSource, IllFormedUtf8BecomesTheReplacementCharacter) {
  const Folder folder;
  const auto result =
      read_all(options_for(folder.write("a.txt", "ok\nb\xFF\xC3(\n\xED\xA0\x80\n")));
  EXPECT_EQ(result.text,
            joined({"ok", "b\xEF\xBF\xBD\xEF\xBF\xBD(", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}));
  expect_counts(result.report, {{Irregularity::kInvalidUtf8, 2}});
}

TEST(TextSource, FilesWithoutDocumentsAreCountedWhereverTheyLie) {
  const Folder folder;
  folder.write("t/a.txt", "");
  folder.write("t/b.txt", "\n\n");
  folder.write("t/c.txt", "c\n");
  folder.write("t/d.txt", " \r\n");
  folder.write("t/e.parquet", "");
  folder.write("t/f.txt.gz", "");
  const auto result = read_all(options_for(folder.string()));
  EXPECT_EQ(result.text, joined({"c"}));
  expect_counts(
      result.report,
      {{Irregularity::kEmptyFile, 3}, {Irregularity::kBlankLine, 3}, {Irregularity::kCrlf, 1}});
  EXPECT_EQ(result.report.first[static_cast<size_t>(Irregularity::kBlankLine)], "t/b.txt:1");
}

TEST(TextSource, RefusesUtf16ByName) {
  const Folder folder;
  const auto options = options_for(folder.write("a.txt", std::string("\xFF\xFEh\0i\0", 6)));
  EXPECT_THROW(read_all(options), Error);
}

TEST(TextSource, DocumentsDoNotDependOnTheBlockSize) {
  const Folder folder;
  std::mt19937 random(3);
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += std::string(random() % 90, static_cast<char>('a' + i % 26)) +
            (random() % 9 ? "\n" : "\r\n");
    if (random() % 3 == 0) text += "\n";
  }
  const auto path = folder.write("a.txt", text);
  for (const auto unit : {TextDocument::kLine, TextDocument::kParagraph, TextDocument::kFile}) {
    std::vector<std::string> wanted;
    for (const int64_t block : {1 << 20, 1, 7, 64, 1000}) {
      DataFile file;
      file.path = path;
      const auto source =
          open_source(file, {.text_key = "text", .text_document = unit, .block_bytes = block});
      std::vector<std::string> got;
      std::map<Irregularity, int64_t> counts;
      std::optional<Place> place = Place{};
      while (place) {
        const Block one = source->read(*place);
        for (const auto& record : one.records)
          got.push_back(fmt::format("{}:{}", record.line, record.bytes));
        for (const auto& note : one.notes) counts[note.what] += note.count;
        // Reading the place again gives the same block.
        const Block again = source->read(*place);
        ASSERT_EQ(again.records.size(), one.records.size());
        ASSERT_EQ(again.notes.size(), one.notes.size());
        place = one.next;
      }
      for (const auto& [what, count] : counts)
        got.push_back(fmt::format("{}={}", name(what), count));
      if (wanted.empty()) wanted = got;
      EXPECT_EQ(got, wanted) << "block " << block;
    }
    EXPECT_GT(wanted.size(), unit == TextDocument::kFile ? 1u : 100u);
  }
}

TEST(JsonSource, TakesTheTextKeyAndCountsTheRest) {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl",
                   "{\"text\": \"one\", \"n\": [1, {\"text\": \"no\"}]}\n"
                   "{\"text\": \"\"}\n"
                   "{\"txt\": \"x\"}\n"
                   "{\"text\": null}\n"
                   "{\"text\": 7}\n"
                   "{\"text\": \"cut\n"
                   "\n"
                   "[1]\n"
                   "{\"text\": \"a\"} {\"text\": \"b\"}\n"
                   "{\"text\": \"two\\n\\u00e9\\ud83d\\ude00\\\\u\", \"text2\": 1}\r\n"
                   "{\"text\": \"first\", \"text\": \"last\"}");
  const auto result = read_all(options_for(path));
  EXPECT_EQ(result.text, joined({"one", "two\n\xC3\xA9\xF0\x9F\x98\x80\\u", "last"}));
  expect_counts(result.report, {{Irregularity::kEmptyText, 1},
                                {Irregularity::kMissingText, 2},
                                {Irregularity::kNonStringText, 1},
                                {Irregularity::kJsonError, 3},
                                {Irregularity::kBlankLine, 1},
                                {Irregularity::kCrlf, 1},
                                {Irregularity::kNoFinalNewline, 1}});
  EXPECT_THAT(result.report.first[static_cast<size_t>(Irregularity::kMissingText)],
              ::testing::HasSubstr("keys: txt"));
  EXPECT_THAT(result.report.first[static_cast<size_t>(Irregularity::kJsonError)],
              ::testing::StartsWith("a.jsonl:6"));
}

TEST(JsonSource, MendsIllFormedUtf8AndLoneSurrogates) {
  const Folder folder;
  const auto result =
      read_all(options_for(folder.write("a.jsonl",
                                        "{\"text\": \"a\xFF\"}\n"
                                        "{\"text\": \"\\ud800x\\\\ud800\"}\n"
                                        "{\"text\": \"\\udc00\xFF\\ud83d\\ude00\"}\n")));
  EXPECT_EQ(result.text, joined({"a\xEF\xBF\xBD", "\xEF\xBF\xBDx\\ud800",
                                 "\xEF\xBF\xBD\xEF\xBF\xBD\xF0\x9F\x98\x80"}));
  expect_counts(result.report, {{Irregularity::kInvalidUtf8, 3}});
}

TEST(JsonSource, RefusesAnArrayByName) {
  const Folder folder;
  try {
    read_all(options_for(folder.write("a.json", "[{\"text\": \"a\"}]")));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("jq -c"));
  }
}

TEST(JsonSource, ReadsAnotherTextKey) {
  const Folder folder;
  auto options = options_for(folder.write("a.jsonl", "{\"content\": \"c\", \"text\": \"t\"}\n"));
  options.dataset.text_key = "content";
  EXPECT_EQ(read_all(options).text, joined({"c"}));
}

TEST(JsonSource, ReadsALineOfFiftyMegabytes) {
  const Folder folder;
  const std::string longer(50 << 20, 'x');
  const auto path = folder.write(
      "a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + longer + "\"}\n{\"text\": \"b\"}\n");
  const auto result = read_all(options_for(path));
  EXPECT_EQ(result.text.size(), joined({"a", longer, "b"}).size());
  EXPECT_TRUE(result.text == joined({"a", longer, "b"}));
  expect_counts(result.report, {{Irregularity::kLongDocument, 1}});
}

std::string json_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{{\"text\": \"document {} {}\"}}\n", i,
                        std::string(static_cast<size_t>(i * 7 % 50), 'y'));
  }
  return text;
}

TEST(Compressed, GzipAndZstdGiveThePlainContent) {
  const Folder folder;
  const std::string content = json_lines(60'000);  // several blocks of 1 MiB
  const std::string half = content.substr(0, content.find('\n', content.size() / 2) + 1),
                    rest = content.substr(half.size());
  const auto wanted = read_all(options_for(folder.write("a.jsonl", content)));
  for (const auto& [name, bytes] : std::map<std::string, std::string>{
           {"a.jsonl.gz", gzip(content)},
           {"members.jsonl.gz", gzip(half) + gzip(rest) + std::string(512, '\0')},
           {"a.jsonl.zst", zstd(content)},
           {"frames.jsonl.zst", zstd(half) + zstd(rest)}}) {
    const auto got = read_all(options_for(folder.write(name, bytes)));
    EXPECT_EQ(got.report.documents, 60'000) << name;
    EXPECT_TRUE(got.text == wanted.text) << name;
    expect_counts(got.report, {});
  }
}

TEST(Compressed, TruncatedFilesGiveTheirWholeLinesAndAreCounted) {
  const Folder folder;
  std::string content;
  std::mt19937 random(5);
  for (int i = 0; i < 20'000; ++i) content += fmt::format("{{\"text\": \"{} {}\"}}\n", i, random());
  const auto whole = read_all(options_for(folder.write("a.jsonl", content)));
  std::string bad_middle = gzip(content);
  bad_middle[bad_middle.size() / 2] ^= 0x55;
  const std::string gz = gzip(content), zst = zstd(content);
  for (const auto& [name, bytes] :
       std::map<std::string, std::string>{{"a.jsonl.gz", gz.substr(0, gz.size() / 2)},
                                          {"b.jsonl.zst", zst.substr(0, zst.size() / 2)},
                                          {"c.jsonl.gz", bad_middle},
                                          {"d.jsonl.gz", gz.substr(0, gz.size() - 4)}}) {
    const auto got = read_all(options_for(folder.write(name, bytes)));
    EXPECT_EQ(got.report.count(Irregularity::kTruncatedFile), 1) << name;
    EXPECT_GT(got.report.documents, 1000) << name;
    // A flipped bit may garble lines before the decoder notices; cut files are exact.
    if (name == "c.jsonl.gz") continue;
    EXPECT_TRUE(whole.text.starts_with(got.text)) << name;
    expect_counts(got.report, {{Irregularity::kTruncatedFile, 1}});
  }
}

TEST(Parquet, ReadsEveryCodecAndCountsNullsAndEmptyGroups) {
  const Folder folder;
  using parquet::Compression;
  for (const auto codec : {Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP,
                           Compression::ZSTD, Compression::BROTLI, Compression::LZ4_HADOOP}) {
    const auto path = (folder / "a.parquet").string();
    write_parquet(path, {{}, {"one", std::nullopt, ""}, {}, {"b\xFF", "three"}, {}}, codec);
    const auto result = read_all(options_for(path));
    EXPECT_EQ(result.text, joined({"one", "b\xEF\xBF\xBD", "three"}));
    expect_counts(result.report, {{Irregularity::kMissingText, 1},
                                  {Irregularity::kEmptyText, 1},
                                  {Irregularity::kEmptyRowGroup, 3},
                                  {Irregularity::kInvalidUtf8, 1}});
  }
}

TEST(Parquet, FileWithoutRowsIsCounted) {
  const Folder folder;
  write_parquet((folder / "a.parquet").string(), {{}, {}});
  write_parquet((folder / "b.parquet").string(), {});
  write_parquet((folder / "c.parquet").string(), {{"c"}});
  const auto result = read_all(options_for(folder.string()));
  EXPECT_EQ(result.text, joined({"c"}));
  expect_counts(result.report, {{Irregularity::kEmptyRowGroup, 2}});
}

TEST(Parquet, SeveralBatchesOfARowGroupAndAnyOrderOfReading) {
  const Folder folder;
  Texts texts;
  std::string wanted;
  for (int i = 0; i < 5000; ++i) {
    texts.push_back(fmt::format("{} {}", i, std::string(static_cast<size_t>(i % 40), 'z')));
    wanted += "<s>" + *texts.back() + "</s>";
  }
  const auto path = (folder / "a.parquet").string();
  write_parquet(
      path, {Texts(texts.begin(), texts.begin() + 3000), Texts(texts.begin() + 3000, texts.end())});
  EXPECT_EQ(read_all(options_for(path)).text, wanted);
  DataFile file;
  file.path = path;
  file.format = Format::kParquet;
  const auto source = open_source(file, {.block_bytes = 4096});
  for (const int64_t row : {0, 4999, 17, 2999, 3000, 1, 4000}) {
    const auto block = source->read({.position = row, .line = row + 1});
    ASSERT_FALSE(block.records.empty());
    EXPECT_LT(block.records.size(), 2000u);
    EXPECT_EQ(block.records[0].bytes, *texts[static_cast<size_t>(row)]);
    EXPECT_EQ(block.records[0].line, row + 1);
  }
}

TEST(Parquet, NamesColumnsWhenTheTextKeyIsWrong) {
  const Folder folder;
  const auto path = (folder / "a.parquet").string();
  write_parquet(path, {{"a"}}, parquet::Compression::SNAPPY, "content");
  auto options = options_for(path);
  for (const char* key : {"text", "id"}) {
    options.dataset.text_key = key;
    try {
      read_all(options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("data.text_key to one of: content"));
    }
  }
}

TEST(Parquet, DamagedPagesLoseTheirRowsButNotTheRun) {
  const Folder folder;
  const auto path = (folder / "a.parquet").string();
  Texts first, second;
  for (int i = 0; i < 2000; ++i) {
    first.push_back(fmt::format("first {} {}", i, i * 7919));
    second.push_back(fmt::format("second {} {}", i, i * 7919));
  }
  write_parquet(path, {first, second}, parquet::Compression::UNCOMPRESSED);
  std::string bytes = files::read(path);
  const size_t at = bytes.find("first 1000 ");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'F';  // the page's checksum is wrong now
  folder.write("a.parquet", bytes);
  const auto result = read_all(options_for(path));
  EXPECT_EQ(result.report.count(Irregularity::kTruncatedFile), 1);
  EXPECT_EQ(result.report.documents + result.report.count(Irregularity::kUnreadableRows), 4000);
  EXPECT_GT(result.report.count(Irregularity::kUnreadableRows), 900);
  EXPECT_THAT(result.text, ::testing::HasSubstr("<s>second 1999 "));
}

TEST(Parquet, ACutFileIsRefusedBeforeTheFirstSample) {
  const Folder folder;
  const testing::ByteTokenizer tokenizer;
  const auto path = (folder / "a.parquet").string();
  write_parquet(path, {{"a", "b"}});
  const std::string bytes = files::read(path);
  folder.write("a.parquet", bytes.substr(0, bytes.size() - 10));
  try {
    const Loader loader(options_for(path), tokenizer);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("cut short"));
  }
}

TEST(ArrowIpc, FilesAndStreamsGiveTheirRows) {
  const Folder folder;
  for (const bool stream : {false, true}) {
    const auto path = (folder / "a.arrow").string();
    write_arrow(path, {{}, {"one", std::nullopt}, {}, {"", "two"}}, stream);
    const auto result = read_all(options_for(path));
    EXPECT_EQ(result.text, joined({"one", "two"}));
    expect_counts(result.report, {{Irregularity::kMissingText, 1},
                                  {Irregularity::kEmptyText, 1},
                                  {Irregularity::kEmptyRowGroup, 2}});
  }
}

TEST(ArrowIpc, ACutStreamGivesItsWholeBatches) {
  const Folder folder;
  const auto path = (folder / "a.arrow").string();
  write_arrow(path, {{"one"}, {"two"}, {"three"}}, true);
  const std::string bytes = files::read(path);
  folder.write("a.arrow", bytes.substr(0, bytes.size() - 100));
  const auto result = read_all(options_for(path));
  EXPECT_EQ(result.text, joined({"one", "two"}));
  expect_counts(result.report, {{Irregularity::kTruncatedFile, 1}});
}

TEST(ArrowIpc, ResumesAtABatchWithoutReadingTheOnesBefore) {
  const Folder folder;
  for (const bool stream : {false, true}) {
    const auto path = (folder / "a.arrow").string();
    std::vector<Texts> batches;
    for (int i = 0; i < 200; ++i)
      batches.push_back({fmt::format("{} a", i), fmt::format("{} b", i)});
    write_arrow(path, batches, stream);
    DataFile file;
    file.path = path;
    file.format = stream ? Format::kArrowStream : Format::kArrowFile;
    const auto source = open_source(file, {});
    Place place{};
    for (int i = 0; i < 150; ++i) place = *source->read(place).next;
    const auto fresh = open_source(file, {});
    const auto block = fresh->read(place);
    EXPECT_EQ(block.records[0].bytes, "150 a");
    EXPECT_EQ(block.records[0].line, 301);
  }
}

}  // namespace
}  // namespace titan::data
