#include "data/document.h"

#include <fmt/format.h>

#include "base/text.h"
#include "data/json_reader.h"

namespace titan::data {
namespace {

constexpr size_t kLongDocument = 16u << 20;

std::string with_plain_line_ends(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n') continue;
    out += text[at];
  }
  return out;
}

std::string keys_of(const JsonReader& json) {
  std::vector<std::string> keys;
  json.for_each_member(0, [&](std::string_view key, uint32_t) {
    if (keys.size() < 8) keys.emplace_back(key);
  });
  return text::join(keys, ", ");
}

}  // namespace

struct TextExtractor::Parser {
  JsonReader json;
};

TextExtractor::TextExtractor(std::string text_key)
    : parser_(std::make_unique<Parser>()), text_key_(std::move(text_key)) {}
TextExtractor::~TextExtractor() = default;
TextExtractor::TextExtractor(TextExtractor&&) noexcept = default;
TextExtractor& TextExtractor::operator=(TextExtractor&&) noexcept = default;

std::optional<std::string_view> TextExtractor::json_text(const Record& record) {
  std::string_view line = record.bytes;
  const bool is_valid = text::is_valid_utf8(line);
  if (!is_valid) {
    mended_line_ = text::to_valid_utf8(line);
    line = mended_line_;
  }
  JsonReader& json = parser_->json;
  if (const auto problem = json.parse(line)) {
    problem_ = Irregularity::kJsonError;
    detail_ = fmt::format("column {}: {}", problem->offset + 1, problem->what);
    return std::nullopt;
  }
  if (!is_valid || json.mended_escapes() > 0) problem_ = Irregularity::kInvalidUtf8;
  if (json.node(0).type != JsonReader::Type::kObject) {
    problem_ = Irregularity::kJsonError;
    detail_ = "not a JSON object";
    return std::nullopt;
  }
  const auto value = json.member(0, text_key_);
  if (!value || json.node(*value).type == JsonReader::Type::kNull) {
    problem_ = Irregularity::kMissingText;
    detail_ = value ? "null" : fmt::format("no key '{}', keys: {}", text_key_, keys_of(json));
    return std::nullopt;
  }
  if (json.node(*value).type != JsonReader::Type::kString) {
    problem_ = Irregularity::kNonStringText;
    return std::nullopt;
  }
  return json.node(*value).text;
}

std::optional<std::string_view> TextExtractor::text(const Record& record,
                                                    std::string_view file_name,
                                                    DataReport* report) {
  problem_.reset();
  detail_.clear();
  std::optional<std::string_view> text;
  switch (record.state) {
    case RecordState::kText:
    case RecordState::kRow:
      text = record.bytes;
      break;
    case RecordState::kJson:
      text = json_text(record);
      break;
    case RecordState::kNull:
      problem_ = Irregularity::kMissingText;
      detail_ = "null";
      break;
    case RecordState::kUnreadable:
      problem_ = Irregularity::kUnreadableRows;
      break;
  }
  const auto add = [&](Irregularity what) {
    if (!report) return;
    report->add(
        what, 1,
        fmt::format("{}:{}{}{}", file_name, record.line, detail_.empty() ? "" : ": ", detail_));
  };
  if (text && record.state != RecordState::kJson && !text::is_valid_utf8(*text)) {
    mended_text_ = text::to_valid_utf8(*text);
    text = mended_text_;
    problem_ = Irregularity::kInvalidUtf8;
  }
  if (record.state == RecordState::kText && text->find("\r\n") != std::string_view::npos) {
    mended_text_ = with_plain_line_ends(*text);
    text = mended_text_;
  }
  if (problem_) add(*problem_);
  if (!text) return std::nullopt;
  if (text->size() > kLongDocument) add(Irregularity::kLongDocument);
  if (text->empty()) {
    add(Irregularity::kEmptyText);
    return std::nullopt;
  }
  return text;
}

}  // namespace titan::data
