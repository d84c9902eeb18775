#include "config/schema.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace titan::config {
namespace {

template <class S>
void walk(S& section, const std::string& prefix, std::vector<Key>& out) {
  S::describe([&](const char* name, auto member, const char* help, Check check = {}) {
    auto& value = section.*member;
    if constexpr (Section<std::remove_reference_t<decltype(value)>>) {
      walk(value, prefix + name + ".", out);
    } else {
      out.push_back({prefix + name, help, check, &value});
    }
  });
}

template <class T>
struct Stored {
  using Type = T;
  static constexpr bool kOptional = false;
};
template <class T>
struct Stored<std::optional<T>> {
  using Type = T;
  static constexpr bool kOptional = true;
};
// What a slot's pointer stores: Stored<int64_t> for int64_t* and for std::optional<int64_t>*.
template <class Pointer>
using StoredBy = Stored<std::remove_pointer_t<Pointer>>;

template <class T>
constexpr const char* kTypeName = nullptr;
template <>
constexpr const char* kTypeName<bool> = "bool";
template <>
constexpr const char* kTypeName<int64_t> = "int";
template <>
constexpr const char* kTypeName<double> = "real";
template <>
constexpr const char* kTypeName<std::string> = "text";
template <>
constexpr const char* kTypeName<TextList> = "list";
template <>
constexpr const char* kTypeName<TextLists> = "list of lists";

bool legal_number(const Check& check, double value) {
  if (value == check.also) return true;
  return (check.open ? value > check.least : value >= check.least) &&
         (check.open_end ? value < check.most : value <= check.most);
}

std::optional<std::string> illegal_choice(const Check& check, const std::string& word) {
  if (*check.choices == '\0') return std::nullopt;
  const auto choices = text::split(check.choices, '|');
  for (const auto& choice : choices) {
    if (choice == word) return std::nullopt;
    if (check.any_case && text::lower_ascii(choice) == text::lower_ascii(word)) return std::nullopt;
  }
  const auto hint = text::nearest(word, choices);
  return fmt::format("expects one of {}, but got \"{}\"{}", text::join(choices, ", "), word,
                     hint ? fmt::format(" — did you mean \"{}\"?", *hint) : "");
}

// Integers without a limit of their own end here, so that products of two of them cannot overflow.
constexpr int64_t kMostInteger = 1'000'000'000'000;

// What is wrong with a value of the right type, if anything.
std::optional<std::string> violation(const Key& key, const Value& value) {
  double number = 0;
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    number = static_cast<double>(*integer);
    if (std::isinf(key.check.most) && *integer > kMostInteger) {
      return fmt::format("expects {}, but got {}, which is above the limit of {}", expectation(key),
                         *integer, kMostInteger);
    }
  } else if (const auto* real = std::get_if<double>(&value)) {
    number = *real;
  } else if (const auto* word = std::get_if<std::string>(&value)) {
    return illegal_choice(key.check, *word);
  } else if (const auto* list = std::get_if<TextList>(&value)) {
    for (const auto& item : *list) {
      if (auto problem = illegal_choice(key.check, item)) return problem;
    }
    return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (legal_number(key.check, number)) return std::nullopt;
  return fmt::format("expects {}, but got {}", expectation(key), to_text(value));
}

std::string limits(const Check& check) {
  std::string out;
  const auto add = [&](const std::string& part) { out += ", " + part; };
  const auto number = [](double value) { return fmt::format("{:g}", value); };
  if (std::isfinite(check.least) && std::isfinite(check.most)) {
    add(fmt::format("{} {} {} {}", check.open ? "above" : "from", number(check.least),
                    check.open_end ? "to below" : "to", number(check.most)));
  } else if (std::isfinite(check.least)) {
    add(fmt::format("{} {}", check.open ? "above" : "at least", number(check.least)));
  }
  if (!std::isnan(check.also)) add("or " + number(check.also));
  return out;
}

template <class T>
std::optional<T> parse_number(std::string_view word) {
  // Python writes and TOML reads digits with underscores and a leading plus.
  std::string digits;
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '+' && i == 0 && word.size() > 1 && word[1] != '-') continue;
    if (word[i] == '_' && i > 0 && i + 1 < word.size()) continue;
    digits += word[i];
  }
  T value{};
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// The word as a value of type T; the word itself, as a text, when it is none, so that assign() says
// so.
template <class T>
Value read_as(std::string_view word) {
  if constexpr (std::is_same_v<T, bool>) {
    if (word == "true" || word == "True" || word == "TRUE") return true;
    if (word == "false" || word == "False" || word == "FALSE") return false;
  } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
    if (const auto number = parse_number<T>(word)) return *number;
  } else if constexpr (std::is_same_v<T, TextList>) {
    return word.empty() ? TextList{} : text::split(word, ',');
  } else if constexpr (std::is_same_v<T, TextLists>) {
    TextLists lists;
    if (word.empty()) return lists;
    for (const auto& part : text::split(word, ';')) lists.push_back(text::split(part, ','));
    return lists;
  }
  return std::string(word);
}

}  // namespace

