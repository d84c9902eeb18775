#include "data/tokenizer/split.h"

#include <algorithm>

#include "data/tokenizer/regex.h"
#include "data/tokenizer/unicode.h"

namespace titan::data {
namespace {

void join_neighbours(std::vector<Stretch>& stretches, SplitBehavior behavior) {
  std::vector<Stretch> joined;
  const bool forward = behavior != SplitBehavior::kMergedWithNext;
  if (!forward) std::reverse(stretches.begin(), stretches.end());
  bool previous_match = false;
  for (const Stretch& stretch : stretches) {
    const bool join = behavior == SplitBehavior::kContiguous ? stretch.match == previous_match
                                                             : stretch.match && !previous_match;
    previous_match = stretch.match;
    if (join && !joined.empty()) {
      joined.back().begin = std::min(joined.back().begin, stretch.begin);
      joined.back().end = std::max(joined.back().end, stretch.end);
    } else {
      joined.push_back(stretch);
    }
  }
  if (!forward) std::reverse(joined.begin(), joined.end());
  stretches = std::move(joined);
}

class Split : public PreTokenizer {
 public:
  Split(StretchFinder finder, SplitBehavior behavior, bool invert)
      : finder_(std::move(finder)), behavior_(behavior), invert_(invert) {}

  void split(PieceList& list) const override {
    std::vector<PieceList::Piece> result;
    result.reserve(list.pieces.size());
    std::vector<Stretch> stretches;
    for (const auto& piece : list.pieces) {
      stretches.clear();
      finder_(piece.text, stretches);
      if (invert_) {
        for (Stretch& stretch : stretches) stretch.match = !stretch.match;
      }
      if (behavior_ != SplitBehavior::kRemoved && behavior_ != SplitBehavior::kIsolated) {
        join_neighbours(stretches, behavior_);
      }
      for (const Stretch& stretch : stretches) {
        if (stretch.begin == stretch.end || (behavior_ == SplitBehavior::kRemoved && stretch.match))
          continue;
        result.push_back({piece.text.substr(stretch.begin, stretch.end - stretch.begin),
                          piece.at_start && stretch.begin == 0});
      }
    }
    list.pieces = std::move(result);
  }

 private:
  StretchFinder finder_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_split(StretchFinder finder, SplitBehavior behavior,
                                         bool invert) {
  return std::make_unique<Split>(std::move(finder), behavior, invert);
}

StretchFinder regex_finder(std::string_view pattern, RegexDialect dialect) {
  // A shared_ptr, because std::function must be copyable.
  auto regex = std::make_shared<const Regex>(pattern, dialect);
  return [regex](std::string_view text, std::vector<Stretch>& stretches) {
    Regex::Scan scan(*regex, text);
    size_t done = 0, from = 0;
    while (from <= text.size()) {
      const auto match = scan.find(from);
      if (!match) break;
      if (match->begin > done) stretches.push_back({done, match->begin, false});
      stretches.push_back({match->begin, match->end, true});
      done = from = match->end;
      // After an empty match go on behind the next character.
      if (match->end == match->begin)
        from += done < text.size() ? static_cast<size_t>(unicode::length(text[done])) : 1;
    }
    if (done < text.size()) stretches.push_back({done, text.size(), false});
  };
}

StretchFinder string_finder(std::string_view pattern) {
  return [literal = std::string(pattern)](std::string_view text, std::vector<Stretch>& stretches) {
    size_t done = 0;
    while (!literal.empty()) {
      const size_t found = text.find(literal, done);
      if (found == std::string_view::npos) break;
      if (found > done) stretches.push_back({done, found, false});
      stretches.push_back({found, found + literal.size(), true});
      done = found + literal.size();
    }
    if (done < text.size()) stretches.push_back({done, text.size(), false});
  };
}

StretchFinder character_finder(std::function<bool(char32_t)> matches) {
  return [matches](std::string_view text, std::vector<Stretch>& stretches) {
    size_t done = 0;
    for (const char* p = text.data(); p < text.data() + text.size();) {
      const auto begin = static_cast<size_t>(p - text.data());
      if (!matches(unicode::next(p))) continue;
      const auto end = static_cast<size_t>(p - text.data());
      if (begin > done) stretches.push_back({done, begin, false});
      stretches.push_back({begin, end, true});
      done = end;
    }
    if (done < text.size()) stretches.push_back({done, text.size(), false});
  };
}

}  // namespace titan::data
