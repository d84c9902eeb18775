// Training of a byte-level BPE vocabulary: text is split by the Llama 3 regex, pieces are counted,
// and the most frequent pair of neighbours becomes the next token until the vocabulary is full. The
// result does not depend on the number of threads: ties go to the pair with the smaller ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace titan::data {

struct TrainedBpe {
  std::vector<std::string> tokens;  // by id, raw bytes; special tokens first, by name
  int32_t num_special = 0;
  std::vector<std::pair<int32_t, int32_t>> merges;  // by rank; the parts spell the formed token
};

// Counts of the pieces of text.
using PieceCounts = std::unordered_map<std::string, int64_t>;
void count_pieces(std::string_view text, PieceCounts& counts);

// REQUIRES vocab_size >= 256 + special_tokens.size(). Fewer tokens result when no pair occurs
// twice.
TrainedBpe train_bpe(const PieceCounts& counts, int64_t vocab_size,
                     std::span<const std::string> special_tokens);

struct TrainRequest {
  std::vector<std::filesystem::path> files;  // plain text
  int64_t vocab_size = 0;
  int64_t max_bytes = 0;  // of text to read, from the first file on; 0: all
  int threads = 0;        // 0: as many as the machine has cores
};
struct TrainReport {
  int64_t bytes = 0, pieces = 0, distinct_pieces = 0,
          replaced = 0;    // replaced: ill-formed UTF-8 parts
  int64_t vocab_size = 0;  // reached
};
// Trains on files and writes tokenizer.json and tokenizer_config.json into `folder`, which the
// `tokenizers` package loads. BOS is "<|begin_of_text|>" (id 0), EOS "<|end_of_text|>" (id 1).
TrainReport train_tokenizer(const TrainRequest& request, const std::filesystem::path& folder);

}  // namespace titan::data
