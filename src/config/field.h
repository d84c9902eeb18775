// Reflection of config structs. Each section struct has a static member template `describe(auto&&
// field)` that calls field(name, member, help, check) once per data member, in order; help, checks,
// readers and the documentation all walk it. complete<S>() proves at compile time that no member
// was forgotten. This header is light on purpose: every area sees it.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

namespace titan::config {

// What a value must satisfy, as data, so that help and error texts can state it. Empty: any value
// of the type.
struct Check {
  // "linear|sqrt|cosine": legal texts (of each element, for lists); "" = any.
  const char* choices = "";
  bool any_case = false;  // small and capital letters of `choices` are alike
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open = false;      // `least` itself is not legal
  bool open_end = false;  // `most` itself is not legal
  // One more legal number, such as -1 for "automatic".
  double also = std::numeric_limits<double>::quiet_NaN();
};

constexpr Check one_of(const char* choices) { return {.choices = choices}; }
constexpr Check at_least(double least) { return {.least = least}; }
constexpr Check above(double least) { return {.least = least, .open = true}; }
constexpr Check between(double least, double most) { return {.least = least, .most = most}; }
constexpr Check from_below(double least, double most) {
  return {.least = least, .most = most, .open_end = true};
}
constexpr Check at_least_or(double least, double also) { return {.least = least, .also = also}; }

namespace detail {

struct AnyValue {
  template <class T>
  operator T() const;  // never defined: only used unevaluated
};

// Number of data members of an aggregate.
template <class S, class... A>
consteval std::size_t num_members() {
  if constexpr (requires { S{A{}..., AnyValue{}}; }) {
    return num_members<S, A..., AnyValue>();
  } else {
    return sizeof...(A);
  }
}

}  // namespace detail

template <class S>
concept Section = std::is_class_v<S> && requires {
  S::describe([](auto&&...) {});
};

// True when describe() names as many fields as S has members.
template <class S>
consteval bool complete() {
  std::size_t named = 0;
  S::describe([&](auto&&...) { ++named; });
  return named == detail::num_members<S>();
}

}  // namespace titan::config
