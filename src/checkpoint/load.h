// Loading a step's tensors into a model and an optimizer by name, and handing them on to another
// writer.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "checkpoint/state.h"
#include "checkpoint/step.h"

namespace titan::checkpoint {

struct LoadOptions {
  bool allow_cast = false;  // other element types are converted (model-only loads); else refused
  bool allow_unexpected =
      false;           // stored tensors that no target asks for are left alone; else refused
  bool verify = true;  // recompute each tensor's checksum
  // Names of tensors that other ranks load: neither missing here nor unexpected.
  std::set<std::string> elsewhere = {};
};

// Copies the stored tensors of `part` into `targets` by name, on whatever device they are. Names,
// shapes and types are all checked before the first is copied: an Error lists what is missing,
// unexpected or different. A damaged value throws when its turn comes; the targets are then partly
// overwritten and must not be used. Returns the unexpected names.
std::vector<std::string> load_part(const Step& step, Part part,
                                   std::span<const NamedTensor> targets,
                                   const LoadOptions& options = {});

// The stored model under the given names, for writing it elsewhere: checked against its checksums
// as it is read, stored as `cast_to` or else as it is. Throws Error for missing, unexpected and
// differently shaped tensors. The sources refer to `step`.
std::vector<TensorSource> model_sources(const Step& step, std::span<const NamedShape> parameters,
                                        std::optional<at::ScalarType> cast_to);

}  // namespace titan::checkpoint
