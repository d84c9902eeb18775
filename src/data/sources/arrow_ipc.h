// Arrow IPC: files (with a footer, position = batch number) and streams (position = byte offset of
// a message), as `datasets` writes them. Every batch is one block.
#pragma once

#include "data/sources/source.h"

namespace titan::data {

std::unique_ptr<Source> open_arrow_file(const DataFile& file, const SourceOptions& options);
std::unique_ptr<Source> open_arrow_stream(const DataFile& file, const SourceOptions& options);

}  // namespace titan::data
