// What the data reading met: documents, tokens, and a count of every irregularity with the place of
// its first occurrence. Nothing is dropped or changed without a count here.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace titan::data {

// Irregularities and the rule for each (kRules in report.cpp). Stored in checkpoints by name:
// rename none.
enum class Irregularity {
  kByteOrderMark,
  kCrlf,
  kBlankLine,
  kNoFinalNewline,
  kLongDocument,
  kInvalidUtf8,
  kEmptyText,
  kMissingText,
  kNonStringText,
  kJsonError,
  kEmptyFile,
  kEmptyRowGroup,
  kTruncatedFile,
  kUnreadableRows,
  kSkippedFile,
};
constexpr int kNumIrregularities = 15;

// The name used in reports and state, e.g. "invalid_utf8".
std::string_view name(Irregularity what);
// What the rule does about it, in words.
std::string_view rule(Irregularity what);

// Irregularities are counted in the first pass over the data only, each by exactly one reader: the
// sum over the readers states facts of the data set, whatever the number of readers and epochs.
struct DataReport {
  int64_t documents = 0;      // with text, tokenised, all epochs
  int64_t text_bytes = 0;     // of those documents, UTF-8
  int64_t tokens = 0;         // made from them, BOS and EOS included
  int64_t samples = 0;        // handed out
  int64_t padded_labels = 0;  // labels -100 that fill the last samples of a finite pass
  int64_t unlabelled_tokens =
      0;              // single left-over tokens at the end of a finite pass: nothing to predict
  int64_t epoch = 0;  // the furthest pass any stream is in, from 0
  std::array<int64_t, kNumIrregularities> counts{};
  std::array<std::string, kNumIrregularities> first{};  // "file:line: what", empty when unknown

  int64_t count(Irregularity what) const { return counts[static_cast<size_t>(what)]; }
  void add(Irregularity what, int64_t n, std::string_view place);
  DataReport& operator+=(const DataReport& other);

  nlohmann::json to_json() const;
  static DataReport from_json(const nlohmann::json& json);
  // One line for the totals and one per irregularity that occurred, for the end of a run.
  std::vector<std::string> lines() const;
};

}  // namespace titan::data
