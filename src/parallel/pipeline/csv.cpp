#include "parallel/pipeline/csv.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "parallel/pipeline/lower.h"
#include "parallel/pipeline/simulate.h"

namespace titan::parallel::pipeline {
namespace {

constexpr std::string_view kForm = "<stage><F|I|W|B><micro-batch>, such as 0F3";
constexpr int64_t kLargestNumber = 1'000'000;

struct Cell {
  int64_t row, column;  // from 1
  std::string_view text;
};

std::string at_cell(const Cell& cell) {
  constexpr size_t kShown = 40;
  return fmt::format("row {}, column {}, '{}{}'", cell.row, cell.column,
                     text::to_valid_utf8(cell.text.substr(0, kShown)),
                     cell.text.size() > kShown ? "…" : "");
}

// What was read, with the place of each action.
struct Rows {
  std::vector<std::vector<Action>> actions;  // [rank]
  std::vector<std::vector<Cell>> cells;      // of each action
  std::vector<std::string> problems;
};

std::optional<int64_t> leading_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.starts_with('-') || number >= kLargestNumber)
    return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

std::optional<ActionKind> kind_named(std::string_view name) {
  for (int64_t i = 0; i < kNumActionKinds; ++i) {
    if (name_of(static_cast<ActionKind>(i)) == name) return static_cast<ActionKind>(i);
  }
  return std::nullopt;
}

// Reads one action; returns what is wrong with it, or "".
std::string parse_action(std::string_view word, Action& action) {
  std::string_view rest = word;
  const auto stage = leading_number(rest);
  const size_t name_end = std::min(rest.find_first_of("0123456789"), rest.size());
  const std::string_view name = rest.substr(0, name_end);
  const auto kind = kind_named(name);
  if (stage && kind && !is_compute(*kind)) {
    return fmt::format("{} is added by titan — give the file with computations only", name);
  }
  rest.remove_prefix(name_end);
  const auto microbatch = leading_number(rest);
  if (stage && kind && microbatch && rest.empty()) {
    action = {*kind, *stage, *microbatch};
    return "";
  }
  std::string upper(word);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  Action meant;
  if (upper != word && parse_action(upper, meant).empty())
    return fmt::format("letters are capitals — write {}", to_text(meant));
  return fmt::format("write {}", kForm);
}

// The words of a cell: one action, or the two of "(0F4;7B1)OVERLAP_F_B".
std::vector<std::string> words_of(std::string_view cell) {
  constexpr std::string_view kOverlap = ")OVERLAP_F_B";
  if (!cell.starts_with('(') || !cell.ends_with(kOverlap)) return {std::string(cell)};
  return text::split(cell.substr(1, cell.size() - 1 - kOverlap.size()), ';');
}

std::string_view unquoted(std::string_view cell) {
  cell = text::trim(cell);
  if (cell.size() >= 2 && cell.starts_with('"') && cell.ends_with('"'))
    cell = text::trim(cell.substr(1, cell.size() - 2));
  return cell;
}

void read_row(std::string_view row, Rows& rows) {
  rows.actions.emplace_back();
  rows.cells.emplace_back();
  int64_t column = 0;
  for (size_t begin = 0; begin <= row.size();) {
    const size_t end = std::min(row.find(',', begin), row.size());
    const Cell cell{std::ssize(rows.actions), ++column, unquoted(row.substr(begin, end - begin))};
    begin = end + 1;
    if (cell.text.empty()) continue;
    for (const std::string& word : words_of(cell.text)) {
      Action action{};
      const std::string problem = parse_action(text::trim(word), action);
      if (!problem.empty()) {
        rows.problems.push_back(fmt::format("{}: {}", at_cell(cell), problem));
        break;
      }
      rows.actions.back().push_back(action);
      rows.cells.back().push_back(cell);
    }
  }
}

Rows read_rows(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos)
    text.remove_suffix(1);
  Rows rows;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    read_row(text.substr(begin, end - begin), rows);
    begin = end + 1;
  }
  return rows;
}

