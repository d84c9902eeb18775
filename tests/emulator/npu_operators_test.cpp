// The fused operators of the adapter against plain formulas.
#include <cmath>
#include <map>

#include "emulator/rows.h"

namespace npu_test {
namespace {

using c10::IValue;

// Calls an operator of the adapter by name; arguments that are not given take the schema's
// defaults.
std::vector<IValue> call(const char* name, const std::map<std::string, IValue>& arguments) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  std::vector<IValue> stack;
  size_t used = 0;
  for (const auto& argument : handle.schema().arguments()) {
    const auto given = arguments.find(argument.name());
    used += given != arguments.end();
    stack.push_back(given != arguments.end() ? given->second
                                             : argument.default_value().value_or(IValue()));
  }
  TORCH_CHECK(used == arguments.size(), name,
              " has no argument of a given name: ", handle.schema());
  handle.callBoxed(&stack);
  return stack;
}

Tensor first(const std::vector<IValue>& results) { return results[0].toTensor(); }
Tensor empty_mask(const Tensor& like) {
  return at::triu(at::ones({2048, 2048}, at::kBool), 1).to(like.device());
}

Tensor rms_norm(const Tensors& x) {
  return x[0] * at::rsqrt(x[0].pow(2).mean(-1, true) + 1e-6) * x[1];
}

Tensor rotary(const Tensors& x, bool halves) {
  Tensor turned;
  if (halves) {
    const auto part = x[0].chunk(2, -1);
    turned = at::cat({-part[1], part[0]}, -1);
  } else {
    const Tensor even = x[0].slice(-1, 0, std::nullopt, 2),
                 odd = x[0].slice(-1, 1, std::nullopt, 2);
    turned = at::stack({-odd, even}, -1).flatten(-2);
  }
  return x[0] * x[1] + turned * x[2];
}

const std::vector<Row>& norms_and_activations() {
  static const std::vector<Row> rows = {
      {"aclnnRmsNorm aclnnRmsNormGrad",
       F(first(call("npu::npu_rms_norm", {{"input", x[0]}, {"gamma", x[1]}, {"epsilon", 1e-6}}))),
       {R({3, 4, 16}), R({16})},
       1e-5,
       rms_norm},
      {"aclnnSwiGlu aclnnSwiGluGrad",
       F(first(call("npu::npu_swiglu", {{"input", x[0]}}))),
       {R({3, 8})},
       1e-5,
       F(at::silu(x[0].chunk(2, -1)[0]) * x[0].chunk(2, -1)[1])},
      {"aclnnRotaryPositionEmbeddingV2 aclnnRotaryPositionEmbeddingGrad",
       F(first(call("npu::npu_rotary_mul",
                    {{"input", x[0]}, {"r1", x[1].detach()}, {"r2", x[2].detach()}}))),
       {R({2, 5, 3, 64}), R({1, 5, 1, 64}), R({1, 5, 1, 64})},
       1e-5,
       F(rotary({x[0], x[1].detach(), x[2].detach()}, true))},
      {"aclnnRotaryPositionEmbeddingV2 aclnnRotaryPositionEmbeddingGrad",
       F(first(call("npu::npu_rotary_mul", {{"input", x[0]},
                                            {"r1", x[1].detach()},
                                            {"r2", x[2].detach()},
                                            {"rotary_mode", "interleave"}}))),
       {R({2, 5, 3, 64}), R({1, 5, 1, 64}), R({1, 5, 1, 64})},
       1e-5,
       F(rotary({x[0], x[1].detach(), x[2].detach()}, false))},
      {"aclnnGeluV2 aclnnGeluBackwardV2",
       F(first(call("npu::npu_gelu", {{"input", x[0]}, {"approximate", "tanh"}}))),
       {R({3, 5})},
       1e-5,
       F(at::gelu(x[0], "tanh"))},
      {"aclnnDynamicQuantV2",
       F(first(call("npu::npu_dynamic_quant", {{"input", x[0].detach()}}))),
       {R({3, 16})},
       0,
       F(at::round(x[0] / (x[0].abs().amax(-1, true) / 127)).detach().to(at::kChar))},
      {"aclnnAddRmsNorm",
       F(first(call("npu::npu_add_rms_norm",
                    {{"x1", x[0].detach()}, {"x2", x[1].detach()}, {"gamma", x[2].detach()}}))),
       {R({3, 16}), R({3, 16}), R({16})},
       1e-5,
       F(rms_norm({x[0] + x[1], x[2]}).detach())},
      {"aclnnCast",
       F(first(call("npu::_npu_dtype_cast",
                    {{"input", x[0]}, {"dtype", static_cast<int64_t>(at::kBFloat16)}}))),
       {R({3, 5})},
       1e-2,
       F(x[0].to(at::kBFloat16))},
  };
  return rows;
}

// Scale 1/sqrt(16); keys after the query hidden when causal.
Tensor attention_BNSD(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  const int64_t group = q.size(1) / k.size(1);
  const Tensor keys = k.repeat_interleave(group, 1), values = v.repeat_interleave(group, 1);
  Tensor s = at::matmul(q, keys.transpose(-1, -2)) * 0.25;
  if (causal) {
    s = s.masked_fill(at::triu(at::ones({q.size(2), k.size(2)}, at::kBool), 1), -INFINITY);
  }
  return at::matmul(at::softmax(s, -1), values);
}

std::map<std::string, IValue> attention_arguments(const Tensors& x, const char* layout,
                                                  bool causal) {
  std::map<std::string, IValue> arguments = {{"query", x[0]},          {"key", x[1]},
                                             {"value", x[2]},          {"head_num", 4},
                                             {"input_layout", layout}, {"scale", 0.25}};
  if (causal) {
    arguments["sparse_mode"] = 2;
    arguments["atten_mask"] = empty_mask(x[0]);
  }
  return arguments;
}

Tensor fused_attention(const Tensors& x, const char* layout, bool causal) {
  return first(call("npu::npu_fusion_attention", attention_arguments(x, layout, causal)));
}

Tensor packed_attention(const Tensors& x) {
  auto arguments = attention_arguments(x, "TND", true);
  arguments["sparse_mode"] = 3;
  arguments["actual_seq_qlen"] = std::vector<int64_t>{3, 8};
  arguments["actual_seq_kvlen"] = std::vector<int64_t>{3, 8};
  return first(call("npu::npu_fusion_attention", arguments));
}

// True where a key is hidden: behind the query (both counted from the end) and not among the first
// keys of its batch, 1 and 4 of them.
Tensor hidden_by_prefix(int64_t rows, int64_t columns) {
  const Tensor causal = at::triu(at::ones({rows, columns}, at::kBool), columns - rows + 1);
  const Tensor prefix = at::tensor({1, 4}, at::kLong).view({2, 1, 1, 1});
  return at::logical_and(causal, at::arange(columns).ge(prefix));
}

Tensor prefix_attention(const Tensors& x, int64_t mode) {
  auto arguments = attention_arguments(x, "BNSD", false);
  arguments["sparse_mode"] = mode;
  arguments["prefix"] = std::vector<int64_t>{1, 4};
  arguments["atten_mask"] = mode == 5
                                ? hidden_by_prefix(x[0].size(2), x[1].size(2)).to(x[0].device())
                                : at::ones({3072, 2048}, at::kBool).to(x[0].device());
  return first(call("npu::npu_fusion_attention", arguments));
}

Tensor prefix_reference(const Tensors& x) {
  const Tensor keys = x[1].repeat_interleave(2, 1), values = x[2].repeat_interleave(2, 1);
  const Tensor s = at::matmul(x[0], keys.transpose(-1, -2)) * 0.25;
  return at::matmul(
      at::softmax(s.masked_fill(hidden_by_prefix(s.size(2), s.size(3)), -INFINITY), -1), values);
}

Tensor packed_reference(const Tensors& x) {
  Tensors parts;
  for (auto [begin, end] : {std::pair(0, 3), std::pair(3, 8)}) {
    auto one = [&, b = begin, e = end](const Tensor& t) {
      return t.slice(0, b, e).transpose(0, 1).unsqueeze(0);
    };
    parts.push_back(
        attention_BNSD(one(x[0]), one(x[1]), one(x[2]), true).squeeze(0).transpose(0, 1));
  }
  return at::cat(parts);
}

// Attention over six keys from that over the first and the last three.
Tensor joined_attention(const Tensors& x) {
  auto half = [&](int64_t begin) {
    return call("npu::npu_fusion_attention",
                attention_arguments({x[0].detach(), x[1].detach().slice(0, begin, begin + 3),
                                     x[2].detach().slice(0, begin, begin + 3)},
                                    "SBH", false));
  };
  const auto a = half(0), b = half(3);
  return first(call("npu::npu_ring_attention_update", {{"prev_attn_out", a[0]},
                                                       {"prev_softmax_max", a[1]},
                                                       {"prev_softmax_sum", a[2]},
                                                       {"cur_attn_out", b[0]},
                                                       {"cur_softmax_max", b[1]},
                                                       {"cur_softmax_sum", b[2]}}));
}

Tensor whole_attention(const Tensors& x) {
  auto heads = [](const Tensor& t_SBH) {
    return t_SBH.unflatten(2, {-1, 16}).permute({1, 2, 0, 3});
  };
  const Tensor out = attention_BNSD(heads(x[0]), heads(x[1]), heads(x[2]), false);
  return out.permute({2, 0, 1, 3}).flatten(2).detach();
}

const std::vector<Row>& attention() {
  const Tensors bnsd = {R({2, 4, 6, 16}), R({2, 2, 6, 16}), R({2, 2, 6, 16})};
  const Tensors bsnd = {R({2, 6, 4, 16}), R({2, 6, 2, 16}), R({2, 6, 2, 16})};
  const char* dense = "aclnnFlashAttentionScore aclnnFlashAttentionScoreGrad";
  static const std::vector<Row> rows = {
      {dense, F(fused_attention(x, "BNSD", false)), bnsd, 1e-5,
       F(attention_BNSD(x[0], x[1], x[2], false))},
      {dense, F(fused_attention(x, "BNSD", true)), bnsd, 1e-5,
       F(attention_BNSD(x[0], x[1], x[2], true))},
      {dense, F(fused_attention(x, "BSND", true)), bsnd, 1e-5,
       F(attention_BNSD(x[0].transpose(1, 2), x[1].transpose(1, 2), x[2].transpose(1, 2), true)
             .transpose(1, 2))},
      {dense,
       F(fused_attention({x[0].flatten(2), x[1].flatten(2), x[2].flatten(2)}, "BSH", true)
             .view({2, 6, 4, 16})),
       bsnd, 1e-5,
       F(attention_BNSD(x[0].transpose(1, 2), x[1].transpose(1, 2), x[2].transpose(1, 2), true)
             .transpose(1, 2))},
      {dense, F(prefix_attention(x, 5)), bnsd, 1e-5, prefix_reference},
      {dense, F(prefix_attention(x, 6)), bnsd, 1e-5, prefix_reference},
      {"aclnnFlashAttentionVarLenScore aclnnFlashAttentionUnpaddingScoreGrad",
       packed_attention,
       {R({8, 4, 16}), R({8, 2, 16}), R({8, 2, 16})},
       1e-5,
       packed_reference},
      {"aclnnRingAttentionUpdateV2",
       joined_attention,
       {R({6, 2, 64}), R({6, 2, 32}), R({6, 2, 32})},
       1e-5,
       whole_attention},
      {dense,
       F(at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true)),
       {R({2, 4, 6, 16}), R({2, 4, 6, 16}), R({2, 4, 6, 16})},
       1e-5},
  };
  return rows;
}

