// What can be set from outside: one table of environment variables, read once.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace cannemu {

struct Settings {
  size_t memory_bytes = 0;  // of each device
  int devices = 0;
  std::string soc;  // as aclrtGetSocName says it
  std::string cann_version;
  bool asynchronous = true;  // a thread for each stream; else every call runs at once
  int jitter_us = 0;         // each task of a stream first sleeps up to this long
  bool compute = true;       // else operators are launched and their results left as they are
  bool poison = true;        // fresh device memory is filled with 0xff, a NaN in every float type
  bool trace = false;        // every call is one line on stderr
  int threads = 1;           // of one operator
  std::string stats_file;
  std::string fault;      // see runtime/fault.h
  std::string transport;  // of HCCL: "unix" or "tcp"
};

// A variable as the README lists it.
struct Variable {
  const char* name;
  const char* default_value;
  const char* meaning;
};

std::span<const Variable> variables();

// Read from the environment at the first call.
const Settings& settings();

bool is_950();  // the SoC is of the 950 family

}  // namespace cannemu
