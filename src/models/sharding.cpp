#include "models/sharding.h"

#include "base/error.h"
#include "models/model.h"
#include "nn/heads.h"

namespace titan::models {
namespace {

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> suffixes) {
  for (const auto suffix : suffixes) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

comm::Range scaled(const comm::Range& range, int64_t factor) {
  return {range.begin * factor, range.count * factor};
}

}  // namespace

bool is_replicated(const std::string& name) { return name.ends_with("norm.weight"); }

comm::Placement tensor_parallel_placement(const ModelArgs& args, const std::string& name,
                                          int64_t ranks, int64_t rank) {
  const auto shape = parameter_shape(args, name);
  const auto whole = comm::Box::whole(shape);
  const auto placed = [&](const comm::Box& part) {
    return comm::Placement{name, shape, part, comm::Box::whole(part.shape)};
  };
  if (is_replicated(name)) {
    auto placement = placed(whole);
    if (rank > 0) placement.owned = placement.owned.cut(0, {0, 0});
    return placement;
  }
  if (ends_with_any(name, {"tok_embeddings.weight", "output.weight"})) {
    return placed(whole.cut(0, comm::balanced_part(args.vocab_size, ranks, rank)));
  }
  if (ends_with_any(name, {"w1.weight", "w3.weight"})) {
    return placed(whole.cut(0, comm::balanced_part(args.hidden_dim, ranks, rank)));
  }
  if (name.ends_with("w2.weight")) {
    return placed(whole.cut(1, comm::balanced_part(args.hidden_dim, ranks, rank)));
  }
  const auto share = nn::share_heads(args.num_heads, args.num_kv_heads, ranks, rank);
  if (name.ends_with("wq.weight")) return placed(whole.cut(0, scaled(share.query, args.head_dim)));
  if (name.ends_with("wo.weight")) return placed(whole.cut(1, scaled(share.query, args.head_dim)));
  TITAN_CHECK(ends_with_any(name, {"wk.weight", "wv.weight"}), "no placement for {}", name);
  auto placement = placed(whole.cut(0, scaled(share.key_value, args.head_dim)));
  placement.owned = placement.owned.cut(0, scaled(share.owned_key_value, args.head_dim));
  return placement;
}

std::vector<std::string> tensor_parallel_problems(const ModelArgs& args, int64_t ranks) {
  std::vector<std::string> problems;
  const auto at_least_one = [&](const char* what, int64_t size) {
    if (size >= ranks) return;
    problems.push_back(
        fmt::format("tensor_parallel_degree {} is above the {} {} of {} {} — use at most {}", ranks,
                    size, what, args.family, args.flavor, size));
  };
  at_least_one("attention heads", args.num_heads);
  at_least_one("hidden units", args.hidden_dim);
  at_least_one("rows of the vocabulary", args.vocab_size);
  return problems;
}

int64_t group_of(const ModelArgs& args, const std::string& name) {
  if (name == "tok_embeddings.weight") return 0;
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) return args.num_layers + 1;
  return 1 + std::stoll(name.substr(kLayers.size()));
}

int64_t memory_order(const std::string& name) {
  // The visiting order has the down projection between gate and up.
  return name.ends_with("w2.weight") ? 1 : is_replicated(name) ? 2 : 0;
}

}  // namespace titan::models
