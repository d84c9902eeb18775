// Training from files: reads text, counts pieces on all threads, writes the assets.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/scanner.h"
#include "data/tokenizer/trainer.h"

namespace titan::data {
namespace fs = std::filesystem;
namespace {

constexpr size_t kBlock = 1 << 20;
const char* const kBos = "<|begin_of_text|>";
const char* const kEos = "<|end_of_text|>";

// The first place at or after `from` where cutting the text changes no piece: behind a line feed,
// before a visible ASCII character. No piece of the Llama 3 regex goes on from a line feed to such
// a character.
size_t safe_cut(std::string_view text, size_t from) {
  for (size_t at = from; at > 0 && at < text.size(); ++at) {
    if (text[at - 1] == '\n' && text[at] > ' ' && text[at] < 0x7F) return at;
  }
  return text.size();
}

std::vector<std::string_view> blocks_of(std::string_view text) {
  std::vector<std::string_view> blocks;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = safe_cut(text, std::min(begin + kBlock, text.size()));
    blocks.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return blocks;
}

void count_in_parallel(std::string_view text, std::vector<PieceCounts>& per_thread) {
  const auto blocks = blocks_of(text);
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (PieceCounts& counts : per_thread) {
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < blocks.size();) count_pieces(blocks[i], counts);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A JSON string.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// Written by hand, since the vocabulary has to stay in the order of its ids.
std::string tokenizer_json(const TrainedBpe& bpe) {
  std::string added, vocab, merges;
  for (int32_t id = 0; id < static_cast<int32_t>(bpe.tokens.size()); ++id) {
    const bool special = id < bpe.num_special;
    const std::string token =
        quoted(special ? bpe.tokens[id] : byte_level::to_text(bpe.tokens[id]));
    vocab += fmt::format("{}\n      {}: {}", id == 0 ? "" : ",", token, id);
    if (!special) continue;
    added += fmt::format(
        "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, "
        "\"rstrip\": false, \"normalized\": false, \"special\": true}}",
        id == 0 ? "" : ",", id, token);
  }
  for (const auto& [left, right] : bpe.merges) {
    const std::string merge =
        byte_level::to_text(bpe.tokens[left]) + " " + byte_level::to_text(bpe.tokens[right]);
    merges += fmt::format("{}\n      {}", merges.empty() ? "" : ",", quoted(merge));
  }
  constexpr const char* kByteLevel =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})";
  return fmt::format(R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [{}
  ],
  "normalizer": null,
  "pre_tokenizer": {{"type": "Sequence", "pretokenizers": [
    {{"type": "Split", "pattern": {{"Regex": {}}}, "behavior": "Isolated", "invert": false}},
    {}
  ]}},
  "post_processor": null,
  "decoder": {},
  "model": {{
    "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
    "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
    "vocab": {{{}
    }},
    "merges": [{}
    ]
  }}
}}
)",
                     added, quoted(kLlama3Pattern), kByteLevel, kByteLevel, vocab, merges);
}

std::string config_json() {
  const nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                         {"bos_token", kBos},
                                         {"eos_token", kEos},
                                         {"clean_up_tokenization_spaces", false}};
  return config.dump(2) + "\n";
}

void check(const TrainRequest& request) {
  if (request.files.empty()) throw Error("[tokenizer] no text to train on — give one file or more");
  if (request.vocab_size < 258 || request.vocab_size > (1 << 24)) {
    throw Error(
        "[tokenizer] a vocabulary of {} tokens is not possible — from 258 (256 bytes, BOS, EOS) to "
        "16777216",
        request.vocab_size);
  }
  for (const auto& file : request.files) {
    if (!fs::exists(file)) throw Error("[tokenizer] {} does not exist", file.string());
    if (fs::is_directory(file))
      throw Error("[tokenizer] {} is a folder — give files of plain text", file.string());
  }
}

}  // namespace

TrainReport train_tokenizer(const TrainRequest& request, const fs::path& folder) {
  check(request);
  TrainReport report;
  const int threads = request.threads > 0
                          ? request.threads
                          : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<PieceCounts> per_thread(static_cast<size_t>(threads));
  for (const auto& file : request.files) {
    if (request.max_bytes > 0 && report.bytes >= request.max_bytes) break;
    const files::Map map(file);
    std::string_view text = map.bytes();
    if (request.max_bytes > 0) {
      text = text.substr(0, static_cast<size_t>(request.max_bytes - report.bytes));
      if (text.size() < map.bytes().size()) text = text.substr(0, text::complete_utf8_prefix(text));
    }
    report.bytes += static_cast<int64_t>(text.size());
    std::string repaired;
    if (!text::is_valid_utf8(text)) {
      int64_t replaced = 0;
      repaired = text::to_valid_utf8(text, &replaced);
      report.replaced += replaced;
      text = repaired;
    }
    count_in_parallel(text, per_thread);
  }
  PieceCounts counts = std::move(per_thread[0]);
  for (size_t i = 1; i < per_thread.size(); ++i) {
    for (const auto& [piece, count] : per_thread[i]) counts[piece] += count;
  }
  if (counts.empty()) throw Error("[tokenizer] the files hold no text — nothing to train on");
  const std::vector<std::string> special = {kBos, kEos};
  const TrainedBpe bpe = train_bpe(counts, request.vocab_size, special);
  for (const auto& [piece, count] : counts) report.pieces += count;
  report.distinct_pieces = static_cast<int64_t>(counts.size());
  report.vocab_size = static_cast<int64_t>(bpe.tokens.size());
  std::error_code reason;
  fs::create_directories(folder, reason);
  if (reason)
    throw Error("[tokenizer] cannot make the folder {}: {}", folder.string(), reason.message());
  files::write_atomically(folder / "tokenizer.json", tokenizer_json(bpe));
  files::write_atomically(folder / "tokenizer_config.json", config_json());
  return report;
}

}  // namespace titan::data
