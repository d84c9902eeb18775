#include "nn/ring_attention.h"

#include "nn/attention_pieces.h"
#include "nn/autograd_data.h"

namespace titan::nn {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kBlockTag = 1, kGradientTag = 2;

struct Ring {
  comm::Group group;
  bool head_tail;
  Tensor documents;

  int64_t size() const { return group.size(); }
  // Whose block is here at `step`.
  int64_t owner(int64_t step) const { return (group.rank() - step + size()) % size(); }
  std::vector<AttentionPiece> pieces(int64_t local, int64_t step) const {
    return pieces_of_block(local, group.rank(), owner(step), head_tail);
  }
  PieceDocuments documents_at(int64_t step) const {
    if (!documents.defined()) return {};
    return {shard_sequence(documents, 1, size(), group.rank(), head_tail),
            shard_sequence(documents, 1, size(), owner(step), head_tail)};
  }
};

// A tensor on its way to the next rank while another comes from the previous one.
class Turn {
 public:
  Turn() = default;
  Turn(const Ring& ring, const Tensor& outgoing, int64_t tag)
      : incoming_(at::empty_like(outgoing)),
        pending_(ring.group.start_turn(outgoing, incoming_, tag)) {}

  // What came in; what went out may be changed again.
  Tensor finish() {
    pending_.wait();
    return std::move(incoming_);
  }

 private:
  Tensor incoming_;
  comm::Pending pending_;
};

// Calls visit(step, block) with each rank's [2, B, K, t, D] in turn, own first, the next one coming
// in meanwhile.
void for_each_block(const Ring& ring, const Tensor& k, const Tensor& v,
                    const std::function<void(int64_t step, const Tensor& block)>& visit) {
  Tensor block = at::stack({k, v});
  for (int64_t step = 0; step < ring.size(); ++step) {
    const bool last = step + 1 == ring.size();
    Turn turn = last ? Turn() : Turn(ring, block, kBlockTag);
    visit(step, block);
    if (!last) block = turn.finish();
  }
}

struct RingAttention : torch::autograd::Function<RingAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Ring& ring) {
    keep_data(ctx, "ring", ring);
    AttentionSum sum;
    for_each_block(ring, k, v, [&](int64_t step, const Tensor& block) {
      add_pieces(sum, q, block[0], block[1], ring.pieces(q.size(2), step), ring.documents_at(step));
    });
    const Tensor out = sum.out.to(q.scalar_type());
    ctx->save_for_backward({q, k, v, out, sum.logsumexp});
    return out;
  }

  // A block's gradients follow it at one step's distance: they leave its first visitor when that
  // has computed its share, and come home from the last, where the owner's own share waits.
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const auto& ring = kept_data<Ring>(ctx, "ring");
    AttentionGradientSum sum;
    Tensor own;
    Turn gradients;
    for_each_block(ring, k, v, [&](int64_t step, const Tensor& block) {
      const auto wide = at::promote_types(block.scalar_type(), at::kFloat);
      const Tensor share = at::zeros(block.sizes(), block.options().dtype(wide));
      sum.k = share[0];
      sum.v = share[1];
      add_piece_gradients(sum, grads[0], q, block[0], block[1], saved[3], saved[4],
                          ring.pieces(q.size(2), step), ring.documents_at(step));
      if (step == 0) {
        own = share;
        return;
      }
      if (step > 1) share.add_(gradients.finish());
      gradients = Turn(ring, share, kGradientTag);
    });
    if (ring.size() > 1) own.add_(gradients.finish());
    return {sum.q.to(q.scalar_type()), own[0].to(k.scalar_type()), own[1].to(v.scalar_type()),
            Tensor()};
  }
};

}  // namespace

Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const comm::Group& group,
                      bool head_tail, const Tensor& documents) {
  return RingAttention::apply(q, k, v, Ring{group, head_tail, documents});
}

}  // namespace titan::nn
