#include "device/cuda/kernels/attention.cuh"
#include "device/cuda/kernels/launch.h"

namespace titan::device::cuda::kernels {
namespace {

// Calls body with a null pointer of the element's type and the elements of a head as a constant.
template <class Body>
void with_kernel(Element element, int64_t head_dim, Body&& body) {
  const auto with_head = [&](auto* type) {
    if (head_dim == 16) return body(type, std::integral_constant<int, 16>{});
    return body(type, std::integral_constant<int, 32>{});
  };
  if (element == Element::kFloat16) return with_head(static_cast<__half*>(nullptr));
  return with_head(static_cast<__nv_bfloat16*>(nullptr));
}

template <class To>
HeadView<To> view_of(const AttentionArray& x) {
  return {static_cast<To*>(const_cast<void*>(x.data)), x.batch_stride, x.token_stride};
}

template <class T>
AttentionArguments<T> arguments_of(const AttentionSizes& s, const AttentionArray& q,
                                   const AttentionArray& k, const AttentionArray& v) {
  AttentionArguments<T> p{};
  p.q = view_of<const T>(q);
  p.k = view_of<const T>(k);
  p.v = view_of<const T>(v);
  p.tokens = static_cast<int>(s.tokens);
  p.heads = static_cast<int>(s.heads);
  p.heads_per_kv = static_cast<int>(s.heads / s.kv_heads);
  p.scale = 1.0f / sqrtf(static_cast<float>(s.head_dim));
  return p;
}

dim3 grid_of(const AttentionSizes& s, int64_t heads) {
  return {static_cast<unsigned>((s.tokens + kAttentionTile - 1) / kAttentionTile),
          static_cast<unsigned>(heads), static_cast<unsigned>(s.batch)};
}

}  // namespace

bool attention_serves(Element element, const AttentionSizes& s) {
  return element != Element::kFloat32 && (s.head_dim == 16 || s.head_dim == 32) &&
         s.heads % s.kv_heads == 0 && s.heads < 65536 && s.batch < 65536 && s.tokens < (1 << 30);
}

void attention(Element element, const AttentionSizes& s, const AttentionArray& q,
               const AttentionArray& k, const AttentionArray& v, const AttentionArray& out,
               float* logsumexp, cudaStream_t stream) {
  with_kernel(element, s.head_dim, [&](auto* type, auto head_dim) {
    using T = std::remove_pointer_t<decltype(type)>;
    auto p = arguments_of<T>(s, q, k, v);
    p.out_to = view_of<T>(out);
    p.logsumexp = logsumexp;
    attention_forward<T, decltype(head_dim)::value>
        <<<grid_of(s, s.heads), kAttentionThreads, 0, stream>>>(p);
  });
}

void attention_backward(Element element, const AttentionSizes& s, const AttentionArray& grad,
                        const AttentionArray& q, const AttentionArray& k, const AttentionArray& v,
                        const AttentionArray& out, float* logsumexp, float* delta,
                        const AttentionArray& dq, const AttentionArray& dk,
                        const AttentionArray& dv, cudaStream_t stream) {
  with_kernel(element, s.head_dim, [&](auto* type, auto head_dim) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr int D = decltype(head_dim)::value;
    auto p = arguments_of<T>(s, q, k, v);
    p.grad = view_of<const T>(grad);
    p.out = view_of<const T>(out);
    p.dq = view_of<T>(dq);
    p.dk = view_of<T>(dk);
    p.dv = view_of<T>(dv);
    p.logsumexp = logsumexp;
    p.delta = delta;
    attention_backward_queries<T, D><<<grid_of(s, s.heads), kAttentionThreads, 0, stream>>>(p);
    attention_backward_keys<T, D><<<grid_of(s, s.kv_heads), kAttentionThreads, 0, stream>>>(p);
  });
}

}  // namespace titan::device::cuda::kernels
