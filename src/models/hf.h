// The dense families (Llama 2, 3, 3.2, Qwen3) as Hugging Face stores them: names of parameters and
// the order of rows in the query and key projections. Pure functions; reading and writing files is
// checkpoint/hf_folder.h's.
//
// Hugging Face pairs the dims of a head as (i, i + head_dim/2) for the rotation. A model of
// RopeStyle::kInterleaved pairs (2i, 2i + 1), so rows of wq and wk (and the entries of q_norm,
// k_norm) are reordered on the way in and out.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <string_view>

#include "models/args.h"

namespace titan::models {

// "model.layers.3.self_attn.q_proj.weight" of "layers.3.attention.wq.weight". Throws Error for a
// name that a dense family does not have.
std::string hf_name(std::string_view name);

// True for entries of a Hugging Face file that carry no parameter: rotary inv_freq tables, and
// lm_head.weight of a model with tied embeddings.
bool hf_ignored(const ModelArgs& args, std::string_view hf_name);

// The tensor under titan's `name` as the other side lays it out. Shape and dtype stay; a tensor
// without reordering is returned as it is, not copied.
at::Tensor to_hf(const ModelArgs& args, std::string_view name, const at::Tensor& tensor);
at::Tensor from_hf(const ModelArgs& args, std::string_view name, const at::Tensor& tensor);

// The functions above in the form that checkpoint::ForeignNames::of takes.
struct HfNames {
  ModelArgs args;

  std::string foreign_name(std::string_view name) const { return hf_name(name); }
  at::Tensor from_foreign(std::string_view name, const at::Tensor& tensor) const {
    return from_hf(args, name, tensor);
  }
  at::Tensor to_foreign(std::string_view name, const at::Tensor& tensor) const {
    return to_hf(args, name, tensor);
  }
  bool ignored(std::string_view hf_name) const { return hf_ignored(args, hf_name); }
};

}  // namespace titan::models
