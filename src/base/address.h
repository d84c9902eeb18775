// Addresses as launchers write them: host names, IPv4, IPv6 with and without brackets, Slurm's
// lists of hosts. Text only: nothing is resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace titan {

// "[::1]" and "::1" -> "::1", "[fe80::1%eth0]" -> "fe80::1%eth0", "node1" -> "node1". Throws Error
// naming `variable` for what can be no host: a port or a scheme in it, blanks, half a bracket.
std::string normal_address(std::string_view text, std::string_view variable);

// "127.0.0.1:29500", "[::1]:29500": for messages.
std::string endpoint(std::string_view address, int64_t port);

// localhost, 127.0.0.0/8 and ::1: all ranks are on this host.
bool is_loopback(std::string_view address);

// The first host of Slurm's list: "gpu[03-07,12],big1" -> "gpu03". Throws Error naming `variable`.
std::string first_slurm_host(std::string_view list, std::string_view variable);

// The count at `node` of Slurm's list "4(x2),3" (tasks per node: 4, 4, 3); nullopt beyond its end.
// Throws Error naming `variable`.
std::optional<int64_t> slurm_tasks_at(std::string_view list, int64_t node,
                                      std::string_view variable);

}  // namespace titan
