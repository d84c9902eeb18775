#include "base/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace titan {
namespace {

bool is_ipv6(std::string_view host) {
  const size_t zone = host.find('%');
  if (zone != std::string_view::npos && zone + 1 == host.size()) return false;
  in6_addr parsed;
  return inet_pton(AF_INET6, std::string(host.substr(0, zone)).c_str(), &parsed) == 1;
}

bool is_name_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
         (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_';
}

bool is_name(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), is_name_character);
}

bool is_number(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

// The words before commas that stand outside brackets end a host.
std::string_view first_entry(std::string_view list) {
  int64_t depth = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    depth += list[i] == '[' ? 1 : list[i] == ']' ? -1 : 0;
    if (list[i] == ',' && depth == 0) return list.substr(0, i);
  }
  return list;
}

}  // namespace

std::string normal_address(std::string_view text, std::string_view variable) {
  std::string_view host = text;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (is_ipv6(host) || (!bracketed && is_name(host))) return std::string(host);
  const size_t colon = host.rfind(':');
  int64_t port = 0;
  const bool has_port = colon != std::string_view::npos &&
                        is_number(host.substr(colon + 1), port) &&
                        (is_name(host.substr(0, colon)) || (colon > 0 && host[colon - 1] == ']'));
  if (has_port) {
    throw Error("[launch] {}={} has a port in it — write {} there and the port into MASTER_PORT",
                variable, text, host.substr(0, colon));
  }
  throw Error(
      "[launch] {}={} is no host — use a host name, an IPv4 address such as 10.0.0.1 or an IPv6 "
      "address such as ::1 or [fe80::1%eth0]",
      variable, text);
}

std::string endpoint(std::string_view address, int64_t port) {
  const bool ipv6 = address.find(':') != std::string_view::npos;
  return ipv6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

bool is_loopback(std::string_view address) {
  in6_addr v6;
  if (inet_pton(AF_INET6, std::string(address).c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  in_addr v4;
  if (inet_pton(AF_INET, std::string(address).c_str(), &v4) == 1)
    return (ntohl(v4.s_addr) >> 24) == 127;
  return text::lower_ascii(address) == "localhost";
}

std::string first_slurm_host(std::string_view list, std::string_view variable) {
  std::string host;
  std::string_view rest = first_entry(list);
  while (!rest.empty()) {
    const size_t open = rest.find('[');
    host += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = rest.find(']', open);
    if (close == std::string_view::npos) {
      host.clear();
      break;
    }
    const std::string_view inside = rest.substr(open + 1, close - open - 1);
    const std::string_view first = inside.substr(0, inside.find_first_of(",-"));
    int64_t value = 0;
    if (!is_number(first, value)) {
      host.clear();
      break;
    }
    host += first;  // as written: leading zeros belong to the name
    rest = rest.substr(close + 1);
  }
  if (!is_name(host)) {
    throw Error(
        "[launch] {}={} is no list of hosts such as node[01-04,7] — set MASTER_ADDR to the host of "
        "rank 0",
        variable, list);
  }
  return host;
}

std::optional<int64_t> slurm_tasks_at(std::string_view list, int64_t node,
                                      std::string_view variable) {
  for (const std::string& entry : text::split(list, ',')) {
    const std::string_view all = entry;
    const size_t open = all.find("(x");
    int64_t tasks = 0, hosts = 1;
    bool good = is_number(all.substr(0, open), tasks);
    if (open != std::string_view::npos) {
      const std::string_view tail = all.substr(open + 2);
      good = good && !tail.empty() && tail.back() == ')' &&
             is_number(tail.substr(0, tail.size() - 1), hosts);
    }
    if (!good) {
      throw Error("[launch] {}={} is no list of counts such as 4(x2),3 — unset it", variable, list);
    }
    if (node < hosts) return tasks;
    node -= hosts;
  }
  return std::nullopt;
}

}  // namespace titan
