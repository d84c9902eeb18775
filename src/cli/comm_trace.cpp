// `titan comm-trace`: which rank was behind when a job hung or failed, from the records that the
// ranks wrote of their last collectives.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/options.h"

namespace titan::cli {
namespace {

namespace fs = std::filesystem;

// Where a rank stood when it wrote its record.
struct Standing {
  int64_t ranks = 0;  // in the job
  int64_t step = 0, number = 0, bytes = 0;
  std::string phase, axis, collective, file;
  double waiting_s = -1;  // for the last collective; below 0: it was over
  double silent_s = 0;    // since it issued or waited for anything
  std::map<std::string, std::vector<int64_t>> groups;  // by axis
  std::map<std::string, int64_t> last_number;          // of the collectives on each axis
  double written = 0;                                  // seconds since 1970
};

Standing read_standing(const fs::path& file, int64_t& rank) {
  const std::string what = "[comm-trace] " + file.string();
  const auto record = json::parse_strict(files::read(file), what);
  rank = json::size_member(record, "rank", what);
  Standing s{.ranks = json::size_member(record, "ranks", what), .file = file.filename().string()};
  const double time = json::number_member(record, "time", what);
  const auto& list = json::member(record, "collectives", what);
  if (!list.is_array()) throw Error("{}: \"collectives\" is no list", what);
  if (list.empty()) return s;
  // What holds the rank is the last one it began to wait for. Others may be under way ahead of
  // their use. Without one it hangs in the call itself, or does not hang.
  const auto is_null = [](const nlohmann::json& c, const char* key) {
    return c.is_object() && c.contains(key) && c[key].is_null();
  };
  auto held = list.end();
  for (auto c = list.begin(); c != list.end(); ++c) {
    if (!is_null(*c, "waiting") && is_null(*c, "waited")) held = c;
  }
  if (record.contains("failed")) {
    // A library of an accelerator said which one: there the caller does not wait for the result.
    const auto& failed = record["failed"];
    const auto axis = json::string_member(failed, "axis", what);
    const auto number = json::size_member(failed, "number", what);
    for (auto c = list.begin(); c != list.end(); ++c) {
      if (c->value("axis", "") == axis && c->value("number", int64_t{-1}) == number) held = c;
    }
  }
  const auto& last = held == list.end() ? list.back() : *held;
  s.step = json::size_member(last, "step", what);
  s.number = json::size_member(last, "number", what);
  s.bytes = json::size_member(last, "bytes", what);
  s.phase = json::string_member(last, "phase", what);
  s.axis = json::string_member(last, "axis", what);
  s.collective = json::string_member(last, "collective", what);
  s.written = time;
  if (is_null(last, "waited") || record.contains("failed")) {
    const char* since =
        is_null(last, "waiting") || record.contains("failed") ? "issued" : "waiting";
    s.waiting_s = time - json::number_member(last, since, what);
  }
  if (record.contains("silent_s")) s.silent_s = json::number_member(record, "silent_s", what);
  for (const auto& c : list) {
    s.last_number[json::string_member(c, "axis", what)] = json::size_member(c, "number", what);
  }
  if (record.contains("groups")) {
    for (const auto& [axis, ranks] : record["groups"].items()) {
      s.groups[axis] = json::sizes_member(record["groups"], axis.c_str(), what);
    }
  }
  return s;
}

const Standing& newest(const std::map<int64_t, Standing>& by_rank) {
  const Standing* found = &by_rank.begin()->second;
  for (const auto& [rank, standing] : by_rank) {
    if (standing.written > found->written) found = &standing;
  }
  return *found;
}

std::string numbers(const std::vector<int64_t>& ranks) {
  std::vector<std::string> words;
  for (const int64_t rank : ranks) words.push_back(std::to_string(rank));
  return text::listed(words, 16);
}

// Of each collective that a rank waits for: who of its group has not come to it.
void print_missing(const std::map<int64_t, Standing>& by_rank) {
  std::set<std::string> said;
  for (const auto& [rank, s] : by_rank) {
    const auto group = s.groups.find(s.axis);
    // Messages between two ranks are counted by each on its own.
    const bool of_all = s.collective != "send" && s.collective != "receive";
    if (s.waiting_s < 0 || group == s.groups.end() || !of_all) continue;
    std::vector<int64_t> absent, unknown;
    for (const int64_t member : group->second) {
      const auto other = by_rank.find(member);
      if (other == by_rank.end()) {
        unknown.push_back(member);
      } else {
        const auto last = other->second.last_number.find(s.axis);
        if (last == other->second.last_number.end() || last->second < s.number)
          absent.push_back(member);
      }
    }
    std::string verdict = fmt::format("{} number {} over axis {} among ranks {}: ", s.collective,
                                      s.number, s.axis, numbers(group->second));
    if (!absent.empty()) {
      verdict += fmt::format("rank {} has not come to it.", numbers(absent));
    } else if (!unknown.empty()) {
      verdict += fmt::format("rank {} left no record.", numbers(unknown));
    } else {
      verdict +=
          "all have come to it, so no process is behind: a device or the network between "
          "them hangs (titan doctor --all-reduce tries them).";
    }
    if (said.size() < 8 && said.insert(verdict).second) std::printf("%s\n", verdict.c_str());
  }
}

void print_verdict(const std::map<int64_t, Standing>& by_rank) {
  std::vector<std::string> missing, behind;
  const int64_t ranks = newest(by_rank).ranks;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (!by_rank.contains(rank)) missing.push_back(std::to_string(rank));
  }
  int64_t first = by_rank.begin()->second.step, last = first;
  for (const auto& [rank, standing] : by_rank) {
    first = std::min(first, standing.step);
    last = std::max(last, standing.step);
  }
  for (const auto& [rank, standing] : by_rank) {
    if (standing.step == first && first < last) behind.push_back(std::to_string(rank));
  }
  if (!missing.empty()) {
    std::printf("No record of rank %s: killed, hung, or on another host — look there first.\n",
                text::listed(missing, 16).c_str());
  }
  if (!behind.empty()) {
    std::printf("Behind: rank %s, at step %ld while others are at step %ld.\n",
                text::listed(behind, 16).c_str(), static_cast<long>(first),
                static_cast<long>(last));
  }
  if (missing.empty() && behind.empty()) {
    std::printf("All ranks were in step %ld: compare the collectives above.\n",
                static_cast<long>(first));
  }
}

}  // namespace