// Six tokens, two of four experts each.
Tensor experts() {
  return at::tensor({0, 2, 1, 3, 0, 1, 2, 3, 0, 3, 1, 2}, at::kLong).view({6, 2});
}
Tensor routing_map() { return at::zeros({6, 4}, at::kBool).scatter(1, experts(), true); }

Tensor sorted_tokens(const Tensor& tokens) {  // by expert, then by token
  const Tensor order = at::argsort(experts().reshape(-1), true, 0, false);
  return tokens.index_select(0, at::floor_divide(order, 2));
}

Tensor there_and_back(const Tensors& x) {
  const auto permuted = call("npu::npu_moe_token_permute",
                             {{"tokens", x[0]}, {"indices", experts().to(x[0].device())}});
  return first(call("npu::npu_moe_token_unpermute",
                    {{"permuted_tokens", permuted[0].toTensor() * permuted[0].toTensor()},
                     {"sorted_indices", permuted[1]},
                     {"probs", x[1]}}));
}

Tensor map_there_and_back(const Tensors& x) {
  const Tensor map = routing_map().to(x[0].device());
  const auto permuted = call("npu::npu_moe_token_permute_with_routing_map",
                             {{"tokens", x[0]}, {"routing_map", map}, {"num_out_tokens", 12}});
  return first(call("npu::npu_moe_token_unpermute_with_routing_map",
                    {{"permuted_tokens", permuted[0].toTensor() * permuted[0].toTensor()},
                     {"sorted_indices", permuted[2]},
                     {"restore_shape", std::vector<int64_t>{6, 8}},
                     {"probs", x[1]},
                     {"routing_map", map}}));
}