void refuse_csv(const std::string& file, std::span<const std::string> problems) {
  constexpr size_t kShown = 5;
  const size_t shown = std::min(kShown, problems.size());
  throw Error("[pipeline] {}: {}{}", file, text::join(problems.first(shown), "; "),
              problems.size() > shown ? fmt::format("; and {} more", problems.size() - shown) : "");
}

// Fills in the ranks of the stages; one problem for each action on a second rank.
void find_ranks(Schedule& schedule, Rows& rows) {
  schedule.rank_of_stage.assign(schedule.num_stages, -1);
  for (size_t rank = 0; rank < rows.actions.size(); ++rank) {
    for (size_t i = 0; i < rows.actions[rank].size(); ++i) {
      int64_t& known = schedule.rank_of_stage[rows.actions[rank][i].stage];
      if (known < 0) known = static_cast<int64_t>(rank);
      if (known == static_cast<int64_t>(rank)) continue;
      rows.problems.push_back(
          fmt::format("{}: stage {} is in row {} already, a stage belongs to one rank",
                      at_cell(rows.cells[rank][i]), rows.actions[rank][i].stage, known + 1));
    }
  }
  for (int64_t stage = 0; stage < schedule.num_stages; ++stage) {
    if (schedule.rank_of_stage[stage] < 0) {
      rows.problems.push_back(
          fmt::format("there are {} stages, but no cell of stage {}", schedule.num_stages, stage));
    }
  }
}

}  // namespace

Schedule parse_csv(std::string_view text, const std::string& file) {
  Rows rows = read_rows(text);
  if (rows.actions.empty())
    throw Error("[pipeline] {}: is empty — a row per rank of {} is needed", file, kForm);
  for (size_t rank = 0; rank < rows.actions.size(); ++rank) {
    if (rows.actions[rank].empty() && rows.problems.empty())
      rows.problems.push_back(fmt::format("row {} has no action, each rank needs some", rank + 1));
  }
  if (!rows.problems.empty()) refuse_csv(file, rows.problems);
  Schedule schedule{.name = file, .num_ranks = std::ssize(rows.actions)};
  for (const auto& actions : rows.actions) {
    for (const Action& action : actions) {
      schedule.num_stages = std::max(schedule.num_stages, action.stage + 1);
      schedule.num_microbatches = std::max(schedule.num_microbatches, action.microbatch + 1);
    }
  }
  // Numbers far beyond what the cells can fill would make the checks below huge.
  const int64_t num_cells = std::ssize(text);
  if (schedule.num_stages > num_cells / schedule.num_microbatches) {
    throw Error(
        "[pipeline] {}: {} stages and {} micro-batches are named, but most cells of them "
        "are missing",
        file, schedule.num_stages, schedule.num_microbatches);
  }
  find_ranks(schedule, rows);
  if (!rows.problems.empty()) refuse_csv(file, rows.problems);
  schedule.per_rank = rows.actions;
  if (const auto problem = find_problem(schedule)) {
    if (!problem->action)
      throw Error("[pipeline] {}: row {}: {}", file, problem->rank + 1, problem->text);
    throw Error("[pipeline] {}: {}: {}", file, at_cell(rows.cells[problem->rank][*problem->action]),
                problem->text);
  }
  simulate(lower(schedule, GatherPolicy::kNever));
  return schedule;
}

Schedule read_csv(const std::filesystem::path& path) {
  return parse_csv(files::read(path), path.string());
}

std::string to_csv(const Schedule& compute) {
  std::string csv;
  for (const auto& list : compute.per_rank) {
    for (size_t i = 0; i < list.size(); ++i) csv += (i == 0 ? "" : ",") + to_text(list[i]);
    csv += '\n';
  }
  return csv;
}

}  // namespace titan::parallel::pipeline
