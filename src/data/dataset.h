// Which files a data set consists of: registry names (c4, c4_test, …), files, folders, globs,
// Hugging Face folders.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/sources/source.h"

namespace titan::data {

enum class Split { kTrain, kValidation };

struct DatasetRequest {
  std::string name = "c4_test";  // see dataset_names()
  std::string
      path;  // file, folder, glob, or several of these separated by commas; "" = the name's own
  Split split = Split::kTrain;
  std::string text_key = "text";
  TextDocument text_document = TextDocument::kLine;
  std::string key = "training";  // config section, for messages
};

struct SkippedFile {
  std::string name;
  std::string reason;
};

struct Dataset {
  std::string name;
  std::vector<DataFile> files;  // in reading order; at least one
  SourceOptions options;
  std::vector<SkippedFile> skipped;  // files of folders that are no data files
  std::string note;  // how the files were chosen where that is not obvious; may be empty
};

// Throws Error that says what was looked for and which keys to set.
Dataset find_dataset(const DatasetRequest& request);

// "line", "paragraph", "file"; throws Error for another word.
TextDocument parse_text_document(const std::string& word);

}  // namespace titan::data
