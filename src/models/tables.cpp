#include "models/tables.h"

namespace titan::models {
namespace {

struct LlamaRow {
  const char* flavor;
  int64_t dim, layers, heads, kv_heads, hidden, vocab;
  bool tied;
};

std::vector<ModelArgs> llama_rows(const char* family, std::initializer_list<LlamaRow> rows,
                                  const ModelArgs& common) {
  std::vector<ModelArgs> table;
  for (const auto& row : rows) {
    ModelArgs args = common;
    args.family = family;
    args.flavor = row.flavor;
    args.dim = row.dim;
    args.num_layers = row.layers;
    args.num_heads = row.heads;
    args.num_kv_heads = row.kv_heads;
    args.head_dim = row.dim / row.heads;
    args.hidden_dim = row.hidden;
    args.vocab_size = row.vocab;
    args.tied = row.tied;
    table.push_back(args);
  }
  return table;
}

}  // namespace

int64_t llama_hidden_dim(int64_t dim, double multiplier, int64_t multiple_of) {
  const auto hidden = static_cast<int64_t>(multiplier * static_cast<double>(2 * 4 * dim / 3));
  return (hidden + multiple_of - 1) / multiple_of * multiple_of;
}

std::vector<ModelArgs> llama2_table() {
  return llama_rows("llama2",
                    {{"7B", 4096, 32, 32, 32, 11008, 32000, false},
                     {"13B", 5120, 40, 40, 40, 13824, 32000, false},
                     {"70B", 8192, 80, 64, 8, 28672, 32000, false}},
                    {.norm_eps = 1e-5, .rope_theta = 10000});
}

std::vector<ModelArgs> llama3_table() {
  auto table = llama_rows("llama3",
                          {{"debugmodel", 256, 6, 16, 16, 768, 2048, false},
                           {"8B", 4096, 32, 32, 8, 14336, 128256, false},
                           {"70B", 8192, 80, 64, 8, 28672, 128256, false},
                           {"405B", 16384, 126, 128, 8, 53248, 128256, false}},
                          {.norm_eps = 1e-5, .rope_theta = 500000, .rope_scaling = RopeScaling{}});
  // Llama 3.2: tied, and frequencies divided by 32 instead of 8.
  const auto small = llama_rows(
      "llama3",
      {{"1B", 2048, 16, 32, 8, 8192, 128256, true}, {"3B", 3072, 28, 24, 8, 8192, 128256, true}},
      {.norm_eps = 1e-5, .rope_theta = 500000, .rope_scaling = RopeScaling{.factor = 32}});
  table.insert(table.end(), small.begin(), small.end());
  return table;
}

std::vector<ModelArgs> qwen3_table() {
  struct Row {
    const char* flavor;
    int64_t vocab, dim, layers, heads, hidden;
    bool tied;
  };
  std::vector<ModelArgs> table;
  for (const auto& row : std::initializer_list<Row>{{"debugmodel", 2048, 256, 8, 16, 3072, true},
                                                    {"0.6B", 151936, 1024, 28, 16, 3072, true},
                                                    {"1.7B", 151936, 2048, 28, 16, 6144, true},
                                                    {"4B", 151936, 2560, 36, 32, 9728, true},
                                                    {"8B", 151936, 4096, 36, 32, 12288, false},
                                                    {"14B", 151936, 5120, 40, 40, 17408, false},
                                                    {"32B", 151936, 5120, 64, 64, 25600, false}}) {
    table.push_back({.family = "qwen3",
                     .flavor = row.flavor,
                     .dim = row.dim,
                     .num_layers = row.layers,
                     .num_heads = row.heads,
                     .num_kv_heads = 8,
                     .head_dim = 128,
                     .hidden_dim = row.hidden,
                     .vocab_size = row.vocab,
                     .norm_eps = 1e-6,
                     .rope_theta = 1e6,
                     .rope_style = RopeStyle::kHalves,
                     .qk_norm = true,
                     .tied = row.tied});
  }
  return table;
}

}  // namespace titan::models
