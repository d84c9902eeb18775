// Which format a file has: by its extension, or by its first bytes.
#pragma once

#include <filesystem>
#include <optional>

#include "data/sources/source.h"

namespace titan::data {

// By the name's extension, .gz and .zst peeled off first; nullopt when it says nothing.
std::optional<DataFile> format_by_extension(const std::filesystem::path& path);

// For a file that the user names himself: what its bytes say, plain text if nothing else.
DataFile format_by_content(const std::filesystem::path& path);

// Fills in the size. Arrow files and streams share extensions; the first bytes tell them apart.
// Throws Error for damage that shows at once: a Parquet or Arrow file that is cut short.
void settle_format(DataFile& file);

}  // namespace titan::data
