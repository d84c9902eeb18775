#include "data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/fixtures.h"
#include "data/writers.h"

namespace titan::data {
namespace {

using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using testing::options_for;
using testing::read_all;
namespace fs = std::filesystem;

DatasetRequest local(const std::string& path, Split split = Split::kTrain) {
  DatasetRequest request;
  request.name = "local";
  request.path = path;
  request.split = split;
  return request;
}

std::vector<std::string> names(const Dataset& dataset) {
  std::vector<std::string> out;
  for (const auto& file : dataset.files) out.push_back(file.name);
  return out;
}

std::string error_of(const DatasetRequest& request) {
  try {
    find_dataset(request);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Dataset, MixedFolderIsReadByExtensionInSortedOrder) {
  const Folder folder;
  folder.write("d/b.jsonl", "{\"text\": \"b\"}\n");
  folder.write("d/a/z.txt", "z\n");
  folder.write("d/c.txt.gz", testing::gzip("c\n"));
  folder.write("d/d.json.zst", testing::zstd("{\"text\": \"d\"}\n"));
  folder.write("d/README.md", "# no data");
  folder.write("d/dataset_infos.json", "{}");
  folder.write("d/.cache/x.txt", "hidden");
  testing::write_parquet((folder / "d/e.parquet").string(), {{"e"}});
  testing::write_arrow((folder / "d/f.arrow").string(), {{"f"}}, false);
  testing::write_arrow((folder / "d/g.arrow").string(), {{"g"}}, true);
  const auto dataset = find_dataset(local((folder / "d").string()));
  EXPECT_THAT(names(dataset), ElementsAre("a/z.txt", "b.jsonl", "c.txt.gz", "d.json.zst",
                                          "e.parquet", "f.arrow", "g.arrow"));
  EXPECT_EQ(dataset.files[5].format, Format::kArrowFile);
  EXPECT_EQ(dataset.files[6].format, Format::kArrowStream);
  EXPECT_EQ(dataset.skipped.size(), 2u);
  const auto result = read_all(options_for((folder / "d").string()));
  EXPECT_EQ(result.text, "<s>z</s><s>b</s><s>c</s><s>d</s><s>e</s><s>f</s><s>g</s>");
  EXPECT_EQ(result.report.count(Irregularity::kSkippedFile), 2);
}

TEST(Dataset, GlobsAndListsKeepTheirOrder) {
  const Folder folder;
  for (const char* name : {"c.txt", "a.txt", "b.txt", "b.json"}) folder.write(name, "{}\n");
  EXPECT_THAT(names(find_dataset(local((folder / "*.txt").string()))),
              ElementsAre("a.txt", "b.txt", "c.txt"));
  EXPECT_THAT(names(find_dataset(
                  local((folder / "c.txt").string() + ", " + (folder / "[ab].txt").string()))),
              ElementsAre("c.txt", "a.txt", "b.txt"));
  EXPECT_THAT(error_of(local((folder / "*.parquet").string())), HasSubstr("no such file"));
  folder.write("with,comma.txt", "x\n");
  EXPECT_THAT(names(find_dataset(local((folder / "with,comma.txt").string()))),
              ElementsAre("with,comma.txt"));
}

TEST(Dataset, FilesWithoutAKnownExtensionAreToldByTheirBytes) {
  const Folder folder;
  EXPECT_EQ(read_all(options_for(folder.write("plain", "a\n"))).text, "<s>a</s>");
  EXPECT_EQ(read_all(options_for(folder.write("lines", "{\"text\": \"b\"}\n"))).text, "<s>b</s>");
  EXPECT_EQ(read_all(options_for(folder.write("packed", testing::gzip("c\n")))).text, "<s>c</s>");
  EXPECT_EQ(
      read_all(options_for(folder.write("packed2", testing::zstd("{\"text\": \"d\"}\n")))).text,
      "<s>d</s>");
  testing::write_parquet((folder / "columns").string(), {{"e"}});
  EXPECT_EQ(read_all(options_for((folder / "columns").string())).text, "<s>e</s>");
}

TEST(Dataset, NamesThatSpeakOfSplitsChooseTheFiles) {
  const Folder folder;
  for (const char* name : {"en/c4-train.00000-of-00002.json", "en/c4-train.00001-of-00002.json",
                           "en/c4-validation.00000-of-00001.json"}) {
    folder.write(name, "{\"text\": \"x\"}\n");
  }
  const std::string path = folder.string();
  const auto train = find_dataset(local(path));
  EXPECT_THAT(names(train),
              ElementsAre("en/c4-train.00000-of-00002.json", "en/c4-train.00001-of-00002.json"));
  EXPECT_THAT(train.note, HasSubstr("2 of 3 files"));
  EXPECT_THAT(names(find_dataset(local(path, Split::kValidation))),
              ElementsAre("en/c4-validation.00000-of-00001.json"));
  // The name in the registry says the split, whichever section it stands in.
  auto c4 = local(path, Split::kTrain);
  c4.name = "c4_validation";
  folder.write("realnewslike/c4-validation.00000-of-00001.json", "{\"text\": \"x\"}\n");
  EXPECT_THAT(names(find_dataset(c4)), ElementsAre("c4-validation.00000-of-00001.json"));
  EXPECT_EQ(find_dataset(c4).files[0].path, folder / "en/c4-validation.00000-of-00001.json");
}

TEST(Dataset, SaveToDiskFoldersFollowTheirIndex) {
  const Folder folder;
  for (const char* split : {"train", "test"}) {
    const std::string base = std::string("saved/") + split + "/";
    folder.write(
        base + "state.json",
        R"({"_data_files": [{"filename": "data-00001-of-00002.arrow"}, {"filename": "data-00000-of-00002.arrow"}]})");
    folder.write(base + "dataset_info.json", "{}");
    testing::write_arrow((folder / (base + "data-00000-of-00002.arrow")).string(),
                         {{std::string(split) + "0"}}, true);
    testing::write_arrow((folder / (base + "data-00001-of-00002.arrow")).string(),
                         {{std::string(split) + "1"}}, true);
  }
  folder.write("saved/dataset_dict.json", R"({"splits": ["train", "test"]})");
  auto options = options_for((folder / "saved").string());
  EXPECT_EQ(read_all(options).text, "<s>train1</s><s>train0</s>");
  options.dataset.split = Split::kValidation;
  EXPECT_EQ(read_all(options).text, "<s>test1</s><s>test0</s>");
  EXPECT_EQ(read_all(options_for((folder / "saved/test").string())).text,
            "<s>test1</s><s>test0</s>");

  fs::remove(folder / "saved/train/data-00000-of-00002.arrow");
  EXPECT_THAT(error_of(local((folder / "saved").string())), HasSubstr("listed in state.json"));
  folder.write("saved/dataset_dict.json", R"({"splits": ["other"]})");
  EXPECT_THAT(error_of(local((folder / "saved").string())), HasSubstr("none of them train"));
  folder.write("saved/dataset_dict.json", "{");
  EXPECT_THAT(error_of(local((folder / "saved").string())), HasSubstr("damaged"));
  for (const char* wrong : {R"({"splits": 3})", "[]", "{}"}) {
    folder.write("saved/dataset_dict.json", wrong);
    EXPECT_THAT(error_of(local((folder / "saved").string())), HasSubstr("[data]")) << wrong;
  }
  for (const char* wrong : {R"({"_data_files": [{}]})", R"({"_data_files": [1]})", "[]", "{}"}) {
    folder.write("saved/test/state.json", wrong);
    EXPECT_THAT(error_of(local((folder / "saved/test").string())), HasSubstr("[data]")) << wrong;
  }
}

TEST(Dataset, RegistryErrorsSayWhatToDo) {
  const Folder folder;
  DatasetRequest request;
  request.name = "c4";
  EXPECT_THAT(error_of(request), HasSubstr("training.dataset_path"));
  EXPECT_THAT(error_of(request), HasSubstr("allenai/c4"));
  request.name = "c4_tset";
  EXPECT_THAT(error_of(request), HasSubstr("did you mean 'c4_test'"));
  request.name = "c4";
  request.path = "allenai/c4";
  EXPECT_THAT(error_of(request), HasSubstr("huggingface-cli download"));
  request.path = folder.string();
  EXPECT_THAT(error_of(request), HasSubstr("no data file"));

  const auto before = fs::current_path();
  fs::current_path(folder.string());
  request.name = "c4_test";
  request.path.clear();
  request.key = "validation";
  EXPECT_THAT(error_of(request), HasSubstr("validation.dataset_path"));
  folder.write("tests/assets/c4_test/data.json", "{\"text\": \"x\"}\n");
  EXPECT_THAT(names(find_dataset(request)), ElementsAre("data.json"));
  fs::current_path(before);
}

}  // namespace
}  // namespace titan::data
