#include "observe/flops.h"

namespace titan::observe {

FlopsPerToken flops_per_token(const TransformerSize& size) {
  const int64_t multiplied =
      size.tied ? size.parameters : size.parameters - size.embedding_parameters;
  FlopsPerToken flops;
  flops.matrices = 6.0 * static_cast<double>(multiplied);
  flops.attention = 12.0 * static_cast<double>(size.num_layers) *
                    static_cast<double>(size.num_heads) * static_cast<double>(size.head_dim) *
                    static_cast<double>(size.seq_len);
  return flops;
}

}  // namespace titan::observe
