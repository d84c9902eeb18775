// Random numbers: a function of seed and offset like a chip's, but not its Philox stream, so they
// equal neither a chip's nor the CPU's. Compare runs from weights that were made on the CPU.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "ops/operator.h"

using namespace cannemu::ops;

static at::Generator generator(int64_t seed, int64_t offset) {
  constexpr uint64_t kSpread = 1000003;
  return at::detail::createCPUGenerator(static_cast<uint64_t>(seed) * kSpread +
                                        static_cast<uint64_t>(offset));
}

ACLNN(InplaceNormal, Tensor x, float mean, float deviation, int64_t seed, int64_t offset) {
  x.copy_(at::empty(x.sizes(), at::kFloat).normal_(mean, deviation, generator(seed, offset)));
}
ACLNN(InplaceUniform, Tensor x, double from, double to, int64_t seed, int64_t offset) {
  x.copy_(at::empty(x.sizes(), at::kFloat).uniform_(from, to, generator(seed, offset)));
}
ACLNN(InplaceRandom, Tensor x, int64_t from, int64_t to, int64_t seed, int64_t offset) {
  x.copy_(at::empty(x.sizes(), at::kLong).random_(from, to, generator(seed, offset)));
}
ACLNN(InplaceBernoulli, Tensor x, Scalar p, int64_t seed, int64_t offset) {
  x.copy_(at::empty(x.sizes(), at::kFloat).bernoulli_(p.toDouble(), generator(seed, offset)));
}
ACLNN(InplaceBernoulliTensor, Tensor x, Tensor p, int64_t seed, int64_t offset) {
  x.copy_(at::bernoulli(p.to(at::kFloat).expand(x.sizes()), generator(seed, offset)));
}
ACLNN(Multinomial, Tensor x, int64_t samples, bool replacement, int64_t seed, int64_t offset,
      Tensor out) {
  put(out, at::multinomial(x.to(at::kFloat), samples, replacement, generator(seed, offset)));
}

// A dropout mask has one bit for each element, 1 for keep, the lowest bit of a byte first.
static Tensor bit_weights() { return at::pow(2, at::arange(8, at::kLong)); }
ACLNN(DropoutGenMaskV2, Ints shape, double p, int64_t seed, int64_t offset, ScalarType,
      Tensor mask) {
  const int64_t count = c10::multiply_integers(shape);
  const Tensor keep = at::rand({count}, generator(seed, offset)).ge(p).to(at::kLong);
  const Tensor bytes = at::constant_pad_nd(keep, {0, mask.numel() * 8 - count}).reshape({-1, 8});
  put(mask, (bytes * bit_weights()).sum(1));
}
ACLNN(DropoutDoMask, Tensor x, Tensor mask, double p, Tensor out) {
  const Tensor bits =
      at::bitwise_and(mask.to(at::kLong).unsqueeze(1), bit_weights()).ne(0).reshape(-1);
  const Tensor keep = bits.slice(0, 0, x.numel()).reshape(x.sizes()).to(x.scalar_type());
  put(out, p >= 1 ? at::zeros_like(x) : x * keep / (1 - p));
}

// Under capture seed and offset are read when the graph runs: the offset of the replay plus the
// operator's own within the graph.
static at::Generator replayed(const Tensor& seed, const Tensor& offset, int64_t within) {
  return generator(seed.item().toLong(), offset.item().toLong() + within);
}
ACLNN(InplaceNormalTensor, Tensor x, float mean, float deviation, Tensor seed, Tensor offset,
      int64_t within) {
  x.copy_(
      at::empty(x.sizes(), at::kFloat).normal_(mean, deviation, replayed(seed, offset, within)));
}
ACLNN(InplaceUniformTensor, Tensor x, double from, double to, Tensor seed, Tensor offset,
      int64_t within) {
  x.copy_(at::empty(x.sizes(), at::kFloat).uniform_(from, to, replayed(seed, offset, within)));
}
ACLNN(Randperm, int64_t n, int64_t seed, int64_t offset, Tensor out) {
  put(out, at::randperm(n, generator(seed, offset)));
}
