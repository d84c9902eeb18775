#include "checkpoint/load.h"

#include <ATen/core/grad_mode.h>

#include <set>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/dtype.h"

namespace titan::checkpoint {
namespace {

// Throws Error when a wanted tensor is missing, or another one is there and may not be; returns the
// latter.
std::vector<std::string> check_names(const Step& step, Part part,
                                     const std::set<std::string>& wanted, bool allow_unexpected) {
  const auto& stored = step.index().tensors;
  const std::string folder = step.folder().string();
  std::vector<std::string> missing, unexpected;
  for (const auto& name : wanted) {
    TITAN_CHECK(part_of(name) == part, "'{}' belongs to the other part", name);
    if (!stored.contains(name)) missing.push_back(name);
  }
  for (const auto& [name, tensor] : stored) {
    if (part_of(name) == part && !wanted.contains(name)) unexpected.push_back(name);
  }
  if (!missing.empty()) {
    throw Error(
        "[checkpoint] {} lacks {} of {} tensors: {} — is this checkpoint of another model{}?",
        folder, missing.size(), wanted.size(), text::listed(missing),
        part == Part::kOptimizer ? " or optimizer, or model-only" : "");
  }
  if (!unexpected.empty() && !allow_unexpected) {
    throw Error(
        "[checkpoint] {} holds {} tensors that this model has not: {} — is this checkpoint of "
        "another model?",
        folder, unexpected.size(), text::listed(unexpected));
  }
  return unexpected;
}

void check_shape(const Step& step, const std::string& name, at::IntArrayRef needed) {
  const auto& stored = step.index().tensors.at(name).shape;
  if (needed == at::IntArrayRef(stored)) return;
  throw Error(
      "[checkpoint] {}: '{}' has the shape [{}], the model needs [{}] — is this checkpoint of "
      "another model size?",
      step.folder().string(), name, fmt::join(stored, ", "), fmt::join(needed.vec(), ", "));
}

void check_dtype(const Step& step, const NamedTensor& target) {
  const auto stored = step.index().tensors.at(target.name).dtype;
  if (stored == target.tensor.scalar_type()) return;
  throw Error(
      "[checkpoint] {}: '{}' is stored as {}, this run keeps it as {} — set training.dtype as it "
      "was, or load the "
      "model only",
      step.folder().string(), target.name, dtype_name(stored),
      dtype_name(target.tensor.scalar_type()));
}

}  // namespace

std::vector<std::string> load_part(const Step& step, Part part,
                                   std::span<const NamedTensor> targets,
                                   const LoadOptions& options) {
  std::set<std::string> wanted;
  for (const auto& target : targets) wanted.insert(target.name);
  std::set<std::string> named = wanted;
  named.insert(options.elsewhere.begin(), options.elsewhere.end());
  auto unexpected = check_names(step, part, named, options.allow_unexpected);
  for (const auto& target : targets) {
    check_shape(step, target.name, target.shape());
    if (!options.allow_cast) check_dtype(step, target);
  }
  const at::NoGradGuard no_grad;
  for (const auto& target : targets) {
    at::Tensor destination = target.tensor;
    destination.copy_(target.part_of(step.view(target.name, options.verify)));
  }
  return unexpected;
}

std::vector<TensorSource> model_sources(const Step& step, std::span<const NamedShape> parameters,
                                        std::optional<at::ScalarType> cast_to) {
  std::set<std::string> wanted;
  for (const auto& parameter : parameters) wanted.insert(parameter.name);
  check_names(step, Part::kModel, wanted, false);
  std::vector<TensorSource> sources;
  for (const auto& [name, shape] : parameters) {
    check_shape(step, name, shape);
    sources.push_back({name, cast_to.value_or(step.index().tensors.at(name).dtype), shape,
                       [&step, name = name] { return step.view(name); }});
  }
  return sources;
}

}  // namespace titan::checkpoint
