// The table of file formats.
#include "base/error.h"
#include "data/sources/lines.h"
#include "data/sources/source.h"

namespace titan::data {

std::unique_ptr<Source> open_source(const DataFile& file, const SourceOptions& options) {
  switch (file.format) {
    case Format::kText:
    case Format::kJsonLines: return std::make_unique<LineSource>(file, options);
    default: break;
  }
  throw Error("[data] {}: this format is not read yet", file.path.string());
}

}  // namespace titan::data
