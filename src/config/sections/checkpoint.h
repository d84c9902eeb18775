// [checkpoint]: what is saved, when, in which form, and what a run starts from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace titan::config {

struct Checkpoint {
  bool enable = false;
  bool enable_ft_dataloader_checkpoints = true;
  std::string folder = "checkpoint";
  int64_t interval = 500;
  std::optional<std::string> initial_load_path;
  bool initial_load_model_only = true;
  bool initial_load_in_hf = false;
  bool initial_load_in_hf_quantized = false;
  bool last_save_model_only = true;
  bool last_save_in_hf = false;
  std::string export_dtype = "float32";
  std::string async_mode = "disabled";
  int64_t keep_latest_k = 10;
  int64_t load_step = -1;
  std::vector<std::string> exclude_from_loading;
  bool enable_first_step_checkpoint = false;
  bool create_seed_checkpoint = false;
  bool load_only = false;

  static constexpr void describe(auto&& field) {
    field("enable", &Checkpoint::enable,
          "save checkpoints, and resume from the newest one in the folder");
    field("enable_ft_dataloader_checkpoints", &Checkpoint::enable_ft_dataloader_checkpoints,
          "one data position per replica under fault tolerance");
    field("folder", &Checkpoint::folder, "folder of the checkpoints, below job.dump_folder");
    field("interval", &Checkpoint::interval, "steps between two checkpoints", at_least(1));
    field("initial_load_path", &Checkpoint::initial_load_path,
          "checkpoint a new run starts from; without effect once the folder holds one");
    field("initial_load_model_only", &Checkpoint::initial_load_model_only,
          "take only the weights from initial_load_path");
    field("initial_load_in_hf", &Checkpoint::initial_load_in_hf,
          "initial_load_path holds Hugging Face safetensors (absent: model.hf_assets_path)");
    field("initial_load_in_hf_quantized", &Checkpoint::initial_load_in_hf_quantized,
          "the safetensors are block-quantised and are expanded while read");
    field("last_save_model_only", &Checkpoint::last_save_model_only,
          "the last checkpoint holds only the weights, in export_dtype");
    field("last_save_in_hf", &Checkpoint::last_save_in_hf,
          "the last checkpoint is a Hugging Face folder; needs last_save_model_only");
    field("export_dtype", &Checkpoint::export_dtype,
          "dtype of the last checkpoint when it holds only weights",
          one_of("float16|bfloat16|float32"));
    field("async_mode", &Checkpoint::async_mode, "save in the background",
          one_of("disabled|async|async_with_pinned_mem"));
    field("keep_latest_k", &Checkpoint::keep_latest_k, "checkpoints that are kept; 0: all",
          at_least_or(2, 0));
    field("load_step", &Checkpoint::load_step, "step to resume from; -1: the newest",
          at_least_or(0, -1));
    field("exclude_from_loading", &Checkpoint::exclude_from_loading,
          "parts that start afresh on resume",
          one_of("model|optimizer|lr_scheduler|dataloader|train_state"));
    field("enable_first_step_checkpoint", &Checkpoint::enable_first_step_checkpoint,
          "save after step 1 too");
    field("create_seed_checkpoint", &Checkpoint::create_seed_checkpoint,
          "save the initial weights as step 0 and end");
    field("load_only", &Checkpoint::load_only, "load, but never save");
  }
};
static_assert(complete<Checkpoint>(), "describe() of Checkpoint misses a member");

}  // namespace titan::config
