#include "launch/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "base/text.h"

namespace titan::launch {
namespace {

constexpr int64_t kMostRanks = 1024;
constexpr const char* kFooter =
    "The words after -- are those of a titan command. Every rank runs them with RANK, WORLD_SIZE,\n"
    "LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. When a rank fails, the others\n"
    "are ended, and its last lines are printed; the exit code is that rank's.\n\n"
    "  titan launch --nproc 4 -- train configs/llama3/debug_model.toml --training.steps 20";

// Underscores in option names are dashes.
std::string with_dashes(std::string word) {
  if (!word.starts_with("--")) return word;
  const auto end = word.begin() + static_cast<int64_t>(std::min(word.find('='), word.size()));
  std::replace(word.begin(), end, '_', '-');
  return word;
}

}  // namespace

std::vector<int64_t> parse_log_ranks(const std::string& text, int64_t nproc) {
  std::vector<int64_t> ranks;
  if (text == "all") {
    ranks.resize(static_cast<size_t>(nproc));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  for (const auto& part : text::split(text, ',')) {
    const auto word = text::trim(part);
    int64_t rank = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), rank);
    if (error != std::errc() || end != word.data() + word.size() || rank < 0 || rank >= nproc) {
      throw Error("[launch] --log-ranks {}: '{}' is no rank — use numbers from 0 to {}, or all",
                  text, word, nproc - 1);
    }
    ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::optional<Options> parse(std::span<const std::string> words) {
  const auto separator = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> own;
  for (auto word = words.begin(); word != separator; ++word) own.push_back(with_dashes(*word));
  Options options;
  std::string log_ranks = "0";
  bool no_prefix = false;
  CLI::App app(
      "Runs a titan command as several processes on this host:\n"
      "titan launch --nproc N [OPTIONS] -- train CONFIG.toml …",
      "titan launch");
  app.footer(kFooter);
  app.add_option("-n,--nproc,--nproc-per-node", options.nproc, "number of processes")
      ->required()
      ->check(CLI::Range(int64_t{1}, kMostRanks));
  app.add_option("--log-ranks", log_ranks, "ranks shown on the terminal: 0,2 or all")
      ->capture_default_str();
  app.add_option("--log-dir", options.log_dir,
                 "folder of rank_0.log, rank_1.log, … (default: a new folder below logs/ in the "
                 "run's dump folder, for other commands than train in the folder of temporary "
                 "files)");
  app.add_option("--master-port", options.master_port,
                 "port of the rendezvous (default: a free one)")
      ->check(CLI::Range(int64_t{1}, int64_t{65535}));
  app.add_flag("--no-prefix", no_prefix, "no [rank0]: before the lines on the terminal");
  std::reverse(own.begin(), own.end());
  try {
    app.parse(own);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw Error("[launch] {} — titan launch --help shows the options", error.what());
  }
  if (separator != words.end()) options.words.assign(separator + 1, words.end());
  if (options.words.empty()) {
    throw Error(
        "[launch] no command to run — put it after --, as in: titan launch --nproc {} -- train "
        "CONFIG.toml",
        options.nproc);
  }
  if (options.words[0] == "launch")
    throw Error("[launch] titan launch cannot start itself — put train after --");
  options.log_ranks = parse_log_ranks(log_ranks, options.nproc);
  options.prefix = !no_prefix;
  return options;
}

}  // namespace titan::launch
