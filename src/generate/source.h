// Where a model to generate from lies, and reading it: a step of a titan run or a Hugging Face
// folder.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/model.h"

namespace titan::generate {

struct Source {
  enum class Kind { kStep, kHuggingFace };
  Kind kind = Kind::kStep;
  std::filesystem::path folder;      // of the step, or the Hugging Face folder
  std::filesystem::path run_folder;  // that the step's checkpoint folder lies in; empty for a lone
                                     // Hugging Face folder
};

// `path`: a step folder, a folder of steps or a run folder (of both: the newest step), or a Hugging
// Face folder. Throws Error that says what was looked for when it is none of them.
Source find_source(const std::filesystem::path& path);

struct LoadedModel {
  std::unique_ptr<models::Model> model;
  at::ScalarType dtype = at::kFloat;  // of the parameters and the computation
  nlohmann::json state;               // of a step; null of a Hugging Face folder
  std::vector<int32_t>
      end_ids;              // generation_config.json's eos_token_id, beside the tokenizer's EOS
  std::string description;  // "step 60 of /run/checkpoint/step-60"
};

// Parameters are stored in `dtype`, or as the source stores the embedding when it is absent; they
// need no gradients. `free_bytes` of the device must be enough for them. Throws Error for a damaged
// or foreign checkpoint, EnvironmentError with the numbers when memory is short.
LoadedModel load_model(const Source& source, std::optional<at::ScalarType> dtype, at::Device device,
                       int64_t free_bytes);

}  // namespace titan::generate
