#include "data/sources/columns.h"

#include "base/error.h"
#include "base/text.h"

namespace titan::data {
namespace {

bool holds_text(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW:
      return true;
    case arrow::Type::DICTIONARY:
      return holds_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default:
      return false;
  }
}

std::string_view view_of(const arrow::Array& values, int64_t i) {
  switch (values.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return static_cast<const arrow::BinaryArray&>(values).GetView(i);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(values).GetView(i);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return static_cast<const arrow::BinaryViewArray&>(values).GetView(i);
    case arrow::Type::DICTIONARY: {
      const auto& encoded = static_cast<const arrow::DictionaryArray&>(values);
      return view_of(*encoded.dictionary(), encoded.GetValueIndex(i));
    }
    default:
      break;
  }
  TITAN_CHECK(false, "a text column, not {}", values.type()->ToString());
  return {};
}

bool is_null(const arrow::Array& values, int64_t i) {
  if (values.IsNull(i)) return true;
  if (values.type_id() != arrow::Type::DICTIONARY) return false;
  const auto& encoded = static_cast<const arrow::DictionaryArray&>(values);
  return encoded.dictionary()->IsNull(encoded.GetValueIndex(i));
}

}  // namespace

int text_column(const arrow::Schema& schema, const DataFile& file, const std::string& text_key) {
  std::vector<std::string> names, text_names;
  for (const auto& field : schema.fields()) {
    names.push_back(fmt::format("{} ({})", field->name(), field->type()->ToString()));
    if (holds_text(*field->type())) text_names.push_back(field->name());
  }
  const int index = schema.GetFieldIndex(text_key);
  const std::string hint = text_names.empty()
                               ? "there is no text column in it"
                               : "set data.text_key to one of: " + text::join(text_names, ", ");
  if (index < 0) {
    throw Error("[data] {} has no column '{}' (columns: {}) — {}", file.path.string(), text_key,
                text::join(names, ", "), hint);
  }
  const auto& type = *schema.field(index)->type();
  if (!holds_text(type)) {
    throw Error("[data] {}: column '{}' is {}, text is needed — {}", file.path.string(), text_key,
                type.ToString(), hint);
  }
  return index;
}

Block block_of_column(const std::shared_ptr<arrow::Array>& column, int64_t first_row) {
  Block block;
  block.records.reserve(static_cast<size_t>(column->length()));
  int64_t bytes = 0;
  for (int64_t i = 0; i < column->length(); ++i) {
    Record record{.bytes = {}, .line = first_row + i, .state = RecordState::kRow};
    if (is_null(*column, i)) {
      record.state = RecordState::kNull;
    } else {
      record.bytes = view_of(*column, i);
      bytes += static_cast<int64_t>(record.bytes.size());
    }
    block.records.push_back(record);
  }
  block.bytes = bytes + static_cast<int64_t>(block.records.size() * sizeof(Record));
  block.storage = column;
  if (block.records.empty()) {
    block.notes.push_back(
        {.record = 0, .what = Irregularity::kEmptyRowGroup, .count = 1, .line = first_row});
  }
  return block;
}

Block block_of_unreadable_rows(int64_t count, int64_t first_row) {
  Block block;
  for (int64_t i = 0; i < count; ++i) {
    block.records.push_back(
        {.bytes = {}, .line = first_row + i, .state = RecordState::kUnreadable});
  }
  block.notes.push_back(
      {.record = 0, .what = Irregularity::kTruncatedFile, .count = 1, .line = first_row});
  block.bytes = static_cast<int64_t>(block.records.size() * sizeof(Record));
  return block;
}

}  // namespace titan::data
