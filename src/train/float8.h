// model.converters = ["quantize.linear.float8"]: which linear layers compute in float8, how, and
// where that is possible.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>

#include "comm/mesh.h"
#include "config/job_config.h"
#include "models/args.h"
#include "ops/float8_product.h"

namespace titan::train {

// Called with the name of a module: "layers.3.attention.wq", "output".
using Float8Layers = std::function<std::optional<ops::Float8Recipe>(const std::string& module)>;

// Empty: the config asks for none. A layer takes part when no word of filter_fqns is in its name
// and its sizes on this rank are multiples of 16; the word auto_filter_small_kn leaves out products
// too small to gain. Throws Error with the reason where this run cannot: the device, the layout.
Float8Layers float8_layers(const config::JobConfig& config, const models::ModelArgs& args,
                           const comm::MeshShape& shape, at::Device device,
                           at::ScalarType compute_dtype);

// For the log: "tensorwise scales: wq, wk, …; not output".
std::string describe(const Float8Layers& layers);

}  // namespace titan::train
