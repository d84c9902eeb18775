// The one place that reads environment variables, so that `titan doctor` can print every one that
// titan knows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace titan::env {

struct Variable {
  const char* name;
  const char* meaning;
};

// Every variable titan reads, in the order doctor prints them.
std::span<const Variable> known();

// The value of a variable listed in known(); nullopt when unset. An unlisted name is a programmer's
// error.
std::optional<std::string> get(const char* name);

// An integer variable; throws Error naming variable and value when it is set but no integer.
std::optional<int64_t> get_int(const char* name);

// Sets a variable of known() for libraries that are loaded later, unless the user has set it. Only
// while the process has one thread of ours.
void set_default(const char* name, const char* value);

// Sets variables of known(), whatever they were. Only while the process has one thread of ours.
using Changes = std::vector<std::pair<const char*, std::string>>;
void set(const Changes& changes);

// The environment of this process with `changes` applied, "NAME=value" each: for a child.
std::vector<std::string> with(const Changes& changes);

}  // namespace titan::env
