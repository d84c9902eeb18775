// What the data tests share: a folder that goes away, a tokenizer whose ids are bytes, and the
// reading of a whole set.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/tokenizer/tokenizer.h"

namespace titan::data::testing {
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "titan-data-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::string string() const { return path_.string(); }
  // Writes a file (folders are made) and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

// Ids 0–255 are bytes, 256 is BOS, 257 EOS.
class ByteTokenizer : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) text += token_bytes(id);
    return text;
  }
  int64_t vocab_size() const override { return 258; }
  std::optional<int32_t> bos_id() const override { return 256; }
  std::optional<int32_t> eos_id() const override { return 257; }
  std::string token_bytes(int32_t id) const override {
    return id == 256 ? "<s>" : id == 257 ? "</s>" : std::string(1, static_cast<char>(id));
  }
};

inline LoaderOptions options_for(const std::string& path, int64_t seq_len = 16) {
  LoaderOptions options;
  options.dataset.name = "local";
  options.dataset.path = path;
  options.seq_len = seq_len;
  options.local_batch_size = 1;
  options.global_batch_size = 1;
  options.num_epochs = 1;
  options.prefetch = 0;
  return options;
}

struct ReadResult {
  std::string text;  // tokens of all samples in order, decoded
  DataReport report;
};

// One pass over everything with one stream: what a user would get to see.
inline ReadResult read_all(LoaderOptions options) {
  const ByteTokenizer tokenizer;
  options.seq_len = 1 << 16;
  Loader loader(options, tokenizer);
  ReadResult result;
  std::vector<int32_t> ids;
  while (const auto batch = loader.next()) {
    for (int64_t row = 0; row < batch->num_samples; ++row) {
      const auto begin = static_cast<size_t>(row * batch->seq_len);
      bool first = true;
      for (size_t i = begin; i < begin + static_cast<size_t>(batch->seq_len); ++i) {
        if (batch->labels[i] == kIgnoredLabel) break;
        if (first) ids.push_back(batch->inputs[i]);
        first = false;
        ids.push_back(batch->labels[i]);
      }
    }
  }
  result.text = tokenizer.decode(ids);
  result.report = loader.report();
  return result;
}

}  // namespace titan::data::testing
