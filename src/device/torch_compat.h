// The one place that may ask which libtorch this is compiled against (2.9, 2.10 and 2.11 are
// supported).
#pragma once

#include <torch/headeronly/version.h>
