#include "config/alias.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace titan::config {
namespace {

constexpr auto kRename = AliasEffect::kRename;
constexpr auto kIgnored = AliasEffect::kIgnore;
constexpr auto kForeign = AliasEffect::kNotBuilt;

constexpr const char* kNoCompiler = "titan has no tracing compiler; the results are the same";
constexpr const char* kNoCompilerZh = "titan 不使用跟踪编译器；结果相同";
constexpr const char* kCaptures =
    "compile.enable captures the whole step, the backward pass included";
constexpr const char* kCapturesZh = "compile.enable 捕获整个训练步，包括反向传播";
constexpr const char* kImages = "image generation (flux) is not part of titan";
constexpr const char* kImagesZh = "titan 不包含图像生成（flux）";
constexpr const char* kVision = "vision-language models are not built";
constexpr const char* kVisionZh = "尚未实现视觉语言模型";
constexpr const char* kMoved = "the name of v0.2.0";
constexpr const char* kMovedZh = "v0.2.0 的名称";

constexpr Alias kAliases[] = {
    {"training.seed", kRename, "debug.seed", kMoved, kMovedZh},
    {"training.deterministic", kRename, "debug.deterministic", kMoved, kMovedZh, true},
    {"training.debug_moe_force_load_balance", kRename, "debug.moe_force_load_balance", kMoved,
     kMovedZh, true},
    {"parallelism.enable_compiled_autograd", kIgnored, nullptr, kCaptures, kCapturesZh, true},
    {"compile.compiled_autograd_enable", kIgnored, nullptr, kCaptures, kCapturesZh, true},
    {"compile.graph_passes", kIgnored, nullptr, kNoCompiler, kNoCompilerZh},
    {"compile.model_backend_override", kIgnored, nullptr, kNoCompiler, kNoCompilerZh},
    {"compile.joint_passes", kIgnored, nullptr, kNoCompiler, kNoCompilerZh},
    {"compile.passes", kIgnored, nullptr, kNoCompiler, kNoCompilerZh},
    {"experimental.comms_bucket_reorder_strategy", kIgnored, nullptr, kNoCompiler, kNoCompilerZh},
    {"experimental.autop_force_bf16", kIgnored, nullptr,
     "the compute dtype is training.mixed_precision_param",
     "计算精度由 training.mixed_precision_param 决定", true},
    {"npu.checkpoint_enabled", kRename, "activation_checkpoint.mode",
     "true means mode = \"full\", false means mode = \"none\"",
     "true 表示 mode = \"full\"，false 表示 mode = \"none\"", true},
    {"npu.checkpoint_ratio", kRename, "activation_checkpoint.checkpoint_ratio",
     "the name of the YAML form", "YAML 形式的名称"},
    {"data_path", kRename, "training.dataset_path", "short option --data-path",
     "短选项 --data-path"},
    {"output_dir", kRename, "job.dump_folder", "short option --output-dir", "短选项 --output-dir"},
    {"hf_transformers.model", kForeign, nullptr,
     "models of the transformers library cannot be loaded without Python; import their weights "
     "with `titan checkpoint import`",
     "没有 Python 无法加载 transformers 库的模型；请用 `titan checkpoint import` 导入权重"},
    {"training.classifier_free_guidance_prob", kForeign, nullptr, kImages, kImagesZh},
    {"training.img_size", kForeign, nullptr, kImages, kImagesZh},
    {"training.test_mode", kForeign, nullptr, kImages, kImagesZh, true},
    {"encoder.t5_encoder", kForeign, nullptr, kImages, kImagesZh},
    {"encoder.clip_encoder", kForeign, nullptr, kImages, kImagesZh},
    {"encoder.autoencoder_path", kForeign, nullptr, kImages, kImagesZh},
    {"encoder.max_t5_encoding_len", kForeign, nullptr, kImages, kImagesZh},
    {"validation.enable_classifier_free_guidance", kForeign, nullptr, kImages, kImagesZh, true},
    {"validation.classifier_free_guidance_scale", kForeign, nullptr, kImages, kImagesZh},
    {"validation.denoising_steps", kForeign, nullptr, kImages, kImagesZh},
    {"validation.eval_freq", kForeign, nullptr, kImages, kImagesZh},
    {"validation.save_img_count", kForeign, nullptr, kImages, kImagesZh},
    {"validation.save_img_folder", kForeign, nullptr, kImages, kImagesZh},
    {"validation.all_timesteps", kForeign, nullptr, kImages, kImagesZh, true},
    {"inference.save_img_folder", kForeign, nullptr, kImages, kImagesZh},
    {"inference.prompts_path", kForeign, nullptr, kImages, kImagesZh},
    {"inference.local_batch_size", kForeign, nullptr, kImages, kImagesZh},
    {"inference.img_size", kForeign, nullptr, kImages, kImagesZh},
    {"data.max_images_per_batch", kForeign, nullptr, kVision, kVisionZh},
    {"data.max_patches_per_image", kForeign, nullptr, kVision, kVisionZh},
    {"data.patch_size", kForeign, nullptr, kVision, kVisionZh},
    {"data.spatial_merge_size", kForeign, nullptr, kVision, kVisionZh},
    {"data.packing_buffer_size", kForeign, nullptr, kVision, kVisionZh},
};

constexpr Alias kYamlAliases[] = {
    {"model.name", kRename, "model.name", "llama2_7b means name = \"llama2\", flavor = \"7B\"",
     "llama2_7b 表示 name = \"llama2\"、flavor = \"7B\""},
    {"model.vocab_size", kRename, "model.args.vocab_size", "", ""},
    {"model.hidden_size", kRename, "model.args.dim", "", ""},
    {"model.num_layers", kRename, "model.args.n_layers", "", ""},
    {"model.num_attention_heads", kRename, "model.args.n_heads", "", ""},
    {"model.num_key_value_heads", kRename, "model.args.n_kv_heads", "", ""},
    {"model.intermediate_size", kRename, "model.args.hidden_dim", "", ""},
    {"model.rms_norm_eps", kRename, "model.args.norm_eps", "", ""},
    {"model.rope_theta", kRename, "model.args.rope_theta", "", ""},
    {"model.max_seq_len", kRename, "training.seq_len", "also validation.seq_len",
     "同时设置 validation.seq_len"},
    {"training.batch_size", kRename, "training.local_batch_size", "", ""},
    {"training.learning_rate", kRename, "optimizer.lr", "", ""},
    {"training.warmup_steps", kRename, "lr_scheduler.warmup_steps", "", ""},
    {"training.gradient_clip", kRename, "training.max_norm", "", ""},
    {"training.weight_decay", kRename, "optimizer.weight_decay", "", ""},
    {"training.dtype", kRename, "training.mixed_precision_param",
     "fp16, bf16 and fp32 too; parameters and optimizer states stay float32",
     "也接受 fp16、bf16、fp32；参数与优化器状态保持 float32"},
    {"distributed.backend", kRename, "comm.backend", "", ""},
    {"distributed.world_size", kRename, "comm.world_size", "", ""},
    {"distributed.rank", kRename, "comm.rank", "", ""},
    {"distributed.master_addr", kRename, "comm.master_addr", "", ""},
    {"distributed.master_port", kRename, "comm.master_port", "", ""},
    {"distributed.fp8_enabled", kRename, "model.converters",
     "true means converters = [\"quantize.linear.float8\"]",
     "true 表示 converters = [\"quantize.linear.float8\"]"},
};

const Alias* find_in(std::span<const Alias> list, std::string_view key) {
  const auto found =
      std::ranges::find_if(list, [&](const Alias& alias) { return key == alias.from; });
  return found == list.end() ? nullptr : &*found;
}

Assignment with(const Assignment& original, const char* key, const std::string& word) {
  Assignment out = original;
  out.key = key;
  out.value = word;
  out.is_word = true;
  return out;
}

// "llama2_7b" -> name and flavor; "8b" becomes "8B", "debugmodel" stays.
std::vector<Assignment> split_model_name(const Assignment& assignment, const std::string& word) {
  const auto cut = word.rfind('_');
  if (cut == std::string::npos || cut + 1 == word.size()) return {assignment};
  std::string flavor = word.substr(cut + 1);
  if (flavor == "v3") return {assignment};  // deepseek_v3
  if (std::isdigit(static_cast<unsigned char>(flavor[0]))) {
    for (char& c : flavor) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return {with(assignment, "model.name", word.substr(0, cut)),
          with(assignment, "model.flavor", flavor)};
}

std::string long_dtype(const std::string& word) {
  if (word == "bf16") return "bfloat16";
  if (word == "fp16" || word == "half") return "float16";
  if (word == "fp32" || word == "float") return "float32";
  return word;
}

}  // namespace

std::span<const Alias> aliases() { return kAliases; }
std::span<const Alias> yaml_aliases() { return kYamlAliases; }
const Alias* find_alias(std::string_view key) { return find_in(kAliases, key); }

std::vector<Assignment> from_yaml(const Assignment& assignment) {
  const Alias* alias = find_in(kYamlAliases, assignment.key);
  const auto* word = std::get_if<std::string>(&assignment.value);
  if (!alias || !word) return {assignment};
  const std::string& key = assignment.key;
  if (key == "model.name") return split_model_name(assignment, *word);
  if (key == "training.dtype") return {with(assignment, alias->to, long_dtype(*word))};
  if (key == "distributed.fp8_enabled") {
    if (*word == "true" || *word == "True" || *word == "TRUE") {
      return {with(assignment, alias->to, "quantize.linear.float8")};
    }
    if (*word == "false" || *word == "False" || *word == "FALSE") return {};
    return {assignment};  // reported as an unknown value by its own name
  }
  if (key == "model.max_seq_len") {
    return {with(assignment, "training.seq_len", *word),
            with(assignment, "validation.seq_len", *word)};
  }
  return {with(assignment, alias->to, *word)};
}

std::optional<std::string> model_alias(std::string_view name) {
  if (name == "llama3_ft") return "llama3";
  for (const std::string_view prefix : {"simple_fsdp.", "compiler_toolkit.", "autoparallel."}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    if (name == "local_map_deepseek_v3") name = "deepseek_v3";
    if (name == "llama3" || name == "deepseek_v3") return std::string(name);
    return std::nullopt;
  }
  return std::nullopt;
}

std::string converter_name(std::string_view name) {
  if (name == "float8") return "quantize.linear.float8";
  if (name == "mx") return "quantize.linear.mx";
  return std::string(name);
}

}  // namespace titan::config
