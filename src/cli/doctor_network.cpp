#include "cli/doctor_network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/address.h"
#include "base/env.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace titan::cli {
namespace {

namespace fs = std::filesystem;
using Findings = std::vector<AscendFinding>;

constexpr int64_t kHcclPorts = 32;  // that HCCL takes from HCCL_IF_BASE_PORT on

std::optional<int64_t> number_of(std::string_view word) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// A number as rank tables spell it: "3" or 3.
std::optional<int64_t> number_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number_integer()) return found->get<int64_t>();
  return found->is_string() ? number_of(found->get<std::string>()) : std::nullopt;
}

bool is_address(const std::string& text) {
  in6_addr place{};
  return inet_pton(AF_INET, text.c_str(), &place) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &place) == 1;
}

std::vector<std::string> interfaces_of(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "sys/class/net", none)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// Whether a socket of this host can have the address, and the port at every address; 0: any.
bool can_bind(int family, const sockaddr* where, socklen_t bytes) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;  // no such family here: nothing is known
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = bind(fd, where, bytes) == 0 && listen(fd, 1) == 0;
  close(fd);
  return bound;
}

bool port_is_free(int64_t port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<uint16_t>(port));
  where.sin_addr.s_addr = htonl(INADDR_ANY);
  return can_bind(AF_INET, reinterpret_cast<const sockaddr*>(&where), sizeof where);
}

// nullopt: the name is not known.
std::optional<bool> is_own_address(const std::string& host) {
  addrinfo* found = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  for (const addrinfo* entry = found; entry; entry = entry->ai_next) {
    if (can_bind(entry->ai_family, entry->ai_addr, entry->ai_addrlen)) return true;
  }
  return false;
}

// The value of a variable that is a port; reports one that is none.
std::optional<int64_t> port_in(const char* variable, Findings& findings) {
  const auto text = env::get(variable);
  if (!text || text->empty()) return std::nullopt;
  const auto port = number_of(*text);
  if (port && *port > 0 && *port < 65536) return port;
  findings.push_back({true, fmt::format("{}={} is no port", variable, *text),
                      "use a number from 1 to 65535, or unset it"});
  return std::nullopt;
}

void check_rank_table(Findings& findings) {
  const auto table = env::get("RANK_TABLE_FILE");
  if (!table || table->empty()) return;
  constexpr const char* kAdvice = "unset it: titan needs no rank table";
  if (!fs::exists(*table)) {
    findings.push_back({true, fmt::format("RANK_TABLE_FILE={} does not exist", *table), kAdvice});
    return;
  }
  std::vector<std::string> problems;
  try {
    problems = rank_table_problems(files::read(*table));
  } catch (const Error& error) {
    problems = {error.what()};
  }
  for (const auto& problem : problems) {
    findings.push_back({true, fmt::format("RANK_TABLE_FILE={}: {}", *table, problem),
                        fmt::format("correct the file, or {}", kAdvice)});
  }
}

// "eth" stands for names that begin so, "=eth0" for that one, "^" before it for all others.
void check_interface(const fs::path& root, Findings& findings) {
  const auto value = env::get("HCCL_SOCKET_IFNAME");
  if (!value || value->empty()) return;
  std::string_view rest = *value;
  const bool inverted = rest.starts_with('^');
  if (inverted) rest.remove_prefix(1);
  const bool exact = rest.starts_with('=');
  if (exact) rest.remove_prefix(1);
  const auto words = text::split(rest, ',');
  const auto names = interfaces_of(root);
  const bool found = std::ranges::any_of(names, [&](const std::string& name) {
    const bool listed = std::ranges::any_of(words, [&](const std::string& word) {
      return exact ? name == word : !word.empty() && name.starts_with(word);
    });
    return inverted ? !listed && name != "lo" : listed;
  });
  if (found) return;
  findings.push_back({true,
                      fmt::format("HCCL_SOCKET_IFNAME={} is no network interface here", *value),
                      fmt::format("this host has {}", text::listed(names, 16))});
}

void check_own_address(Findings& findings) {
  const auto address = env::get("HCCL_IF_IP");
  if (!address || address->empty()) return;
  if (is_address(*address) && is_own_address(*address).value_or(false)) return;
  findings.push_back({true,
                      is_address(*address)
                          ? fmt::format("HCCL_IF_IP={} is no address of this host", *address)
                          : fmt::format("HCCL_IF_IP={} is no IP address", *address),
                      "use an address that `ip addr` lists; every host needs its own"});
}

