// Parquet: the text column, row group by row group, in batches of about a block's size. A position
// is a row number.
#pragma once

#include "data/sources/source.h"

namespace titan::data {

std::unique_ptr<Source> open_parquet(const DataFile& file, const SourceOptions& options);

}  // namespace titan::data