int run_comm_trace(Arguments arguments) {
  CLI::App app(
      "Shows where each rank stood when it failed: the collective that it waited for. The records "
      "lie in comm.save_traces_folder below the dump folder, one file for each rank.");
  std::string folder;
  app.add_option("folder", folder, "the folder with the records")->required();
  if (!parse_options(app, arguments)) return 0;
  std::map<int64_t, Standing> by_rank;
  if (!fs::is_directory(folder)) {
    throw Error("[comm-trace] {} is no folder — give the comm_traces folder of a run", folder);
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    int64_t rank = 0;
    auto standing = read_standing(entry.path(), rank);
    by_rank[rank] = std::move(standing);
  }
  // What a larger job left before is not of this one.
  if (!by_rank.empty()) {
    const int64_t ranks = newest(by_rank).ranks;
    std::erase_if(by_rank, [&](const auto& entry) { return entry.first >= ranks; });
  }
  if (by_rank.empty()) {
    throw Error("[comm-trace] {} holds no record — ranks write one when a collective fails",
                folder);
  }
  std::printf("%5s %6s  %-20s %-14s %-16s %9s %12s  %s\n", "rank", "step", "phase", "axis",
              "collective", "number", "bytes", "state");
  for (const auto& [rank, s] : by_rank) {
    std::string state = s.axis.empty()    ? "no collective yet"
                        : s.waiting_s < 0 ? "over"
                                          : "waited for since " + text::duration(s.waiting_s);
    if (s.waiting_s < 0 && s.silent_s > 1)
      state += ", then nothing for " + text::duration(s.silent_s);
    std::printf("%5ld %6ld  %-20s %-14s %-16s %9ld %12s  %s\n", static_cast<long>(rank),
                static_cast<long>(s.step), s.phase.c_str(), s.axis.c_str(), s.collective.c_str(),
                static_cast<long>(s.number), text::bytes(s.bytes).c_str(), state.c_str());
  }
  print_missing(by_rank);
  print_verdict(by_rank);
  return 0;
}

}  // namespace titan::cli
