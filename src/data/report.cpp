#include "data/report.h"

#include <algorithm>

#include "base/text.h"
#include "fmt/format.h"

namespace titan::data {
namespace {

struct IrregularityRow {
  const char* name;
  const char* rule;
};

constexpr IrregularityRow kRules[kNumIrregularities] = {
    {"byte_order_mark", "removed at the start of a file"},
    {"crlf", "line ends CR LF read as LF"},
    {"blank_line", "skipped, no document"},
    {"no_final_newline", "the last line of the file is used as it is"},
    {"long_document", "documents over 16 MiB, used whole"},
    {"invalid_utf8", "documents whose ill-formed bytes became U+FFFD"},
    {"empty_text", "documents without a character, skipped"},
    {"missing_text", "records without the text key or with null, skipped"},
    {"non_string_text", "records whose text is no string, skipped"},
    {"json_error", "lines that are no JSON object, skipped"},
    {"empty_file", "files without a byte, skipped"},
    {"empty_row_group", "row groups or record batches without rows, skipped"},
    {"truncated_file", "damaged or cut files, used up to the damage"},
    {"unreadable_rows", "rows that a damaged file lists but cannot give, skipped"},
    {"skipped_file", "files of a folder that are no data files, skipped"},
};

}  // namespace

std::string_view name(Irregularity what) { return kRules[static_cast<size_t>(what)].name; }
std::string_view rule(Irregularity what) { return kRules[static_cast<size_t>(what)].rule; }

void DataReport::add(Irregularity what, int64_t n, std::string_view place) {
  const auto i = static_cast<size_t>(what);
  counts[i] += n;
  if (first[i].empty()) first[i] = place;
}

DataReport& DataReport::operator+=(const DataReport& other) {
  documents += other.documents;
  text_bytes += other.text_bytes;
  tokens += other.tokens;
  samples += other.samples;
  padded_labels += other.padded_labels;
  unlabelled_tokens += other.unlabelled_tokens;
  epoch = std::max(epoch, other.epoch);
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] += other.counts[i];
    if (first[i].empty()) first[i] = other.first[i];
  }
  return *this;
}

nlohmann::json DataReport::to_json() const {
  nlohmann::json json = {{"documents", documents},
                         {"text_bytes", text_bytes},
                         {"tokens", tokens},
                         {"samples", samples},
                         {"padded_labels", padded_labels},
                         {"unlabelled_tokens", unlabelled_tokens},
                         {"epoch", epoch}};
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    json["irregularities"][kRules[i].name] = {{"count", counts[i]}, {"first", first[i]}};
  }
  return json;
}

DataReport DataReport::from_json(const nlohmann::json& json) {
  DataReport report;
  report.documents = json.at("documents");
  report.text_bytes = json.at("text_bytes");
  report.tokens = json.at("tokens");
  report.samples = json.at("samples");
  report.padded_labels = json.at("padded_labels");
  report.unlabelled_tokens = json.at("unlabelled_tokens");
  report.epoch = json.at("epoch");
  const auto irregularities = json.value("irregularities", nlohmann::json::object());
  for (size_t i = 0; i < report.counts.size(); ++i) {
    const auto found = irregularities.find(kRules[i].name);
    if (found == irregularities.end()) continue;
    report.counts[i] = found->at("count");
    report.first[i] = found->at("first");
  }
  return report;
}

std::vector<std::string> DataReport::lines() const {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("data: documents={} text={} tokens={} samples={} epochs_begun={}",
                              text::with_commas(documents), text::bytes(text_bytes),
                              text::with_commas(tokens), text::with_commas(samples), epoch + 1));
  if (padded_labels > 0 || unlabelled_tokens > 0) {
    lines.push_back(fmt::format("data: end of the pass: padded_labels={} unlabelled_tokens={}",
                                text::with_commas(padded_labels),
                                text::with_commas(unlabelled_tokens)));
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    lines.push_back(fmt::format("data: {}={} ({}){}", kRules[i].name, text::with_commas(counts[i]),
                                kRules[i].rule,
                                first[i].empty() ? "" : fmt::format(", first at {}", first[i])));
  }
  return lines;
}

}  // namespace titan::data
