// Text to token ids and back. One seam for every vocabulary format; load_tokenizer() picks the format by content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of plain text: no BOS, no EOS. Thread-safe. Ill-formed UTF-8 is taken as U+FFFD.
  virtual void encode(std::string_view text, std::vector<int32_t>& out) const = 0;
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  // The largest id plus one.
  virtual int64_t vocab_size() const = 0;
  virtual std::optional<int32_t> bos_id() const = 0;
  virtual std::optional<int32_t> eos_id() const = 0;
  // The bytes that one id stands for (a part of a UTF-8 sequence is possible), for streaming output.
  virtual std::string token_bytes(int32_t id) const = 0;
};

// From a folder of Hugging Face assets or a vocabulary file; throws Error that names the file.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace titan::data