void check_hccl_ports(Findings& findings) {
  const auto base = port_in("HCCL_IF_BASE_PORT", findings);
  if (!base) return;
  if (*base + kHcclPorts > 65536) {
    findings.push_back(
        {true, fmt::format("HCCL_IF_BASE_PORT={} leaves no room for {} ports", *base, kHcclPorts),
         fmt::format("use at most {}", 65536 - kHcclPorts)});
    return;
  }
  for (int64_t port = *base; port < *base + kHcclPorts; ++port) {
    if (port_is_free(port)) continue;
    findings.push_back(
        {true,
         fmt::format("port {} is taken; HCCL needs {} to {} (HCCL_IF_BASE_PORT={})", port, *base,
                     *base + kHcclPorts - 1, *base),
         "choose another HCCL_IF_BASE_PORT on all hosts, or end the process that has the port"});
    return;
  }
}

// The devices of a table, with what is wrong about each server on its own.
struct TableReader {
  std::vector<std::string> problems;
  std::set<int64_t> ranks;
  std::map<std::string, int64_t> ips;
  size_t devices = 0;

  void read_device(const nlohmann::json& device, const std::string& server, bool several,
                   std::set<int64_t>& ids) {
    ++devices;
    const auto rank = number_in(device, "rank_id"), id = number_in(device, "device_id");
    if (!rank || *rank < 0) {
      problems.push_back(fmt::format("a device of server {} has no rank_id", server));
      return;
    }
    if (!ranks.insert(*rank).second)
      problems.push_back(fmt::format("rank {} is there twice", *rank));
    if (!id || *id < 0) {
      problems.push_back(fmt::format("rank {} has no device_id", *rank));
    } else if (!ids.insert(*id).second) {
      problems.push_back(fmt::format("device_id {} of server {} is there twice", *id, server));
    }
    const std::string ip = device.value("device_ip", nlohmann::json("")).is_string()
                               ? device.value("device_ip", "")
                               : "?";
    if (ip.empty()) {
      if (several) problems.push_back(fmt::format("rank {} has no device_ip", *rank));
    } else if (!is_address(ip)) {
      problems.push_back(fmt::format("device_ip {} of rank {} is no IP address", ip, *rank));
    } else if (const auto [other, is_new] = ips.try_emplace(ip, *rank); !is_new) {
      problems.push_back(
          fmt::format("ranks {} and {} have one device_ip, {}", other->second, *rank, ip));
    }
  }
};

}  // namespace

std::vector<std::string> rank_table_problems(const std::string& text) {
  const auto table = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (table.is_discarded()) return {"it is no JSON"};
  if (!table.is_object() || !table.contains("server_list") || !table["server_list"].is_array()) {
    return {"it has no list server_list"};
  }
  const auto& servers = table["server_list"];
  TableReader reader;
  const auto count = number_in(table, "server_count");
  if (!count) {
    reader.problems.emplace_back("it has no server_count");
  } else if (*count != static_cast<int64_t>(servers.size())) {
    reader.problems.push_back(
        fmt::format("server_count is {}, server_list has {}", *count, servers.size()));
  }
  if (table.contains("status") && table["status"] != "completed") {
    reader.problems.push_back(
        fmt::format("status is {}, not \"completed\"", table["status"].dump()));
  }
  for (const auto& server : servers) {
    if (!server.is_object() || !server.contains("device") || !server["device"].is_array()) {
      reader.problems.emplace_back("a server has no list of devices (\"device\")");
      continue;
    }
    const auto id = server.find("server_id");
    const std::string name = id != server.end() && id->is_string() ? id->get<std::string>() : "?";
    std::set<int64_t> ids;
    for (const auto& device : server["device"]) {
      if (device.is_object()) reader.read_device(device, name, servers.size() > 1, ids);
    }
  }
  if (reader.devices == 0) reader.problems.emplace_back("it has no device");
  if (!reader.ranks.empty() &&
      *reader.ranks.rbegin() != static_cast<int64_t>(reader.ranks.size()) - 1) {
    reader.problems.push_back(
        fmt::format("its {} ranks are not 0 to {}", reader.ranks.size(), reader.ranks.size() - 1));
  }
  return reader.problems;
}

std::vector<AscendFinding> check_meeting_place() {
  Findings findings;
  const std::string host = env::get("MASTER_ADDR").value_or("");
  const auto port = port_in("MASTER_PORT", findings);
  const auto own = host.empty() ? std::optional(true) : is_own_address(host);
  if (!own) {
    findings.push_back({true, fmt::format("MASTER_ADDR={} is not known on this host", host),
                        "check the name, or use the address of rank 0's host"});
    return findings;
  }
  const bool served = env::get("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  if (!port || !*own || served || port_is_free(*port)) return findings;
  findings.push_back({true, fmt::format("MASTER_PORT={} is taken by another process", *port),
                      "choose another port, or end that process (ss -ltnp shows it)"});
  return findings;
}

std::vector<AscendFinding> check_hccl_settings(const fs::path& root) {
  Findings findings;
  check_rank_table(findings);
  check_interface(root, findings);
  check_own_address(findings);
  check_hccl_ports(findings);
  return findings;
}

}  // namespace titan::cli
