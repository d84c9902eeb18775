#include "nn/embedding.h"

#include "comm/placement.h"
#include "nn/sequence.h"

namespace titan::nn {

using at::Tensor;

Tensor embedding(const Tensor& weight, const Tensor& tokens, int64_t vocab, const comm::Group& tp) {
  if (tp.size() == 1) return at::embedding(weight, tokens);
  const comm::Range rows = comm::balanced_part(vocab, tp.size(), tp.rank());
  const Tensor mine = tokens.ge(rows.begin).logical_and(tokens.lt(rows.end()));
  const Tensor local = (tokens - rows.begin).masked_fill(mine.logical_not(), 0);
  // A rank without rows of its own still takes part in the sum.
  const Tensor looked_up = at::embedding(weight, local);
  return scatter_sequence(looked_up.masked_fill(mine.logical_not().unsqueeze(-1), 0), tp);
}

}  // namespace titan::nn
