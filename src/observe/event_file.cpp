// Message layout (tensorflow/core/util/event.proto and framework/summary.proto, never to change):
//   Event   { 1: double wall_time; 2: int64 step; 3: string file_version | 5: Summary summary }
//   Summary { 1: repeated Value { 1: string tag; 2: float simple_value } }
#include "observe/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"

namespace titan::observe {
namespace {

constexpr uint32_t kCastagnoli = 0x82F63B78;  // reflected polynomial

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr auto kCrcTable = make_crc_table();

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

template <class T>
void put_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
}

void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>((value & 0x7F) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

// Wire types of protobuf: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
void put_key(std::string& out, uint32_t field, uint32_t wire_type) {
  put_varint(out, field << 3 | wire_type);
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, 2);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_double(std::string& out, uint32_t field, double value) {
  put_key(out, field, 1);
  put_little_endian(out, std::bit_cast<uint64_t>(value));
}

void put_float(std::string& out, uint32_t field, float value) {
  put_key(out, field, 5);
  put_little_endian(out, std::bit_cast<uint32_t>(value));
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == 0) return "localhost";
  return name;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes)
    crc = kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string tf_record(std::string_view payload) {
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(payload.size()));
  put_little_endian(record, masked_crc32c(record));
  record += payload;
  put_little_endian(record, masked_crc32c(payload));
  return record;
}

std::string scalar_event(double wall_time_s, int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    std::string entry;
    put_bytes(entry, 1, tag);
    put_float(entry, 2, static_cast<float>(value));
    put_bytes(summary, 1, entry);
  }
  std::string event;
  put_double(event, 1, wall_time_s);
  put_key(event, 2, 0);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, 5, summary);
  return event;
}

EventFile::EventFile(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw EnvironmentError("[metrics] cannot make folder {}: {}", folder.string(),
                           failure.message());
  const double now = unix_time();
  const std::string name = fmt::format("events.out.tfevents.{}.{}.{}.0", static_cast<int64_t>(now),
                                       host_name(), ::getpid());
  path_ = folder / name;
  file_.reset(std::fopen(path_.c_str(), "abe"));
  if (!file_)
    throw EnvironmentError("[metrics] cannot write {}: {}", path_.string(), std::strerror(errno));
  std::string version;
  put_double(version, 1, now);
  put_bytes(version, 3, "brain.Event:2");
  write(tf_record(version));
}

void EventFile::add(int64_t step, const Scalars& scalars) {
  Scalars finite;
  for (const auto& scalar : scalars) {
    if (std::isfinite(scalar.second)) finite.push_back(scalar);
  }
  if (!finite.empty()) write(tf_record(scalar_event(unix_time(), step, finite)));
}

void EventFile::write(std::string_view record) {
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() ||
      std::fflush(file_.get()) != 0) {
    throw EnvironmentError("[metrics] cannot write {}: {}", path_.string(), std::strerror(errno));
  }
}

}  // namespace titan::observe
