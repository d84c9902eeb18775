// Tokenizers: text to token ids and back. Every kind of file (tokenizer.json, tiktoken ranks,
// tekken.json, SentencePiece) becomes one Tokenizer, whose ids are equal to those of the package
// that the file comes from. Text that is not well-formed UTF-8 is repaired first: each maximal
// ill-formed part becomes U+FFFD, which is what Python's bytes.decode(errors="replace") gives to
// the reference packages.
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

  // Appends the ids of `text` to `out`: no BOS, no EOS, nothing that a post-processor adds.
  // Thread-safe.
  virtual void encode(std::string_view text, std::vector<int32_t>& out) const = 0;

  // Text of the ids, special tokens included. Ids that form no well-formed UTF-8 give U+FFFD.
  // Throws Error for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  virtual int64_t vocab_size() const = 0;  // largest id + 1

  // BOS and EOS by the rule of docs/tokenizers.md; nullopt when the files name none (say so, never
  // guess).
  virtual std::optional<int32_t> bos_id() const = 0;
  virtual std::optional<int32_t> eos_id() const = 0;

  // The bytes that one token stands for (special tokens: their name). Throws Error for an id
  // outside the vocabulary.
  virtual std::string token_bytes(int32_t id) const = 0;

  // What goes before and after the ids of a document in training: what the tokenizer's own
  // post-processor adds, then BOS in front and EOS behind unless the post-processor has put them
  // there already.
  virtual std::vector<int32_t> document_prefix() const;
  virtual std::vector<int32_t> document_suffix() const;

  // One line each for `titan tokenizer info`: kind of file, where BOS and EOS come from, what is
  // not applied.
  virtual std::vector<std::string> description() const { return {}; }
};

// Reads a folder of Hugging Face assets, or one file: tokenizer.json, a tiktoken rank file,
// tekken.json or a SentencePiece model, told apart by content. Throws Error that names the file and
// what is wrong in it.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace titan::data
