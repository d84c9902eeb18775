#include "parallel/pipeline/stages.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace titan::parallel::pipeline {
namespace {

// Layers the model counts for when they are dealt.
int64_t counted_layers(const config::Parallelism& parallelism, int64_t num_layers) {
  return num_layers + parallelism.pipeline_parallel_first_stage_less_layers +
         parallelism.pipeline_parallel_last_stage_less_layers;
}

int64_t divided_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// A place in the model's order: 0 the embedding, 1 + n layer n, then norm and output.
struct ModulePlaces {
  int64_t num_layers;

  int64_t norm() const { return num_layers + 1; }
  int64_t output() const { return num_layers + 2; }
  std::string name(int64_t place) const {
    if (place == 0) return "tok_embeddings";
    if (place == norm()) return "norm";
    return place == output() ? "output" : fmt::format("layers.{}", place - 1);
  }
  std::optional<int64_t> find(std::string_view name) const {
    if (name == "tok_embeddings") return 0;
    if (name == "norm") return norm();
    if (name == "output") return output();
    constexpr std::string_view kLayers = "layers.";
    if (!name.starts_with(kLayers)) return std::nullopt;
    int64_t layer = -1;
    const std::string_view digits = name.substr(kLayers.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    return whole && layer >= 0 && layer < num_layers ? std::optional(layer + 1) : std::nullopt;
  }
};

StageLayers stage_of_places(const std::vector<int64_t>& places, const ModulePlaces& modules) {
  StageLayers stage{.first_layer = places.front() == 0 ? 0 : places.front() - 1};
  for (const int64_t place : places) {
    stage.embedding |= place == 0;
    stage.norm |= place == modules.norm();
    stage.output |= place == modules.output();
    stage.num_layers += place > 0 && place < modules.norm() ? 1 : 0;
  }
  if (stage.num_layers == 0) stage.first_layer = stage.embedding ? 0 : modules.num_layers;
  return stage;
}

constexpr const char* kParts = "parallelism.module_fqns_per_model_part";
constexpr const char* kPerStage = "parallelism.pipeline_parallel_layers_per_stage";

bool ranks_can_hold(int64_t num_stages, const config::Parallelism& parallelism,
                    const ScheduleRules& rules) {
  const int64_t num_ranks = parallelism.pipeline_parallel_degree;
  if (num_stages % num_ranks != 0) return false;
  const int64_t per_rank = num_stages / num_ranks;
  return rules.only_stages_per_rank.value_or(per_rank) == per_rank;
}

// "1 stage", "2 stages", "any number of stages"
std::string wanted_per_rank(const ScheduleRules& rules) {
  if (!rules.only_stages_per_rank) return "a whole number of stages";
  return *rules.only_stages_per_rank == 1 ? "1 stage"
                                          : fmt::format("{} stages", *rules.only_stages_per_rank);
}

// The nearest layers per stage, below and above, that the ranks can hold.
std::string nearest_layers_per_stage(const config::Parallelism& parallelism,
                                     const ScheduleRules& rules, int64_t counted, int64_t given) {
  const auto legal = [&](int64_t layers) {
    return ranks_can_hold(divided_up(counted, layers), parallelism, rules);
  };
  std::vector<std::string> found;
  for (int64_t layers = std::min(given, counted) - 1; layers >= 1; --layers) {
    if (!legal(layers)) continue;
    found.push_back(std::to_string(layers));
    break;
  }
  for (int64_t layers = given + 1; layers <= counted; ++layers) {
    if (!legal(layers)) continue;
    found.push_back(std::to_string(layers));
    break;
  }
  return found.empty() ? "take fewer ranks" : fmt::format("take {}", text::join(found, " or "));
}

}  // namespace

std::vector<StageLayers> deal_layers(int64_t num_layers, int64_t num_stages, int64_t first_less,
                                     int64_t last_less) {
  TITAN_CHECK(num_layers >= 1 && num_stages >= 1 && first_less >= 0 && last_less >= 0,
              "{} layers to {} stages, less {} and {}", num_layers, num_stages, first_less,
              last_less);
  if (num_stages == 1) return {{true, 0, num_layers, true, true}};
  const int64_t counted = num_layers + first_less + last_less;
  const int64_t least = counted / num_stages;
  const int64_t heaviest = std::max({first_less, last_less, int64_t{1}});
  if (least < heaviest) {
    throw Error(
        "[pipeline] {} layers, with {} for the embedding and {} for the output, are {} for {} "
        "stages: {} each, but {} needed — take at most {} stages, or set "
        "pipeline_parallel_first_stage_less_layers and …last_stage_less_layers to at most {}",
        num_layers, first_less, last_less, counted, num_stages, least,
        heaviest == 1 ? "1 is" : fmt::format("{} are", heaviest), counted / heaviest,
        num_layers / num_stages);
  }
  std::vector<StageLayers> stages(num_stages);
  int64_t next = 0;
  for (int64_t i = 0; i < num_stages; ++i) {
    const int64_t share = least + (i < counted % num_stages ? 1 : 0);
    const int64_t less = i == 0 ? first_less : i == num_stages - 1 ? last_less : 0;
    const bool last = i == num_stages - 1;
    stages[i] = {i == 0, next, share - less, last, last};
    next += share - less;
  }
  TITAN_CHECK(next == num_layers, "{} of {} layers dealt", next, num_layers);
  return stages;
}

std::vector<StageLayers> stages_of_names(const std::vector<std::vector<std::string>>& parts,
                                         int64_t num_layers) {
  const ModulePlaces modules{num_layers};
  std::vector<StageLayers> stages;
  int64_t next = 0;  // the place that has to come
  for (size_t part = 0; part < parts.size(); ++part) {
    std::vector<int64_t> places;
    for (const std::string& name : parts[part]) {
      const auto place = modules.find(name);
      if (!place) {
        throw Error(
            "[pipeline] {}, part {}: there is no module '{}' — the model has tok_embeddings, "
            "layers.0 to layers.{}, norm and output",
            kParts, part, name, num_layers - 1);
      }
      places.push_back(*place);
    }
    if (places.empty())
      throw Error("[pipeline] {}: part {} names no module — delete it", kParts, part);
    std::ranges::sort(places);
    for (const int64_t place : places) {
      if (place != next) {
        throw Error(
            "[pipeline] {}, part {}: {} where {} has to come — name each module once, in "
            "the model's order",
            kParts, part, modules.name(place),
            next > modules.output() ? "nothing" : modules.name(next));
      }
      ++next;
    }
    stages.push_back(stage_of_places(places, modules));
  }
  if (next <= modules.output())
    throw Error("[pipeline] {}: {} is in no part", kParts, modules.name(next));
  return stages;
}

std::vector<std::string> names_of_stage(const StageLayers& stage) {
  std::vector<std::string> names;
  if (stage.embedding) names.emplace_back("tok_embeddings");
  for (int64_t i = 0; i < stage.num_layers; ++i)
    names.push_back(fmt::format("layers.{}", stage.first_layer + i));
  if (stage.norm) names.emplace_back("norm");
  if (stage.output) names.emplace_back("output");
  return names;
}

int64_t stages_per_rank(const config::Parallelism& parallelism, const ScheduleRules& rules,
                        int64_t num_layers) {
  const int64_t num_ranks = parallelism.pipeline_parallel_degree;
  if (const auto& parts = parallelism.module_fqns_per_model_part; parts && !parts->empty()) {
    const int64_t num_parts = std::ssize(*parts);
    if (!ranks_can_hold(num_parts, parallelism, rules)) {
      throw Error(
          "[pipeline] {} has {} parts for {} ranks, but {} has {} on each — {} parts {}", kParts,
          num_parts, num_ranks, rules.name, wanted_per_rank(rules),
          rules.only_stages_per_rank
              ? fmt::format("{}", num_ranks * *rules.only_stages_per_rank)
              : fmt::format("{} or {}", std::max(num_ranks, num_parts / num_ranks * num_ranks),
                            divided_up(num_parts + 1, num_ranks) * num_ranks),
          "are possible");
    }
    return num_parts / num_ranks;
  }
  if (!parallelism.pipeline_parallel_layers_per_stage) return rules.default_stages_per_rank;
  const int64_t layers = *parallelism.pipeline_parallel_layers_per_stage;
  const int64_t counted = counted_layers(parallelism, num_layers);
  TITAN_CHECK(layers >= 1, "{} layers per stage", layers);
  const int64_t num_stages = divided_up(counted, layers);
  if (!ranks_can_hold(num_stages, parallelism, rules)) {
    throw Error(
        "[pipeline] {} is {}: {} layers ({} with embedding and output) make {} stages for {} "
        "ranks, but {} has {} on each — {}",
        kPerStage, layers, num_layers, counted, num_stages, num_ranks, rules.name,
        wanted_per_rank(rules), nearest_layers_per_stage(parallelism, rules, counted, layers));
  }
  return num_stages / num_ranks;
}

std::vector<StageLayers> make_stages(const config::Parallelism& parallelism, int64_t num_layers,
                                     int64_t num_stages) {
  if (const auto& parts = parallelism.module_fqns_per_model_part; parts && !parts->empty()) {
    if (std::ssize(*parts) != num_stages) {
      throw Error("[pipeline] {} has {} parts, but the schedule has {} stages", kParts,
                  parts->size(), num_stages);
    }
    return stages_of_names(*parts, num_layers);
  }
  return deal_layers(num_layers, num_stages, parallelism.pipeline_parallel_first_stage_less_layers,
                     parallelism.pipeline_parallel_last_stage_less_layers);
}

}  // namespace titan::parallel::pipeline
