// ModelArgs from and to a Hugging Face config.json (model_type llama and qwen3), and to and from a
// checkpoint's own JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "models/args.h"

namespace titan::models {

// Throws Error naming the file and the key for a missing size, another architecture, or a feature
// that the dense families do not have (biases, sliding windows, other rope scalings, quantised
// weights). max_seq_len is max_position_embeddings.
ModelArgs args_from_hf_config(const nlohmann::json& config, const std::string& what);
// Of a config.json or of the folder that holds it.
ModelArgs read_hf_config(const std::filesystem::path& path);

// A config.json that transformers' AutoModelForCausalLM loads; `dtype` is "float32", "bfloat16", ….
// Ids of special tokens are null: the caller sets those it knows.
nlohmann::json hf_config_of(const ModelArgs& args, const std::string& dtype);

// The form in checkpoints ("model_args" of the state): never rename a member. args_from_json throws
// Error naming `what`.
nlohmann::json args_to_json(const ModelArgs& args);
ModelArgs args_from_json(const nlohmann::json& root, const std::string& what);

}  // namespace titan::models
