// A run folder as titan train leaves it: steps of a small model, a trained tokenizer, a config that
// names it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/store.h"
#include "data/loader.h"
#include "data/tokenizer/trainer.h"
#include "generate/small_models.h"
#include "models/hf_config.h"

namespace titan::generate {

class RunFolder {
 public:
  RunFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "titan_generate_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
    std::ofstream(path_ / "text.txt")
        << "the quick brown fox jumps over the lazy dog; the dog sleeps, the fox runs.\n";
    data::train_tokenizer({.files = {path_ / "text.txt"}, .vocab_size = 260, .threads = 1},
                          path_ / "tokenizer");
  }
  ~RunFolder() { std::filesystem::remove_all(path_); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path tokenizer() const { return path_ / "tokenizer"; }

  // `assets` and `dump_folder` are what the run's config says.
  nlohmann::json state(const std::string& assets, const std::string& dump_folder) const {
    return {
        {"model_args", models::args_to_json(small_llama3())},
        {"config", "[job]\ndump_folder = \"" + dump_folder + "\"\n[model]\nhf_assets_path = \"" +
                       assets + "\"\n"},
        {"data", {{"tokenizer", data::tokenizer_fingerprint(*data::load_tokenizer(tokenizer()))}}}};
  }
  void save(int64_t step, const nlohmann::json& state,
            const std::string& folder = "checkpoint") const {
    auto model = small_model(small_llama3());
    checkpoint::Snapshot snapshot{.state = state};
    model->visit([&](const std::string& name, at::Tensor& parameter, const nn::Init&) {
      snapshot.model.push_back({name, parameter.detach()});
    });
    checkpoint::save(path_ / folder, step, snapshot);
  }
  void save(int64_t step) const { save(step, state(tokenizer().string(), path_.string())); }

 private:
  std::filesystem::path path_;
};

}  // namespace titan::generate
