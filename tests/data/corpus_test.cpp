#include "data/corpus.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/error.h"
#include "data/dataset.h"
#include "data/fixtures.h"
#include "data/loader.h"
#include "data/writers.h"

namespace titan::data {
namespace {

using testing::Folder;
namespace fs = std::filesystem;

// Three text files and a Parquet file with the records "0", "1", …
std::vector<DataFile> numbered_files(const Folder& folder, int per_file) {
  int number = 0;
  for (const char* name : {"d/a.txt", "d/b.txt", "d/c.txt.gz"}) {
    std::string text;
    for (int i = 0; i < per_file; ++i) text += fmt::format("{}\n", number++);
    folder.write(name, std::string(name).ends_with(".gz") ? testing::gzip(text) : text);
  }
  testing::Texts rows;
  for (int i = 0; i < per_file; ++i) rows.push_back(fmt::format("{}", number++));
  testing::write_parquet((folder / "d/d.parquet").string(), {rows});
  DatasetRequest request;
  request.name = "local";
  request.path = (folder / "d").string();
  return find_dataset(request).files;
}

TEST(Corpus, FindsRecordsInAnyOrderWithATinyCache) {
  const Folder folder;
  const auto files = numbered_files(folder, 500);
  std::vector<int64_t> order(2000);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  SourceOptions options;
  options.block_bytes = 256;
  Corpus corpus(files, options, 1);
  for (const int64_t number : order) {
    const auto found = corpus.find(number);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->record().bytes, std::to_string(number));
  }
  EXPECT_FALSE(corpus.find(2000));
  EXPECT_FALSE(corpus.find(1 << 30));
  EXPECT_EQ(corpus.size(), 2000);
}

TEST(Corpus, AKnownStartSavesReadingWhatLiesBefore) {
  const Folder folder;
  const auto files = numbered_files(folder, 500);
  SourceOptions options;
  options.block_bytes = 256;
  Corpus corpus(files, options);
  const auto start = corpus.find(777)->start;
  EXPECT_EQ(start.file, 1);
  // Reading the first file would be an error now (UTF-16).
  folder.write("d/a.txt",
               std::string("\xFF\xFE") + std::string(static_cast<size_t>(files[0].bytes) - 2, 'x'));
  Corpus resumed(files, options);
  EXPECT_THROW(resumed.find(777), Error);
  resumed.add_start(start);
  EXPECT_EQ(resumed.find(777)->record().bytes, "777");
  EXPECT_EQ(resumed.find(1999)->record().bytes, "1999");
}

TEST(Loader, ResumeSeeksInsteadOfReadingFromTheBeginning) {
  const Folder folder;
  const testing::ByteTokenizer tokenizer;
  numbered_files(folder, 500);
  auto options = testing::options_for((folder / "d").string());
  options.num_epochs = 2;
  Loader loader(options, tokenizer);
  while (loader.report().documents < 700) loader.next();
  const auto state = loader.state();
  const auto wanted = loader.next()->labels;
  const auto size = fs::file_size(folder / "d/a.txt");
  folder.write("d/a.txt", std::string("\xFF\xFE") + std::string(size - 2, 'x'));
  Loader resumed(options, tokenizer);
  resumed.restore(state);
  EXPECT_EQ(resumed.next()->labels, wanted);
}

TEST(LoaderOptions, ComeFromTheSections) {
  config::Training training;
  training.dataset_path = "x.txt";
  training.local_batch_size = 3;
  training.seq_len = 7;
  config::Data data;
  data.text_document = "paragraph";
  data.text_key = "content";
  data.virtual_streams = 24;
  const auto options = training_loader(training, data, 1, 2);
  EXPECT_EQ(options.global_batch_size, 6);
  EXPECT_EQ(options.reader, 1);
  EXPECT_EQ(options.num_readers, 2);
  EXPECT_EQ(options.dataset.path, "x.txt");
  EXPECT_EQ(options.dataset.text_document, TextDocument::kParagraph);
  EXPECT_EQ(options.dataset.text_key, "content");
  EXPECT_EQ(options.virtual_streams, 24);
  EXPECT_FALSE(options.num_epochs) << "training re-loops";
  training.global_batch_size = 12;
  training.num_epochs = 2;
  EXPECT_EQ(training_loader(training, data, 0, 2).global_batch_size, 12);
  EXPECT_EQ(training_loader(training, data, 0, 2).num_epochs, 2);

  config::Validation validation;
  EXPECT_EQ(validation_loader(validation, data, 0, 2).num_epochs, 1)
      << "steps = -1: one pass over all";
  EXPECT_EQ(validation_loader(validation, data, 0, 2).dataset.split, Split::kValidation);
  validation.steps = 10;
  EXPECT_FALSE(validation_loader(validation, data, 0, 2).num_epochs);
}

}  // namespace
}  // namespace titan::data