bool Key::optional() const {
  return std::visit([](auto pointer) { return StoredBy<decltype(pointer)>::kOptional; }, slot);
}

bool Key::is_flag() const {
  return std::holds_alternative<bool*>(slot) || std::holds_alternative<std::optional<bool>*>(slot);
}

std::string Key::type_name() const {
  const std::string name = std::visit(
      [](auto pointer) { return kTypeName<typename StoredBy<decltype(pointer)>::Type>; }, slot);
  return optional() ? "optional " + name : name;
}

std::string_view Key::section() const { return std::string_view(path).substr(0, path.rfind('.')); }

std::string_view Key::name() const { return std::string_view(path).substr(path.rfind('.') + 1); }

std::vector<Key> keys(JobConfig& config) {
  std::vector<Key> out;
  walk(config, "", out);
  return out;
}

std::vector<SectionInfo> sections() {
  std::vector<SectionInfo> out;
  JobConfig::describe([&](const char* name, auto, const char* help) {
    out.push_back({name, help});
  });
  return out;
}

const Key* find(std::span<const Key> keys, std::string_view path) {
  for (const auto& key : keys) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

Value get(const Key& key) {
  return std::visit(
      [](auto pointer) -> Value {
        if constexpr (StoredBy<decltype(pointer)>::kOptional) {
          if (!*pointer) return None{};
          return **pointer;
        } else {
          return *pointer;
        }
      },
      key.slot);
}

std::optional<std::string> assign(const Key& key, const Value& value) {
  return std::visit(
      [&](auto pointer) -> std::optional<std::string> {
        using T = typename StoredBy<decltype(pointer)>::Type;
        if constexpr (StoredBy<decltype(pointer)>::kOptional) {
          if (std::holds_alternative<None>(value)) {
            pointer->reset();
            return std::nullopt;
          }
        }
        Value typed = value;
        if constexpr (std::is_same_v<T, double>) {
          if (const auto* integer = std::get_if<int64_t>(&value))
            typed = static_cast<double>(*integer);
        }
        if constexpr (std::is_same_v<T, TextList> || std::is_same_v<T, TextLists>) {
          const auto* list = std::get_if<TextList>(&value);
          if (list && list->empty()) typed = T{};  // [] does not say what it is a list of
        }
        const auto* stored = std::get_if<T>(&typed);
        if (!stored) {
          return fmt::format("expects {}, but got {} ({})", expectation(key), to_text(value),
                             kind_name(value));
        }
        if (auto problem = violation(key, typed)) return problem;
        *pointer = *stored;
        return std::nullopt;
      },
      key.slot);
}

std::optional<std::string> assign_text(const Key& key, std::string_view word) {
  if (key.optional() && word == "None") return assign(key, None{});
  const Value value = std::visit(
      [&](auto pointer) { return read_as<typename StoredBy<decltype(pointer)>::Type>(word); },
      key.slot);
  return assign(key, value);
}

std::string expectation(const Key& key) {
  if (*key.check.choices) {
    const bool list = std::holds_alternative<TextList*>(key.slot);
    return fmt::format("{}one of {}{}", list ? "a list, each " : "",
                       text::join(text::split(key.check.choices, '|'), ", "),
                       key.optional() ? ", or None" : "");
  }
  const Value example = std::visit(
      [](auto pointer) -> Value { return typename StoredBy<decltype(pointer)>::Type{}; }, key.slot);
  return fmt::format("{}{}{}", kind_name(example), limits(key.check),
                     key.optional() ? ", or None" : "");
}

}  // namespace titan::config
