// TensorBoard event files: scalars by tag and step, in the form the `tensorboard` package reads.
// Written by hand (records with masked CRC-32C around a protobuf message of a few fields), so titan
// needs no protobuf.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace titan::observe {

// CRC-32C (Castagnoli), as in iSCSI; crc32c("123456789") is 0xE3069283.
uint32_t crc32c(std::string_view bytes);

// One record of the TFRecord format: length (8 bytes, little endian), masked CRC of it, payload,
// masked CRC of the payload.
std::string tf_record(std::string_view payload);

// The bytes of an Event message with one scalar per tag.
using Scalars = std::vector<std::pair<std::string, double>>;
std::string scalar_event(double wall_time_s, int64_t step, const Scalars& scalars);

// A new file events.out.tfevents.<time>.<host>.<pid> in `folder`, which is made when absent. Each
// call hands its record to the system at once, so TensorBoard shows a run that goes on. Throws
// EnvironmentError when the file cannot be written.
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& folder);
  // Not-finite values are left out: TensorBoard draws them as gaps that hide the curve.
  void add(int64_t step, const Scalars& scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  void write(std::string_view record);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace titan::observe
