// The dense decoder of Llama 2, Llama 3 and Qwen3: pre-norm blocks of attention and SwiGLU. The
// families differ in their tables only (rotation style, norm of queries and keys, tied output).
#pragma once

#include "models/model.h"
#include "nn/attention.h"
#include "nn/feed_forward.h"
#include "nn/rotary.h"

namespace titan::models {

struct DenseBlock {
  at::Tensor attention_norm, ffn_norm;  // [dim]
  nn::Attention attention;
  nn::FeedForward feed_forward;
};

class DenseModel : public Model {
 public:
  // Parameters are undefined until visit() has given them tensors.
  explicit DenseModel(const ModelArgs& args) : DenseModel(args, ModelPart::whole(args)) {}
  DenseModel(const ModelArgs& args, const ModelPart& part)
      : args_(args), part_(part), blocks_(static_cast<size_t>(part.num_layers)) {}

  const ModelArgs& args() const override { return args_; }
  void visit(const ParameterVisitor& visitor) override;
  at::Tensor hidden(const at::Tensor& x, nn::BlockRunner& runner,
                    const nn::TokenPlaces& places) override;
  at::Tensor hidden(const at::Tensor& tokens, nn::BlockRunner& runner, nn::KvCache& cache) override;
  const at::Tensor& output_weight() const override {
    return args_.tied ? tok_embeddings_ : output_;
  }

 private:
  at::Tensor run_blocks(const at::Tensor& x, nn::BlockRunner& runner,
                        const nn::RotaryTables& rotary, const nn::CacheView& view);
  const nn::RotaryTables& rotary(int64_t positions, at::Device device,
                                 at::ScalarType compute_dtype);

  ModelArgs args_;
  ModelPart part_;
  at::Tensor tok_embeddings_;       // [vocab, dim]
  std::vector<DenseBlock> blocks_;  // of the part
  at::Tensor norm_;                 // [dim]
  at::Tensor output_;               // [vocab, dim], undefined when tied
  nn::RotaryTables rotary_;
};

}  // namespace titan::models
