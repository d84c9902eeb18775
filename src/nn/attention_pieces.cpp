#include "nn/attention_pieces.h"

#include "base/error.h"
#include "nn/autograd_data.h"
#include "ops/partial_attention.h"

namespace titan::nn {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<AttentionPiece> pieces_of_whole(int64_t seq_len, int64_t size, int64_t rank,
                                            bool head_tail) {
  std::vector<AttentionPiece> diagonal, past;
  int64_t local = 0;
  for (const auto& range : sequence_ranges(seq_len, size, rank, head_tail)) {
    const TokenRange queries{local, range.count};
    diagonal.push_back({queries, range, true});
    if (range.begin > 0) past.push_back({queries, {0, range.begin}, false});
    local += range.count;
  }
  diagonal.insert(diagonal.end(), past.begin(), past.end());
  return diagonal;
}

std::vector<AttentionPiece> pieces_of_block(int64_t local, int64_t rank, int64_t owner,
                                            bool head_tail) {
  const TokenRange all{0, local}, head{0, local / 2}, tail{local / 2, local / 2};
  if (owner == rank) return {{all, all, true}};
  // An earlier rank's head lies before all queries, its tail behind them; with a later rank both
  // lie between this rank's head and tail.
  if (owner < rank) return {{all, head_tail ? head : all, false}};
  if (head_tail) return {{tail, all, false}};
  return {};
}

namespace {

Tensor cut(const Tensor& x, const TokenRange& range) {
  return x.narrow(2, range.begin, range.count);
}

ops::Visibility visibility_of(const AttentionPiece& piece, const PieceDocuments& documents) {
  ops::Visibility see{.causal = piece.causal};
  if (documents.queries.defined()) {
    see.query_documents = documents.queries.narrow(1, piece.queries.begin, piece.queries.count);
    see.key_documents = documents.keys.narrow(1, piece.keys.begin, piece.keys.count);
  }
  return see;
}

at::ScalarType sum_dtype(const Tensor& x) { return at::promote_types(x.scalar_type(), at::kFloat); }

bool is_one_piece(const std::vector<AttentionPiece>& pieces, const Tensor& q, const Tensor& k) {
  return pieces.size() == 1 && pieces[0].queries == TokenRange{0, q.size(2)} &&
         pieces[0].keys == TokenRange{0, k.size(2)};
}

Tensor& defined_like(Tensor& sum, const Tensor& x) {
  if (!sum.defined()) sum = at::zeros(x.sizes(), x.options().dtype(sum_dtype(x)));
  return sum;
}

struct PiecewiseAttention : torch::autograd::Function<PiecewiseAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::vector<AttentionPiece>& pieces,
                        const PieceDocuments& documents) {
    keep_data(ctx, "pieces", pieces);
    keep_data(ctx, "documents", documents);
    AttentionSum sum;
    if (is_one_piece(pieces, q, k)) {
      const auto part = ops::partial_attention(q, k, v, visibility_of(pieces[0], documents));
      sum = {part.out, part.logsumexp};
    } else {
      add_pieces(sum, q, k, v, pieces, documents);
      sum.out = sum.out.to(q.scalar_type());
    }
    ctx->save_for_backward({q, k, v, sum.out, sum.logsumexp});
    return sum.out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const auto& pieces = kept_data<std::vector<AttentionPiece>>(ctx, "pieces");
    const auto& documents = kept_data<PieceDocuments>(ctx, "documents");
    if (is_one_piece(pieces, q, k)) {
      const auto all = ops::partial_attention_backward(grads[0], q, k, v, saved[3], saved[4],
                                                       visibility_of(pieces[0], documents));
      return {all.q, all.k, all.v, Tensor(), Tensor()};
    }
    AttentionGradientSum sum;
    add_piece_gradients(sum, grads[0], q, k, v, saved[3], saved[4], pieces, documents);
    return {sum.q.to(q.scalar_type()), sum.k.to(k.scalar_type()), sum.v.to(v.scalar_type()),
            Tensor(), Tensor()};
  }
};

}  // namespace

void add_pieces(AttentionSum& sum, const Tensor& q, const Tensor& k, const Tensor& v,
                const std::vector<AttentionPiece>& pieces, const PieceDocuments& documents) {
  if (!sum.out.defined()) {
    const auto options = q.options().dtype(sum_dtype(q));
    sum.out = at::empty(q.sizes(), options);
    sum.logsumexp = at::empty({q.size(0), q.size(1), q.size(2)}, options);
  }
  for (const auto& piece : pieces) {
    const auto part = ops::partial_attention(cut(q, piece.queries), cut(k, piece.keys),
                                             cut(v, piece.keys), visibility_of(piece, documents));
    Tensor out = cut(sum.out, piece.queries), logsumexp = cut(sum.logsumexp, piece.queries);
    if (piece.causal) {  // the first that its queries meet
      out.copy_(part.out);
      logsumexp.copy_(part.logsumexp);
    } else {
      ops::merge_partial_attention(out, logsumexp, part);
    }
  }
}

void add_piece_gradients(AttentionGradientSum& sum, const Tensor& grad, const Tensor& q,
                         const Tensor& k, const Tensor& v, const Tensor& out,
                         const Tensor& logsumexp, const std::vector<AttentionPiece>& pieces,
                         const PieceDocuments& documents) {
  defined_like(sum.q, q);
  defined_like(sum.k, k);
  defined_like(sum.v, v);
  for (const auto& piece : pieces) {
    const auto part = ops::partial_attention_backward(
        cut(grad, piece.queries), cut(q, piece.queries), cut(k, piece.keys), cut(v, piece.keys),
        cut(out, piece.queries), cut(logsumexp, piece.queries), visibility_of(piece, documents));
    cut(sum.q, piece.queries).add_(part.q);
    cut(sum.k, piece.keys).add_(part.k);
    cut(sum.v, piece.keys).add_(part.v);
  }
}

Tensor attention_of_pieces(const Tensor& q, const Tensor& k, const Tensor& v,
                           const std::vector<AttentionPiece>& pieces,
                           const PieceDocuments& documents) {
  return PiecewiseAttention::apply(q, k, v, pieces, documents);
}

}  // namespace titan::nn