Tensor permuted_probabilities(const Tensors& x) {
  const Tensor map = routing_map().to(x[0].device());
  // The adapter's gradient needs that of the tokens too.
  const auto permuted =
      call("npu::npu_moe_token_permute_with_routing_map",
           {{"tokens", x[0]}, {"routing_map", map}, {"num_out_tokens", 12}, {"probs", x[1]}});
  return permuted[0].toTensor().sum(1) * permuted[1].toTensor();
}

Tensor grouped(const Tensors& x, int64_t list_type) {
  const Tensor list =
      list_type == 0 ? at::tensor({2, 2, 6}, at::kLong) : at::tensor({2, 0, 4}, at::kLong);
  return call("npu::npu_grouped_matmul", {{"x", Tensors{x[0].detach()}},
                                          {"weight", Tensors{x[1].detach()}},
                                          {"group_list", list.to(x[0].device())},
                                          {"split_item", 3},
                                          {"group_type", 0},
                                          {"group_list_type", list_type}})[0]
      .toTensorVector()[0];
}

Tensor grouped_reference(const Tensors& x) {
  return at::cat({at::mm(x[0].slice(0, 0, 2), x[1][0]), at::mm(x[0].slice(0, 2, 6), x[1][2])})
      .detach();
}

Tensor gating(const Tensors& x, int result) {
  return call("npu::npu_moe_gating_top_k", {{"x", x[0].detach()},
                                            {"k", 2},
                                            {"bias", x[1].detach()},
                                            {"k_group", 2},
                                            {"group_count", 4},
                                            {"group_select_mode", 1},
                                            {"norm_type", 1},
                                            {"routed_scaling_factor", 2.5}})[result]
      .toTensor();
}

