#include "nn/context_attention.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"
#include "base/numbers.h"
#include "comm/collectives.h"
#include "nn/attention_pieces.h"
#include "nn/autograd_data.h"
#include "nn/ring_attention.h"
#include "ops/attention.h"
#include "ops/recompute.h"

namespace titan::nn {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// Keys and values of the whole sequence in order, [2, B, K, T, D], from this rank's; one all-gather
// forward, one reduce-scatter of the partial gradients backward.
struct GatherKeysValues : torch::autograd::Function<GatherKeysValues> {
  static Tensor forward(AutogradContext* ctx, const Tensor& kv, const ContextParallel& context) {
    keep_data(ctx, "context", context);
    auto shape = kv.sizes().vec();
    shape.insert(shape.begin(), context.group.size());
    Tensor all = at::empty(shape, kv.options());
    context.group.start_all_gather(all, kv.contiguous()).wait();
    return join_sequence(all.unbind(0), 3, context.head_tail);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto& context = kept_data<ContextParallel>(ctx, "context");
    const int64_t size = context.group.size();
    std::vector<Tensor> parts;
    for (int64_t rank = 0; rank < size; ++rank) {
      parts.push_back(shard_sequence(grads[0], 3, size, rank, context.head_tail));
    }
    const Tensor in = at::stack(parts);
    Tensor out = at::empty(parts[0].sizes(), in.options());
    context.group.start_reduce_scatter(out, in).wait();
    return {out, Tensor()};
  }
};

PieceDocuments documents_of(const ContextParallel& context, const std::optional<Tensor>& documents,
                            const Tensor& key_documents) {
  if (!documents) return {};
  return {
      shard_sequence(*documents, 1, context.group.size(), context.group.rank(), context.head_tail),
      key_documents};
}

Tensor attend_gathered(const Tensor& q, const Tensor& k, const Tensor& v,
                       const ContextParallel& context, const std::optional<Tensor>& documents) {
  const auto& group = context.group;
  const auto all = GatherKeysValues::apply(at::stack({k, v}), context).unbind(0);
  const auto pieces =
      pieces_of_whole(all[0].size(2), group.size(), group.rank(), context.head_tail);
  return attention_of_pieces(q, all[0], all[1], pieces,
                             documents_of(context, documents, documents.value_or(Tensor())));
}

// Attention on one device.
Tensor attend_whole(const Tensor& q, const Tensor& k, const Tensor& v,
                    const std::optional<Tensor>& documents) {
  if (!documents) return ops::attention(q, k, v);
  const TokenRange all{0, q.size(2)};
  return attention_of_pieces(q, k, v, {{all, all, true}}, {*documents, *documents});
}

// Each key head `times` times, side by side.
Tensor repeat_each_head(const Tensor& x, int64_t times) {
  if (times == 1) return x;
  return x.unsqueeze(2).expand({-1, -1, times, -1, -1}).flatten(1, 2);
}

// All tokens of this rank's heads: one exchange of heads for tokens before, one after.
Tensor attend_some_heads(const Tensor& q, const Tensor& k, const Tensor& v,
                         const ContextParallel& context, const std::optional<Tensor>& documents) {
  const int64_t size = context.group.size(), heads = q.size(1), kv_heads = k.size(1);
  // Fewer key heads than ranks: ranks that serve the same key head get a copy each, and the sum of
  // the copies' gradients is the gradient of the repetition.
  const int64_t copies = std::lcm(kv_heads, size);
  const auto dealt = [&](const Tensor& x) { return x.unflatten(1, {size, x.size(1) / size}); };
  const auto copied = [&](const Tensor& x) {
    return dealt(repeat_each_head(x, copies / kv_heads));
  };
  const Tensor packed = at::cat({dealt(q), copied(k), copied(v)}, 2).flatten(1, 2);
  const Tensor ours = comm::all_to_all(packed, context.group, 1, 2);
  const auto parts = join_sequence(ours.chunk(size, 2), 2, context.head_tail)
                         .split_with_sizes({heads / size, copies / size, copies / size}, 1);
  const Tensor out = attend_whole(parts[0], parts[1], parts[2], documents);
  std::vector<Tensor> by_rank;
  for (int64_t rank = 0; rank < size; ++rank) {
    by_rank.push_back(shard_sequence(out, 2, size, rank, context.head_tail));
  }
  return comm::all_to_all(at::cat(by_rank, 2), context.group, 2, 1);
}

}  // namespace

std::vector<std::string> context_problems(ContextMethod method, bool head_tail, int64_t size,
                                          int64_t seq_len, int64_t num_heads) {
  std::vector<std::string> problems;
  if (size == 1) return problems;
  const int64_t parts = head_tail ? 2 * size : size;
  if (seq_len % parts != 0) {
    problems.push_back(fmt::format(
        "a sequence of {} tokens does not divide into the {} parts of context parallelism {}{}: "
        "nearest sequence lengths {}",
        seq_len, parts, size, head_tail ? " with the head-tail balance" : "",
        nearest_multiples(seq_len, parts)));
  }
  if (method == ContextMethod::kUlysses && num_heads % size != 0) {
    std::vector<std::string> degrees;
    for (int64_t degree = 1; degree <= num_heads; ++degree) {
      if (num_heads % degree == 0) degrees.push_back(std::to_string(degree));
    }
    problems.push_back(fmt::format(
        "Ulysses deals heads to ranks: {} heads do not divide by context parallelism {}: degrees "
        "that divide them are {}; all-gather and ring take any",
        num_heads, size, fmt::join(degrees, ", ")));
  }
  return problems;
}

Tensor context_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const ContextParallel& context, const std::optional<Tensor>& documents) {
  const int64_t size = context.group.size();
  const auto problems =
      context_problems(context.method, context.head_tail, size, q.size(2) * size, q.size(1));
  if (!problems.empty()) throw Error("[nn] {}", fmt::join(problems, "; "));
  TITAN_CHECK(!documents || documents->size(1) == q.size(2) * size,
              "documents of {} tokens for a sequence of {}", documents->size(1), q.size(2) * size);
  return ops::kept_call([&] {
    if (size == 1) return attend_whole(q, k, v, documents);
    if (context.method == ContextMethod::kAllGather) {
      return attend_gathered(q, k, v, context, documents);
    }
    if (context.method == ContextMethod::kRing) {
      return ring_attention(q, k, v, context.group, context.head_tail,
                            documents.value_or(Tensor()));
    }
    TITAN_CHECK(context.method == ContextMethod::kUlysses, "a method of context parallelism");
    return attend_some_heads(q, k, v, context, documents);
  });
}

}  // namespace titan::nn
