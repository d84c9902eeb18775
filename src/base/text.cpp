#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace titan::text {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts.begin(), parts.end(), separator));
}

std::string listed(std::span<const std::string> words, size_t shown) {
  if (words.size() <= shown) return join(words, ", ");
  return fmt::format("{} and {} more", join(words.first(shown), ", "), words.size() - shown);
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool starts_with_any(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return text.starts_with(prefix); });
}

std::string with_commas(int64_t value) {
  const std::string digits = std::to_string(value < 0 ? -value : value);
  std::string out = value < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string bytes(int64_t value) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double scaled = static_cast<double>(value);
  size_t unit = 0;
  while (std::abs(scaled) >= 1024 && unit + 1 < std::size(kUnits)) {
    scaled /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", value) : fmt::format("{:.1f} {}", scaled, kUnits[unit]);
}

std::string duration(double seconds) {
  if (seconds < 10) return fmt::format("{:.2f}s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

int64_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  int64_t best_distance = std::max<int64_t>(2, static_cast<int64_t>(word.size()) / 3) + 1;
  for (const auto& candidate : candidates) {
    const int64_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

namespace {

// Length of the well-formed sequence at `at`, or 0; `bad` receives the length of the maximal
// ill-formed part.
size_t utf8_sequence(std::string_view s, size_t at, size_t* bad) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = byte(at);
  *bad = 1;
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= s.size() || byte(at + i) < low || byte(at + i) > high) {
      *bad = i;
      return 0;
    }
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

}  // namespace

bool is_valid_utf8(std::string_view s) {
  size_t bad = 0;
  for (size_t at = 0; at < s.size();) {
    for (uint64_t word; at + 8 <= s.size(); at += 8) {  // eight ASCII characters at a time
      std::memcpy(&word, s.data() + at, 8);
      if (word & 0x8080808080808080) break;
    }
    if (at == s.size()) break;
    const size_t length = utf8_sequence(s, at, &bad);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view s, int64_t* replaced) {
  std::string out;
  out.reserve(s.size());
  size_t bad = 0;
  for (size_t at = 0; at < s.size();) {
    const size_t length = utf8_sequence(s, at, &bad);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      at += bad;
      if (replaced) ++*replaced;
    } else {
      out.append(s, at, length);
      at += length;
    }
  }
  return out;
}

size_t complete_utf8_prefix(std::string_view s) {
  // Only the last three bytes can belong to an unfinished sequence.
  for (size_t back = 1; back <= std::min<size_t>(3, s.size()); ++back) {
    const auto byte = static_cast<unsigned char>(s[s.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    return byte >= 0xC0 && length > back ? s.size() - back : s.size();
  }
  return s.size();
}

}  // namespace titan::text