Tensor gating_experts(const Tensors& x) {
  const Tensor rated = at::sigmoid(x[0]) + x[1], grouped = rated.view({-1, 4, 4});
  const Tensor best = std::get<1>(std::get<0>(grouped.topk(2, -1)).sum(-1).topk(2, -1));
  const Tensor hidden = at::ones({x[0].size(0), 4}, at::kBool).scatter(1, best, false);
  return std::get<1>(
             grouped.masked_fill(hidden.unsqueeze(-1), -INFINITY).view(rated.sizes()).topk(2, -1))
      .detach();
}

Tensor gating_reference(const Tensors& x) {
  const Tensor chosen = at::sigmoid(x[0]).gather(1, gating_experts(x));
  return (chosen / chosen.sum(-1, true) * 2.5).detach();
}

const std::vector<Row>& experts_rows() {
  const Tensor weights = P({6, 2}), all_weights = P({6, 4});
  static const std::vector<Row> rows = {
      {"aclnnMoeTokenPermute",
       F(first(call("npu::npu_moe_token_permute",
                    {{"tokens", x[0]}, {"indices", experts().to(x[0].device())}}))),
       {R({6, 8})},
       1e-6,
       F(sorted_tokens(x[0]))},
      {"aclnnMoeTokenPermute aclnnMoeTokenPermuteGrad aclnnMoeTokenUnpermute "
       "aclnnMoeTokenUnpermuteGrad",
       there_and_back,
       {R({6, 8}), weights},
       1e-5,
       F(x[0] * x[0] * x[1].sum(1, true))},
      {"aclnnMoeTokenPermuteWithRoutingMap aclnnMoeTokenPermuteWithRoutingMapGrad "
       "aclnnMoeTokenUnpermuteWithRoutingMap "
       "aclnnMoeTokenUnpermuteWithRoutingMapGrad",
       map_there_and_back,
       {R({6, 8}), all_weights},
       1e-5,
       F(x[0] * x[0] * (x[1] * routing_map().to(at::kFloat)).sum(1, true))},
      {"aclnnMoeTokenPermuteWithRoutingMap aclnnMoeTokenPermuteWithRoutingMapGrad",
       permuted_probabilities,
       {R({6, 8}), all_weights},
       1e-6,
       F(sorted_tokens(x[0]).sum(1) * x[1].t().masked_select(routing_map().t()))},
      {"aclnnGroupedMatmulV5",
       F(grouped(x, 0)),
       {R({6, 8}), R({3, 8, 5})},
       1e-5,
       grouped_reference},
      {"aclnnGroupedMatmulV5",
       F(grouped(x, 1)),
       {R({6, 8}), R({3, 8, 5})},
       1e-5,
       grouped_reference},
      {"aclnnGroupedMatmulAdd",
       F(call("npu::npu_grouped_matmul_add",
              {{"input", at::ones({3, 8, 5}, x[0].options().requires_grad(false))},
               {"x", x[0].detach()},
               {"weight", x[1].detach()},
               {"group_list", at::tensor({2, 2, 6}, at::kLong).to(x[0].device())}})[0]
             .toTensor()),
       {R({6, 8}), R({6, 5})},
       1e-5,
       F((at::stack({at::mm(x[0].slice(0, 0, 2).t(), x[1].slice(0, 0, 2)), at::zeros({8, 5}),
                     at::mm(x[0].slice(0, 2, 6).t(), x[1].slice(0, 2, 6))}) +
          1)
             .detach())},
      {"aclnnMoeGatingTopK", F(gating(x, 0)), {R({5, 16}), R({16}) * 0.1}, 1e-5, gating_reference},
      {"aclnnMoeGatingTopK",
       F(gating(x, 1).to(at::kLong)),
       {R({5, 16}), R({16}) * 0.1},
       1e-6,
       gating_experts},
  };
  return rows;
}

