// The table of file formats: a new one is a row in dataset.cpp's extensions and a line here.
#include "data/sources/arrow_ipc.h"
#include "data/sources/lines.h"
#include "data/sources/parquet.h"
#include "data/sources/source.h"

namespace titan::data {

std::unique_ptr<Source> open_source(const DataFile& file, const SourceOptions& options) {
  switch (file.format) {
    case Format::kText:
    case Format::kJsonLines:
      return std::make_unique<LineSource>(file, options);
    case Format::kParquet:
      return open_parquet(file, options);
    case Format::kArrowFile:
      return open_arrow_file(file, options);
    case Format::kArrowStream:
      return open_arrow_stream(file, options);
  }
  return nullptr;
}

}  // namespace titan::data
