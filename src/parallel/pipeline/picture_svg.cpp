#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "parallel/pipeline/picture.h"

namespace titan::parallel::pipeline {
namespace {

constexpr double kRowHeight = 34, kBoxHeight = 28, kLeft = 66, kTop = 62, kMargin = 16;

constexpr const char* kSvgStyle = R"(<style>
  svg { background: #ffffff; font-family: system-ui, sans-serif; font-size: 12px; }
  .paper { fill: #ffffff; } .words { fill: #1f2937; } .lane { fill: #eef0f3; } .tick { stroke: #d3d7de; }
  .box { stroke: #ffffff; stroke-width: 1; } .number { fill: #111827; text-anchor: middle; }
  .stage { fill: #374151; font-size: 8px; }
  .F { fill: #a5c8ff; } .B { fill: #9fdcae; } .I { fill: #8fdcd6; } .W { fill: #ffd08a; }
  @media (prefers-color-scheme: dark) {
    svg { background: #15181e; } .paper { fill: #15181e; } .words { fill: #e5e7eb; }
    .lane { fill: #252a33; } .tick { stroke: #3a414d; } .box { stroke: #15181e; }
  }
</style>
)";

struct LegendEntry {
  ActionKind kind;
  const char* words;
};
constexpr LegendEntry kLegend[] = {
    {ActionKind::kForward, "F forward"},
    {ActionKind::kBackward, "B backward"},
    {ActionKind::kBackwardInput, "I backward of the input"},
    {ActionKind::kBackwardWeight, "W backward of the weights"},
};

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

struct SvgScale {
  double pixels_per_time;
  bool with_stage;
};

void draw_box(std::string& svg, const TimedAction& timed, int64_t rank, const SvgScale& scale) {
  const double x = kLeft + timed.start * scale.pixels_per_time;
  const double width = (timed.end - timed.start) * scale.pixels_per_time;
  const double y = kTop + static_cast<double>(rank) * kRowHeight;
  const Action& action = timed.action;
  svg += fmt::format(
      "<g><title>rank {}: {}, time {:g} to {:g}</title><rect class=\"box {}\" x=\"{:.6g}\" "
      "y=\"{:g}\" width=\"{:.6g}\" height=\"{:g}\" rx=\"3\"/>",
      rank, to_text(action), timed.start, timed.end, name_of(action.kind), x, y, width, kBoxHeight);
  const std::string number = std::to_string(action.microbatch);
  if (width >= 7.0 * static_cast<double>(number.size()) + 2) {
    svg += fmt::format("<text class=\"number\" x=\"{:.6g}\" y=\"{:g}\">{}</text>", x + width / 2,
                       y + (scale.with_stage ? 21 : 18), number);
    if (scale.with_stage) {
      svg += fmt::format("<text class=\"stage\" x=\"{:.6g}\" y=\"{:g}\">{}</text>", x + 3, y + 9,
                         action.stage);
    }
  }
  svg += "</g>\n";
}

void draw_legend(std::string& svg, const Schedule& schedule, const SvgScale& scale) {
  double x = kLeft;
  for (const LegendEntry& entry : kLegend) {
    const bool used = std::ranges::any_of(schedule.per_rank, [&](const auto& list) {
      return std::ranges::any_of(list, [&](const Action& a) { return a.kind == entry.kind; });
    });
    if (!used) continue;
    svg += fmt::format(
        "<rect class=\"{}\" x=\"{:g}\" y=\"34\" width=\"14\" height=\"14\" rx=\"3\"/><text "
        "class=\"words\" x=\"{:g}\" y=\"45\">{}</text>\n",
        name_of(entry.kind), x, x + 20, entry.words);
    x += 36 + 6.4 * static_cast<double>(std::string_view(entry.words).size());
  }
  svg +=
      fmt::format("<text class=\"words\" x=\"{:g}\" y=\"45\">{}</text>\n", x,
                  scale.with_stage ? "number: micro-batch; small: stage" : "number: micro-batch");
}

// Time marks at 1, 2 or 5 times a power of ten, some 60 pixels apart or more.
void draw_ticks(std::string& svg, const Report& report, const SvgScale& scale, double bottom) {
  double every = std::pow(10, std::floor(std::log10(60 / scale.pixels_per_time)));
  const std::array<double, 3> factors = {2, 2.5, 2};
  for (size_t i = 0; every * scale.pixels_per_time < 60 && i < 3; ++i) every *= factors[i % 3];
  for (double time = 0; time <= report.makespan * (1 + 1e-9); time += every) {
    const double x = kLeft + time * scale.pixels_per_time;
    svg += fmt::format(
        "<line class=\"tick\" x1=\"{0:.6g}\" x2=\"{0:.6g}\" y1=\"{1:g}\" y2=\"{2:g}\"/><text "
        "class=\"words\" x=\"{0:.6g}\" y=\"{3:g}\">{4:g}</text>\n",
        x, kTop - 4, bottom, bottom + 14, time);
  }
}

}  // namespace

std::string draw_svg(const Schedule& schedule, const Report& report) {
  const double shortest = report.shortest_computation();
  const double units = std::max(1.0, report.makespan / shortest);
  const SvgScale scale{std::clamp(1400 / units, 6.0, 34.0) / shortest,
                       schedule.num_stages > schedule.num_ranks};
  const double right = kLeft + std::max(report.makespan * scale.pixels_per_time, 640.0) + kMargin;
  const double bottom = kTop + static_cast<double>(schedule.num_ranks) * kRowHeight;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.6g}\" height=\"{1:g}\" viewBox=\"0 0 "
      "{0:.6g} {1:g}\" role=\"img\">\n{2}<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
      right, bottom + 24, kSvgStyle);
  svg += fmt::format(
      "<text class=\"words\" x=\"{:g}\" y=\"22\">{}: {} ranks, {} stages, {} micro-batches; time "
      "{:g}, idle {:.1f}%</text>\n",
      kLeft, xml_escaped(schedule.name), schedule.num_ranks, schedule.num_stages,
      schedule.num_microbatches, report.makespan, 100 * report.bubble_share);
  draw_legend(svg, schedule, scale);
  draw_ticks(svg, report, scale, bottom);
  for (int64_t rank = 0; rank < schedule.num_ranks; ++rank) {
    const double y = kTop + static_cast<double>(rank) * kRowHeight;
    svg += fmt::format(
        "<text class=\"words\" x=\"{:g}\" y=\"{:g}\">rank {}</text><rect class=\"lane\" x=\"{:g}\" "
        "y=\"{:g}\" width=\"{:.6g}\" height=\"{:g}\" rx=\"3\"/>\n",
        kMargin - 6, y + 18, rank, kLeft, y, report.makespan * scale.pixels_per_time, kBoxHeight);
    for (const TimedAction& timed : report.ranks[rank].actions) {
      if (is_compute(timed.action.kind) && timed.end > timed.start)
        draw_box(svg, timed, rank, scale);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace titan::parallel::pipeline
