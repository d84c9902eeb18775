// [training]: data, batch, length and precision of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"
#include "config/sections/dataloader.h"

namespace titan::config {

struct Training {
  std::string dataset = "c4_test";
  std::optional<std::string> dataset_path;
  int64_t local_batch_size = 8;
  int64_t global_batch_size = -1;
  int64_t seq_len = 2048;
  double max_norm = 1.0;
  int64_t steps = 10000;
  std::optional<int64_t> num_epochs;
  bool enable_cpu_offload = false;
  std::string dtype = "float32";
  std::string mixed_precision_param = "bfloat16";
  std::string mixed_precision_reduce = "float32";
  int64_t loss_chunk_tokens = 0;
  int64_t gc_freq = 50;
  bool gc_debug = false;
  DataLoader dataloader;

  static constexpr void describe(auto&& field) {
    field("dataset", &Training::dataset, "name in the registry of datasets");
    field("dataset_path", &Training::dataset_path,
          "file, folder or glob that replaces the dataset's own path");
    field("local_batch_size", &Training::local_batch_size,
          "sequences per data-parallel rank and micro-batch", between(1, 1048576));
    field("global_batch_size", &Training::global_batch_size,
          "sequences per optimizer step over all ranks; -1: local_batch_size times the "
          "data-parallel degree",
          at_least_or(1, -1));
    field("seq_len", &Training::seq_len, "tokens per sequence", at_least(1));
    field("max_norm", &Training::max_norm, "clip the global L2 norm of the gradients to this",
          above(0));
    field("steps", &Training::steps, "optimizer steps of the run", at_least(1));
    field("num_epochs", &Training::num_epochs,
          "passes over the dataset; the run ends at the first of steps and num_epochs",
          at_least(1));
    field("enable_cpu_offload", &Training::enable_cpu_offload,
          "keep parameters, gradients and optimizer states in host memory");
    field("dtype", &Training::dtype, "dtype of parameters and optimizer states",
          one_of("bfloat16|float32|float64"));
    field("mixed_precision_param", &Training::mixed_precision_param,
          "dtype of the computation; float16 turns on dynamic loss scaling",
          one_of("bfloat16|float16|float32|float64"));
    field("mixed_precision_reduce", &Training::mixed_precision_reduce,
          "dtype in which gradients are reduced", one_of("float32"));
    field("loss_chunk_tokens", &Training::loss_chunk_tokens,
          "tokens whose logits exist at one time in the loss; 0: chosen by titan", at_least(0));
    field("gc_freq", &Training::gc_freq, "period of Python's garbage collection in TorchTitan",
          at_least(1));
    field("gc_debug", &Training::gc_debug, "report Python's garbage in TorchTitan");
    field("dataloader", &Training::dataloader, "readers of the training data");
  }
};
static_assert(complete<Training>(), "describe() of Training misses a member");

}  // namespace titan::config
