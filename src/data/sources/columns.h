// The text column of Arrow data as records: shared by Parquet and Arrow IPC.
#pragma once

#include <arrow/api.h>

#include "data/sources/source.h"

namespace titan::data {

// Index of the text column; throws Error that lists the columns when it is absent or holds no text.
int text_column(const arrow::Schema& schema, const DataFile& file, const std::string& text_key);

// A block of the rows of one column. `first_row` (from 1) becomes the records' line.
Block block_of_column(const std::shared_ptr<arrow::Array>& column, int64_t first_row);

// A block of `count` rows that cannot be read, with the reason as a note.
Block block_of_unreadable_rows(int64_t count, int64_t first_row);

}  // namespace titan::data
