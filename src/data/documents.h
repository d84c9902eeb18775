// The documents of a data set one after another, as training gets to see them: for inspection,
// counts and tests.
#pragma once

#include <optional>
#include <string_view>

#include "data/corpus.h"
#include "data/dataset.h"
#include "data/document.h"
#include "data/report.h"

namespace titan::data {

// Adds the irregularities that belong to a record, with their places.
void add_notes(const Corpus& corpus, const FoundRecord& found, DataReport& report);
// Those behind the last record of the data set, once it was reached.
void add_loose_notes(const Corpus& corpus, DataReport& report);

class DocumentReader {
 public:
  explicit DocumentReader(Dataset dataset);

  struct Document {
    std::string_view text;  // valid until the next call
    std::string_view file;
    int64_t line = 0;  // line or row, from 1
  };
  // nullopt after the last one. Throws Error when a file cannot be read.
  std::optional<Document> next();

  int64_t records() const { return record_; }  // read so far, skipped ones included
  const DataReport& report() const { return report_; }
  const Dataset& dataset() const { return dataset_; }

 private:
  Dataset dataset_;
  Corpus corpus_;
  TextExtractor extractor_;
  DataReport report_;
  std::optional<FoundRecord> found_;  // keeps the text of the last document alive
  int64_t record_ = 0;
  bool ended_ = false;
};

}  // namespace titan::data
