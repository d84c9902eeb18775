// The files of src/observe/report/ and Chart.js as text, embedded at configure time
// (cmake/embed.cmake).
#pragma once

#include <string_view>

namespace titan::observe::assets {

extern const std::string_view kPage;
extern const std::string_view kStyle;
extern const std::string_view kScript;
extern const std::string_view kChartJs;  // empty when it was not found at configure time

}  // namespace titan::observe::assets