Tensor fused_cross_entropy(const Tensors& x, const char* reduction, double smoothing) {
  return first(call("npu::npu_cross_entropy_loss", {{"input", x[0]},
                                                    {"target", x[1]},
                                                    {"reduction", reduction},
                                                    {"ignore_index", 0},
                                                    {"label_smoothing", smoothing}}));
}

const std::vector<Row>& fused_losses() {
  const char* names = "aclnnCrossEntropyLoss aclnnCrossEntropyLossGrad";
  const Tensors inputs = {R({6, 5}), I({6}, 5)};
  static const std::vector<Row> rows = {
      {names, F(fused_cross_entropy(x, "mean", 0)), inputs, 1e-5,
       F(at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::Mean, 0).reshape({1}))},
      {names, F(fused_cross_entropy(x, "sum", 0)), inputs, 1e-5,
       F(at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::Sum, 0).reshape({1}))},
      {names, F(fused_cross_entropy(x, "none", 0)), inputs, 1e-5,
       F(at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::None, 0))},
      {names, F(fused_cross_entropy(x, "sum", 0.1)), inputs, 1e-5,
       F(at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::Sum, 0, 0.1).reshape({1}))},
  };
  return rows;
}

TEST(FusedOperators, NormsAndActivations) { check(norms_and_activations()); }
TEST(FusedOperators, Attention) { check(attention()); }
// The weights that dropout kept are seen through values that are the identity; with them, output
// and gradients are those of the plain formula.
TEST(FusedOperators, AttentionWithDropout) {
  constexpr double kKeep = 0.75;
  const Tensors inputs = {R({2, 4, 24, 16}), R({2, 2, 16, 16}), at::eye(16).expand({2, 2, 16, 16})};
  const Tensor weight = R({2, 4, 24, 16});
  const auto leaves = [&](at::Device where) {
    Tensors x;
    for (const auto& input : inputs) {
      x.push_back(input.to(where).contiguous().detach().requires_grad_());
    }
    return x;
  };
  const Tensors x = leaves(device()), y = leaves(at::kCPU);
  auto arguments = attention_arguments(x, "BNSD", false);
  arguments["keep_prob"] = kKeep;
  const Tensor out = first(call("npu::npu_fusion_attention", arguments));
  (out * weight.to(device())).sum().backward();

  const Tensor kept = out.detach().cpu().ne(0).to(at::kFloat);
  EXPECT_NEAR(kept.mean().item<double>(), kKeep, 0.05);
  EXPECT_GT((kept[0][0] - kept[1][3]).abs().sum().item<double>(), 0);  // not one mask for all
  const Tensor p =
      at::softmax(at::matmul(y[0], y[1].repeat_interleave(2, 1).transpose(-1, -2)) * 0.25, -1);
  const Tensor want = at::matmul(p * kept / kKeep, y[2].repeat_interleave(2, 1));
  (want * weight).sum().backward();
  expect_close(out, want, 1e-5, "output");
  for (size_t i = 0; i < 3; ++i) {
    expect_close(x[i].grad(), y[i].grad(), 1e-4, "gradient " + std::to_string(i));
  }
}

