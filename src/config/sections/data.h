// [data] is titan's own: how text is read and dealt to sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"

namespace titan::config {

struct Data {
  std::string text_key = "text";
  std::string text_document = "line";
  bool reset_positions = false;
  std::optional<int64_t> virtual_streams;
  int64_t prefetch = 4;
  std::optional<int64_t> threads;

  static constexpr void describe(auto&& field) {
    field("text_key", &Data::text_key, "field or column that holds the text");
    field("text_document", &Data::text_document,
          "what one document of a plain text file is: a line, a paragraph (up to a blank line), "
          "the file",
          one_of("line|paragraph|file"));
    field("reset_positions", &Data::reset_positions,
          "count positions for the rotation from 0 in every document of a sequence");
    field("virtual_streams", &Data::virtual_streams,
          "streams that documents are dealt to; a multiple of the global batch; absent: the "
          "global batch",
          at_least(1));
    field("prefetch", &Data::prefetch, "batches prepared ahead of the step; 0: made when needed",
          at_least(0));
    field("threads", &Data::threads, "reader threads; absent: chosen by titan", at_least(1));
  }
};
static_assert(complete<Data>(), "describe() of Data misses a member");

}  // namespace titan::config
