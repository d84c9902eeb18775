// From a record to the text of a document: the text key of a JSON line, line ends, ill-formed
// UTF-8.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/report.h"
#include "data/sources/source.h"

namespace titan::data {

// Holds parse buffers: one per thread.
class TextExtractor {
 public:
  explicit TextExtractor(std::string text_key);
  ~TextExtractor();
  TextExtractor(TextExtractor&&) noexcept;
  TextExtractor& operator=(TextExtractor&&) noexcept;

  // The text of a record, well-formed UTF-8 without CR LF line ends in text documents; nullopt when
  // it is none or empty. Irregularities are added to `report` with `file_name`:line unless it is
  // null. The view holds until the next call and as long as the record's block.
  std::optional<std::string_view> text(const Record& record, std::string_view file_name,
                                       DataReport* report);

 private:
  std::optional<std::string_view> json_text(const Record& record);

  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::string text_key_;
  std::string mended_line_;  // a JSON line, padded
  std::string mended_text_;
  std::optional<Irregularity> problem_;
  std::string detail_;
};

}  // namespace titan::data
