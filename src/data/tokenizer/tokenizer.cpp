#include "data/tokenizer/tokenizer.h"

#include "base/error.h"
#include "data/tokenizer/hf_tokenizer.h"

namespace titan::data {
namespace fs = std::filesystem;

std::vector<int32_t> Tokenizer::document_prefix() const {
  const auto bos = bos_id();
  return bos ? std::vector<int32_t>{*bos} : std::vector<int32_t>{};
}

std::vector<int32_t> Tokenizer::document_suffix() const {
  const auto eos = eos_id();
  return eos ? std::vector<int32_t>{*eos} : std::vector<int32_t>{};
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  if (!fs::exists(path)) throw Error("[tokenizer] {} does not exist — check model.hf_assets_path", path.string());
  if (fs::is_directory(path)) return load_hf_tokenizer(path / "tokenizer.json", path);
  return load_hf_tokenizer(path, path.parent_path());
}

}  // namespace titan::data
