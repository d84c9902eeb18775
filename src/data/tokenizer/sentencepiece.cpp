#include "data/tokenizer/sentencepiece.h"

#include <sentencepiece_processor.h>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace titan::data {
namespace fs = std::filesystem;
namespace {

std::optional<int32_t> id_or_none(int id) {
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

class SentencePiece : public Tokenizer {
 public:
  explicit SentencePiece(const fs::path& file) : file_(file.string()) {
    const std::string content = files::read(file);
    const auto status = processor_.LoadFromSerializedProto(content);
    if (!status.ok()) {
      throw Error("[tokenizer] {}: no SentencePiece model ({} bytes): {} — is the file complete?",
                  file_, content.size(), status.ToString());
    }
  }

  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    std::string repaired;
    if (!text::is_valid_utf8(text)) {
      repaired = text::to_valid_utf8(text);
      text = repaired;
    }
    std::vector<int> ids;
    const auto status = processor_.Encode({text.data(), text.size()}, &ids);
    if (!status.ok())
      throw Error("[tokenizer] {}: cannot encode a text: {}", file_, status.ToString());
    out.insert(out.end(), ids.begin(), ids.end());
  }

  std::string decode(std::span<const int32_t> ids) const override {
    for (const int32_t id : ids) check(id);
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok()) throw Error("[tokenizer] {}: cannot decode: {}", file_, status.ToString());
    return text;
  }

  std::string token_bytes(int32_t id) const override {
    check(id);
    if (processor_.IsByte(id)) {
      return std::string(
          1, static_cast<char>(std::stoi(processor_.IdToPiece(id).substr(3, 2), nullptr, 16)));
    }
    std::string text = processor_.IdToPiece(id);
    for (size_t at = 0; (at = text.find("\u2581", at)) != std::string::npos; ++at)
      text.replace(at, 3, " ");
    return text;
  }

  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  std::optional<int32_t> bos_id() const override { return id_or_none(processor_.bos_id()); }
  std::optional<int32_t> eos_id() const override { return id_or_none(processor_.eos_id()); }
  std::vector<std::string> description() const override {
    return {fmt::format("SentencePiece model, {} pieces", processor_.GetPieceSize())};
  }

 private:
  void check(int32_t id) const {
    if (id >= 0 && id < processor_.GetPieceSize()) return;
    throw Error("[tokenizer] {}: no token has the id {} — the vocabulary ends at {}", file_, id,
                processor_.GetPieceSize() - 1);
  }

  std::string file_;
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const fs::path& file) {
  return std::make_unique<SentencePiece>(file);
}

}  // namespace titan::data
