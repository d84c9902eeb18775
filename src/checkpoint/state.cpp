#include "checkpoint/state.h"

#include "base/error.h"

namespace titan::checkpoint {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  throw Error(
      "[checkpoint] character '{}' in hexadecimal bytes of a stored state — the state is damaged",
      c);
}

}  // namespace

std::string optimizer_name(std::string_view state, std::string_view parameter) {
  return fmt::format("{}{}.{}", kOptimizerPrefix, state, parameter);
}

Part part_of(std::string_view name) {
  return name.substr(0, kOptimizerPrefix.size()) == kOptimizerPrefix ? Part::kOptimizer
                                                                     : Part::kModel;
}

std::string encode_bytes(const at::Tensor& bytes) {
  const at::Tensor host = bytes.detach().cpu().contiguous();
  TITAN_CHECK(host.scalar_type() == at::kByte, "bytes are uint8");
  constexpr char kDigits[] = "0123456789abcdef";
  const auto* data = host.const_data_ptr<uint8_t>();
  std::string text;
  text.reserve(static_cast<size_t>(host.numel()) * 2);
  for (int64_t i = 0; i < host.numel(); ++i) {
    text += kDigits[data[i] >> 4];
    text += kDigits[data[i] & 15];
  }
  return text;
}

at::Tensor decode_bytes(std::string_view hex) {
  if (hex.size() % 2 != 0) {
    throw Error(
        "[checkpoint] {} hexadecimal digits in a stored state, an even number is needed — the "
        "state is damaged",
        hex.size());
  }
  const at::Tensor bytes = at::empty({static_cast<int64_t>(hex.size() / 2)}, at::kByte);
  auto* data = bytes.mutable_data_ptr<uint8_t>();
  for (size_t i = 0; i < hex.size() / 2; ++i) {
    data[i] = static_cast<uint8_t>(hex_digit(hex[2 * i]) * 16 + hex_digit(hex[2 * i + 1]));
  }
  return bytes;
}

}  // namespace titan::checkpoint
