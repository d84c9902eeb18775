#include "parallel/pipeline/picture.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace titan::parallel::pipeline {
namespace {

bool has_several_stages(const Schedule& schedule) {
  return schedule.num_stages > schedule.num_ranks;
}

std::string label_of(const Action& action, bool with_stage) {
  return with_stage ? to_text(action)
                    : fmt::format("{}{}", name_of(action.kind), action.microbatch);
}

// The letter of the compact form.
char letter_of(const Action& action) {
  const char capital = name_of(action.kind).front();
  return action.microbatch % 2 == 0 ? capital : static_cast<char>(capital - 'A' + 'a');
}

struct TextForm {
  double unit;
  int64_t columns_per_unit;
  bool labels;
  int64_t width;  // of a whole row, without its head
};

int64_t longest_label(const Schedule& schedule) {
  size_t longest = 0;
  for (const auto& list : schedule.per_rank) {
    for (const Action& action : list) {
      if (is_compute(action.kind))
        longest = std::max(longest, label_of(action, has_several_stages(schedule)).size());
    }
  }
  return static_cast<int64_t>(longest);
}

TextForm choose_form(const Schedule& schedule, const Report& report, int64_t room) {
  const double unit = report.shortest_computation();
  // Costs far apart would make rows of any length; they are cut in any case.
  const auto units = static_cast<int64_t>(std::min(std::ceil(report.makespan / unit), 1e6));
  const int64_t label = longest_label(schedule) + 1;
  if (units * label <= room) return {unit, label, true, units * label};
  return {unit, 1, false, units};
}

std::string draw_row(const RankReport& rank, const TextForm& form, bool with_stage, int64_t shown) {
  std::string row(static_cast<size_t>(shown), ' ');
  for (int64_t i = 0; i < shown; i += form.columns_per_unit) row[i] = '.';
  for (const TimedAction& timed : rank.actions) {
    if (!is_compute(timed.action.kind)) continue;
    const auto column = [&](double time) {
      const double at = std::round(time / form.unit * static_cast<double>(form.columns_per_unit));
      return std::min(shown, static_cast<int64_t>(std::min(at, 1e9)));
    };
    const int64_t begin = column(timed.start), end = column(timed.end);
    const std::string label = label_of(timed.action, with_stage);
    for (int64_t i = begin; i < end; ++i) {
      if (!form.labels) {
        row[i] = letter_of(timed.action);
      } else if (i - begin < std::ssize(label)) {
        row[i] = label[i - begin];
      } else {
        row[i] = i + 1 < end ? '-' : ' ';
      }
    }
  }
  return row;
}

// Marks every 5 or 10 units of time.
std::string draw_axis(const TextForm& form, int64_t shown) {
  const int64_t every = form.labels ? 5 : 10;
  std::string axis(static_cast<size_t>(shown), ' ');
  for (int64_t mark = 0;; mark += every) {
    const std::string number = fmt::format("{:g}", static_cast<double>(mark) * form.unit);
    const int64_t column = mark * form.columns_per_unit;
    if (column + std::ssize(number) > shown) break;
    axis.replace(static_cast<size_t>(column), number.size(), number);
  }
  return axis;
}

}  // namespace

std::string draw_text(const Schedule& schedule, const Report& report, int64_t columns) {
  const bool with_stage = has_several_stages(schedule);
  const std::string widest = fmt::format("rank {}", schedule.num_ranks - 1);
  const int64_t head = std::ssize(widest) + 2;  // " |"
  const int64_t room = std::max<int64_t>(columns, 40) - head - 1;
  const TextForm form = choose_form(schedule, report, room);
  const int64_t shown = std::min(form.width, room);
  std::string text = fmt::format("{:{}}|{}|\n", "time", head - 1, draw_axis(form, shown));
  for (int64_t rank = 0; rank < schedule.num_ranks; ++rank) {
    text += fmt::format("{:{}}|{}|\n", fmt::format("rank {}", rank), head - 1,
                        draw_row(report.ranks[rank], form, with_stage, shown));
  }
  if (!form.labels)
    text += "a letter is one unit of time; capitals: even micro-batches, small letters: odd ones\n";
  if (shown < form.width) {
    text += fmt::format(
        "cut: the first {:g} of {:g} units of time; --columns {} or --svg FILE shows all\n",
        static_cast<double>(shown) * form.unit / static_cast<double>(form.columns_per_unit),
        report.makespan, form.width + head + 1);
  }
  return text;
}

}  // namespace titan::parallel::pipeline
