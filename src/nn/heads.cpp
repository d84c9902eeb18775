#include "nn/heads.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "comm/collectives.h"

namespace titan::nn {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

comm::Range key_value_range(const comm::Range& query, int64_t group) {
  const int64_t begin = query.begin / group;
  return {begin, (query.end() - 1) / group + 1 - begin};
}

struct SumCopies : torch::autograd::Function<SumCopies> {
  static Tensor forward(AutogradContext* ctx, const Tensor& weight, int64_t first_row,
                        int64_t all_rows, const comm::Group& tp) {
    comm::keep_group(ctx, tp);
    ctx->saved_data["first"] = first_row;
    ctx->saved_data["all"] = all_rows;
    return weight.view_as(weight);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor& mine = grads[0];
    auto shape = mine.sizes().vec();
    shape[0] = ctx->saved_data["all"].toInt();
    Tensor all = at::zeros(shape, mine.options());
    Tensor rows = all.narrow(0, ctx->saved_data["first"].toInt(), mine.size(0));
    rows.copy_(mine);
    comm::kept_group(ctx).start_all_reduce(all).wait();
    return {rows.contiguous(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

HeadShare share_heads(int64_t num_heads, int64_t num_kv_heads, int64_t ranks, int64_t rank) {
  TITAN_CHECK(num_heads % num_kv_heads == 0 && ranks <= num_heads && rank < ranks,
              "{} heads, {} key/value heads, rank {} of {}", num_heads, num_kv_heads, rank, ranks);
  const int64_t group = num_heads / num_kv_heads;
  HeadShare share;
  int64_t seen = 0;  // key/value heads of the ranks before
  for (int64_t r = 0; r < ranks; ++r) {
    const comm::Range query = comm::balanced_part(num_heads, ranks, r);
    const comm::Range key_value = key_value_range(query, group);
    share.copies = share.copies || key_value.begin < seen;
    if (r == rank) {
      share.query = query;
      share.key_value = key_value;
      const int64_t first = std::max(seen, key_value.begin) - key_value.begin;
      share.owned_key_value = {first, key_value.count - first};
    }
    seen = key_value.end();
  }
  return share;
}

std::vector<int64_t> key_value_of_query(int64_t num_heads, int64_t num_kv_heads,
                                        const HeadShare& share) {
  const int64_t group = num_heads / num_kv_heads;
  std::vector<int64_t> map;
  bool regular = share.query.count % share.key_value.count == 0;
  for (int64_t i = 0; i < share.query.count; ++i) {
    map.push_back((share.query.begin + i) / group - share.key_value.begin);
    regular = regular && map.back() == i / (share.query.count / share.key_value.count);
  }
  return regular ? std::vector<int64_t>() : map;
}

Tensor sum_copies(const Tensor& weight, int64_t num_kv_heads, const HeadShare& share,
                  const comm::Group& tp) {
  if (!share.copies) return weight;
  const int64_t rows_of_head = weight.size(0) / share.key_value.count;
  return SumCopies::apply(weight, share.key_value.begin * rows_of_head, num_kv_heads * rows_of_head,
                          tp);
}

}  // namespace titan::nn
