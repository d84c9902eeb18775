// model.converters = ["quantize.linear.float8"]: which linear layers compute in float8, and where
// that is possible.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>

#include "comm/mesh.h"
#include "config/job_config.h"
#include "models/args.h"

namespace titan::train {

// Empty: the config asks for none. Throws Error with the reason where this run cannot: the device,
// the layout, or sizes that float8 products do not take.
std::function<bool(const std::string& module)> float8_layers(const config::JobConfig& config,
                                                             const models::ModelArgs& args,
                                                             const comm::MeshShape& shape,
                                                             at::Device device,
                                                             at::ScalarType compute_dtype);

}  // namespace titan::train
