#include "data/tokenizer/decoder.h"

#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/unicode.h"

namespace titan::data {
namespace {

void replace_all(std::string& text, std::string_view pattern, std::string_view content) {
  if (pattern.empty()) return;
  for (size_t at = 0; (at = text.find(pattern, at)) != std::string::npos; at += content.size()) {
    text.replace(at, pattern.size(), content);
  }
}

class JoinBytes : public Decoder {  // ByteLevel
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += byte_level::to_bytes(token).value_or(token);
    tokens.assign(1, text::to_valid_utf8(bytes));
  }
};

class DecodeMetaspace : public Decoder {
 public:
  DecodeMetaspace(std::string_view replacement, bool drops_first)
      : replacement_(replacement), drops_first_(drops_first) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string result;
      for (size_t at = 0; at < tokens[i].size();) {
        if (tokens[i].compare(at, replacement_.size(), replacement_) == 0) {
          // In the first token the marks stand for a prefix that was added, not for blanks.
          if (i > 0 || !drops_first_) result.push_back(' ');
          at += replacement_.size();
        } else {
          result.push_back(tokens[i][at++]);
        }
      }
      tokens[i] = std::move(result);
    }
  }

 private:
  std::string replacement_;
  bool drops_first_;
};

// Tokens <0x00> … <0xFF> in a row become the text of those bytes, or one U+FFFD each where they are
// none.
class DecodeByteFallback : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::vector<std::string> result;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (text::is_valid_utf8(bytes)) {
        result.push_back(bytes);
      } else {
        result.insert(result.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of(token)) {
        bytes.push_back(static_cast<char>(*byte));
      } else {
        flush();
        result.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(result);
  }

 private:
  static std::optional<int> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    int value = 0;
    for (const char c : token.substr(3, 2)) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      value = value * 16 + digit;
    }
    return value;
  }
};

class DecodeFuse : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::string joined;
    for (const std::string& token : tokens) joined += token;
    tokens.assign(1, std::move(joined));
  }
};

// Takes up to `start` and `stop` times the character from the two ends of each string.
class DecodeStrip : public Decoder {
 public:
  DecodeStrip(std::string_view content, int64_t start, int64_t stop)
      : content_(content), start_(start), stop_(stop) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      for (int64_t i = 0; i < start_ && token.starts_with(content_); ++i)
        token.erase(0, content_.size());
      for (int64_t i = 0; i < stop_ && token.ends_with(content_); ++i)
        token.resize(token.size() - content_.size());
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class DecodeReplace : public Decoder {
 public:
  DecodeReplace(std::string_view pattern, std::string_view content)
      : pattern_(pattern), content_(content) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) replace_all(token, pattern_, content_);
  }

 private:
  std::string pattern_, content_;
};

class DecodeSuffix : public Decoder {  // BPEDecoder
 public:
  explicit DecodeSuffix(std::string_view suffix) : suffix_(suffix) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

class DecodeChain : public Decoder {
 public:
  explicit DecodeChain(std::vector<std::unique_ptr<Decoder>> stages) : stages_(std::move(stages)) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (const auto& stage : stages_) stage->decode(tokens);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> stages_;
};

std::unique_ptr<Decoder> read_decode_metaspace(const Json& json) {
  const bool never = json.string_or("prepend_scheme", "always") == "never" ||
                     !json.boolean_or("add_prefix_space", true);
  return std::make_unique<DecodeMetaspace>(json.at("replacement").string(), !never);
}

std::unique_ptr<Decoder> read_decode_replace(const Json& json) {
  const Json pattern = json.at("pattern");
  if (!pattern.find("String")) pattern.fail("a regex in the decoder Replace is not supported");
  return std::make_unique<DecodeReplace>(pattern.at("String").string(),
                                         json.at("content").string());
}

}  // namespace

std::unique_ptr<Decoder> read_decoder(const Json& json) {
  const std::string_view type = json.at("type").string();
  if (type == "ByteLevel") return std::make_unique<JoinBytes>();
  if (type == "Metaspace") return read_decode_metaspace(json);
  if (type == "ByteFallback") return std::make_unique<DecodeByteFallback>();
  if (type == "Fuse") return std::make_unique<DecodeFuse>();
  if (type == "Strip") {
    return std::make_unique<DecodeStrip>(json.at("content").string(), json.at("start").integer(),
                                         json.at("stop").integer());
  }
  if (type == "Replace") return read_decode_replace(json);
  if (type == "BPEDecoder") return std::make_unique<DecodeSuffix>(json.string_or("suffix", "</w>"));
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Decoder>> stages;
    for (const Json& stage : json.at("decoders").items()) stages.push_back(read_decoder(stage));
    return std::make_unique<DecodeChain>(std::move(stages));
  }
  json.fail(fmt::format("the decoder {} is not supported", type));
}

}  // namespace titan::data