TEST(FusedOperators, Experts) { check(experts_rows()); }
TEST(FusedOperators, Losses) { check(fused_losses()); }

// ---- the 950 family: another attention operator, microscaling types ----

bool on_950() {
  const char* soc = std::getenv("CANNEMU_SOC");
  return soc && std::string(soc).find("950") != std::string::npos;
}

TEST(Ascend950, Attention) {
  if (!on_950()) GTEST_SKIP() << "CANNEMU_SOC is not a 950";
  const char* names = "aclnnFlashAttentionScoreV4 aclnnFlashAttentionScoreGradV4";
  check({{names,
          F(fused_attention(x, "BNSD", true)),
          {R({2, 4, 6, 16}), R({2, 2, 6, 16}), R({2, 2, 6, 16})},
          1e-5,
          F(attention_BNSD(x[0], x[1], x[2], true))},
         {names,
          packed_attention,
          {R({8, 4, 16}), R({8, 2, 16}), R({8, 2, 16})},
          1e-5,
          packed_reference}});
}

TEST(Ascend950, ScaledMaskedSoftmax) {
  if (!on_950()) GTEST_SKIP() << "CANNEMU_SOC is not a 950";
  check({{"aclnnScaledMaskedSoftmax aclnnScaledMaskedSoftmaxBackward",
          F(first(call("npu::npu_scaled_masked_softmax",
                       {{"x", x[0]}, {"mask", x[1]}, {"scale", 0.5}}))),
          {R({2, 2, 32, 32}), Bool({2, 1, 32, 32})},
          1e-5,
          F(at::softmax((x[0] * 0.5).masked_fill(x[1], -10000.0), -1))}});
}

// Quantised and multiplied again: within the step of e4m3, 1/16 of the block's greatest element.
TEST(Ascend950, MicroscalingProduct) {
  if (!on_950()) GTEST_SKIP() << "CANNEMU_SOC is not a 950";
  constexpr int64_t kFloat8 = 292,
                    kScale = 293;  // torch_npu's own numbers of float8_e4m3fn and float8_e8m0fnu
  const Tensor a = R({6, 128}), b = R({128, 5});
  auto quantised = [&](const Tensor& x, int64_t axis) {
    return call(
        "npu::npu_dynamic_mx_quant",
        {{"input", x.to(device()).to(at::kBFloat16)}, {"axis", axis}, {"dst_type", kFloat8}});
  };
  const auto qa = quantised(a, -1), qb = quantised(b, 0);
  EXPECT_EQ(qa[1].toTensor().sizes(), (at::IntArrayRef{6, 2, 2}));
  EXPECT_EQ(qb[1].toTensor().sizes(), (at::IntArrayRef{2, 5, 2}));
  const Tensor out =
      first(call("npu::npu_quant_matmul", {{"x1", qa[0]},
                                           {"x2", qb[0]},
                                           {"scale", qb[1]},
                                           {"pertoken_scale", qa[1]},
                                           {"output_dtype", static_cast<int64_t>(at::kFloat)},
                                           {"scale_dtype", kScale},
                                           {"pertoken_scale_dtype", kScale},
                                           {"group_sizes", std::vector<int64_t>{1, 1, 32}}}));
  const Tensor got = out.cpu(), want = at::mm(a, b);
  EXPECT_GT(calls("aclnnDynamicMxQuantV2"), 0U);
  EXPECT_GT(calls("aclnnQuantMatmulV5"), 0U);
  EXPECT_LT((got - want).abs().max().item<double>(), 0.06 * want.abs().max().item<double>());
}

}  // namespace
}  // namespace npu_test
