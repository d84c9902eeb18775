#include "data/document.h"

#include <simdjson.h>

#include "base/text.h"
#include "fmt/format.h"

namespace titan::data {
namespace {

constexpr size_t kLongDocument = 16u << 20;

bool is_valid_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

// Replaces \uD800–\uDFFF escapes that are not a pair (Python writes them) by \uFFFD; JSON has no such characters.
std::string mend_surrogate_escapes(std::string_view line) {
  std::string out(line);
  const auto unit_at = [&](size_t at) -> int {
    if (at + 6 > out.size() || out[at] != '\\' || out[at + 1] != 'u') return -1;
    int value = 0;
    for (size_t i = at + 2; i < at + 6; ++i) {
      const char c = out[i];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return -1;
      value = value * 16 + digit;
    }
    return value;
  };
  for (size_t at = 0; at < out.size();) {
    if (out[at] != '\\') {
      ++at;
      continue;
    }
    const int unit = unit_at(at);
    if (unit >= 0xD800 && unit < 0xDC00 && unit_at(at + 6) >= 0xDC00 && unit_at(at + 6) < 0xE000) {
      at += 12;
    } else if (unit >= 0xD800 && unit < 0xE000) {
      out.replace(at + 2, 4, "FFFD");
      at += 6;
    } else {
      at += 2;  // any other escape, a backslash included
    }
  }
  return out;
}

std::string with_plain_line_ends(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n') continue;
    out += text[at];
  }
  return out;
}

// Python's json keeps the last of equal keys; so do we.
simdjson::error_code last_value(simdjson::dom::element root, std::string_view key, simdjson::dom::element& value) {
  simdjson::dom::object object;
  if (const auto error = root.get_object().get(object)) return error;
  auto found = simdjson::NO_SUCH_FIELD;
  for (const auto field : object) {
    if (field.key != key) continue;
    value = field.value;
    found = simdjson::SUCCESS;
  }
  return found;
}

std::string keys_of(simdjson::dom::element root) {
  std::vector<std::string> keys;
  for (const auto field : simdjson::dom::object(root.get_object())) {
    if (keys.size() < 8) keys.emplace_back(field.key);
  }
  return text::join(keys, ", ");
}

}  // namespace

struct TextExtractor::Parser {
  simdjson::dom::parser json;
};

TextExtractor::TextExtractor(std::string text_key)
    : parser_(std::make_unique<Parser>()), text_key_(std::move(text_key)) {}
TextExtractor::~TextExtractor() = default;
TextExtractor::TextExtractor(TextExtractor&&) noexcept = default;
TextExtractor& TextExtractor::operator=(TextExtractor&&) noexcept = default;

std::optional<std::string_view> TextExtractor::json_text(const Record& record) {
  simdjson::dom::element root;
  auto error = parser_->json.parse(record.bytes.data(), record.bytes.size(), false).get(root);
  if (error == simdjson::UTF8_ERROR || error == simdjson::STRING_ERROR) {
    mended_line_ = error == simdjson::UTF8_ERROR ? text::to_valid_utf8(record.bytes)
                                                 : mend_surrogate_escapes(record.bytes);
    const size_t size = mended_line_.size();
    mended_line_.append(simdjson::SIMDJSON_PADDING, '\0');
    error = parser_->json.parse(mended_line_.data(), size, false).get(root);
    if (error == simdjson::STRING_ERROR) {  // both ills in one line
      mended_line_ = mend_surrogate_escapes(std::string_view(mended_line_).substr(0, size));
      const size_t again = mended_line_.size();
      mended_line_.append(simdjson::SIMDJSON_PADDING, '\0');
      error = parser_->json.parse(mended_line_.data(), again, false).get(root);
    }
    if (!error) problem_ = Irregularity::kInvalidUtf8;
  }
  if (error) {
    problem_ = Irregularity::kJsonError;
    detail_ = simdjson::error_message(error);
    return std::nullopt;
  }
  simdjson::dom::element value;
  error = last_value(root, text_key_, value);
  if (error == simdjson::INCORRECT_TYPE) {
    problem_ = Irregularity::kJsonError;
    detail_ = "not a JSON object";
    return std::nullopt;
  }
  if (error || value.is_null()) {
    problem_ = Irregularity::kMissingText;
    detail_ = error ? fmt::format("no key '{}', keys: {}", text_key_, keys_of(root)) : "null";
    return std::nullopt;
  }
  std::string_view text;
  if (value.get_string().get(text)) {
    problem_ = Irregularity::kNonStringText;
    return std::nullopt;
  }
  return text;
}

std::optional<std::string_view> TextExtractor::text(const Record& record, std::string_view file_name,
                                                    DataReport* report) {
  problem_.reset();
  detail_.clear();
  std::optional<std::string_view> text;
  switch (record.state) {
    case RecordState::kText:
    case RecordState::kRow: text = record.bytes; break;
    case RecordState::kJson: text = json_text(record); break;
    case RecordState::kNull:
      problem_ = Irregularity::kMissingText;
      detail_ = "null";
      break;
    case RecordState::kUnreadable: problem_ = Irregularity::kUnreadableRows; break;
  }
  const auto add = [&](Irregularity what) {
    if (!report) return;
    report->add(what, 1, fmt::format("{}:{}{}{}", file_name, record.line, detail_.empty() ? "" : ": ", detail_));
  };
  if (text && record.state != RecordState::kJson && !is_valid_utf8(*text)) {
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
