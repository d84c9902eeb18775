// The rows of the compatibility table, in the order of the schema. Kept apart from the code that
// reads it; one row a line group, so that a new feature is one edited row.
#include <algorithm>

#include "config/compatibility.h"

namespace titan::config {
namespace {

using C = const JobConfig&;  // argument of the conditions
constexpr auto kYes = Support::kYes;
constexpr auto kPartly = Support::kPartly;
constexpr auto kNoEffect = Support::kNoEffect;
constexpr auto kNotBuilt = Support::kNotBuilt;

constexpr const char* kOneDevice = "this version trains on one device; set it to 1";
constexpr const char* kOneDeviceZh = "当前版本只在单个设备上训练；请设为 1";
constexpr const char* kNoGarbage = "there is no Python in the process, so no garbage collector";
constexpr const char* kNoGarbageZh = "进程中没有 Python，也就没有垃圾回收";
constexpr const char* kConverters =
    "acts only with a converter of model.converters, none of which is built";
constexpr const char* kConvertersZh =
    "只在使用 model.converters 的转换器时起作用，而转换器尚未实现";
constexpr const char* kFault = "belongs to fault_tolerance.enable";
constexpr const char* kFaultZh = "属于 fault_tolerance.enable";
constexpr const char* kRecompute =
    "titan recomputes whole blocks or none of an operator; only the memory could differ";
constexpr const char* kRecomputeZh = "titan 以整个块或单个算子为单位重算；只可能影响内存";
constexpr const char* kBudget = "belongs to activation_checkpoint.mode = \"memory_budget\"";
constexpr const char* kBudgetZh = "属于 activation_checkpoint.mode = \"memory_budget\"";
constexpr const char* kReaders =
    "reader threads live as long as the run and stage batches as the device needs";
constexpr const char* kReadersZh = "读取线程与训练同寿命，并按设备需要暂存批次";
constexpr const char* kOwn = "titan's own key";
constexpr const char* kOwnZh = "titan 自有的键";

bool has(const std::string& text) { return !text.empty(); }

// clang-format off
constexpr Row kRows[] = {
    // [job]
    {"job.config_file", kYes, "also --config FILE, or the first bare word", "也可用 --config FILE 或第一个裸参数"},
    {"job.dump_folder", kYes, "the default is that of v0.2.1 and later", "默认值取自 v0.2.1 及以后版本"},
    {"job.description", kYes},
    {"job.print_config", kYes},
    {"job.save_config_file", kYes},
    {"job.custom_config_module", kNoEffect,
     "the keys that TorchTitan's own modules add are known without it; other modules need Python",
     "TorchTitan 自带模块增加的键无需它也能识别；其他模块需要 Python"},
    // [profiling]
    {"profiling.enable_profiling", kYes},
    {"profiling.save_traces_folder", kYes},
    {"profiling.profile_freq", kYes},
    {"profiling.profiler_active", kYes},
    {"profiling.profiler_warmup", kYes},
    {"profiling.enable_memory_snapshot", kNotBuilt, "memory snapshots are not written yet; the log shows peak memory",
     "尚不写出内存快照；日志中有峰值内存", [](C c) { return c.profiling.enable_memory_snapshot; }, "true"},
    {"profiling.save_memory_snapshot_folder", kNoEffect, "belongs to profiling.enable_memory_snapshot",
     "属于 profiling.enable_memory_snapshot"},
    // [metrics]
    {"metrics.log_freq", kYes},
    {"metrics.enable_tensorboard", kYes},
    {"metrics.disable_color_printing", kYes, "colours are used on a terminal only", "只在终端上使用颜色"},
    {"metrics.save_tb_folder", kYes},
    {"metrics.save_for_all_ranks", kYes},
    {"metrics.enable_wandb", kNotBuilt, "use metrics.enable_tensorboard, metrics.jsonl or `titan report`",
     "请用 metrics.enable_tensorboard、metrics.jsonl 或 `titan report`", [](C c) { return c.metrics.enable_wandb; }, "true"},
    {"metrics.enable_jsonl", kYes, kOwn, kOwnZh},
    // [model]
    {"model.name", kPartly, "built: llama2, llama3, qwen3 (dense); simple_fsdp.llama3 and its like mean the plain family",
     "已实现：llama2、llama3、qwen3（稠密）；simple_fsdp.llama3 等等同于普通模型",
     [](C c) { return !is_built_family(c.model.name); }, "deepseek_v3"},
    {"model.flavor", kPartly, "not built: mixture of experts; flex and varlen flavors mean block_causal, by titan's own kernels",
     "未实现：混合专家；flex 与 varlen 规格表示 block_causal，使用 titan 自己的核",
     [](C c) { return is_built_family(c.model.name) && !is_built_flavor(c.model.name, c.model.flavor); },
     "debugmodel_moe"},
    {"model.hf_assets_path", kYes},
    {"model.tokenizer_path", kYes, "older name: sets model.hf_assets_path", "旧名称：设置 model.hf_assets_path"},
    {"model.converters", kPartly,
     "built: quantize.linear.float8 (also float8), on GPUs that have float8 products, anywhere by emulate; not built: MXFP8, experts",
     "已实现：quantize.linear.float8（也可写 float8），在支持 float8 乘法的 GPU 上，或用 emulate 在任何设备上；未实现：MXFP8、专家层",
     [](C c) {
       return std::ranges::any_of(c.model.converters, [](auto& name) { return name != "quantize.linear.float8"; });
     },
     "quantize.linear.mx"},
    {"model.print_after_conversion", kNoEffect, "the layers stay what they are, their products change",
     "层本身不变，只改变其矩阵乘法"},
    {"model.args.dim", kYes, kOwn, kOwnZh},
    {"model.args.n_layers", kYes, kOwn, kOwnZh},
    {"model.args.n_heads", kYes, kOwn, kOwnZh},
    {"model.args.n_kv_heads", kYes, kOwn, kOwnZh},
    {"model.args.head_dim", kYes, kOwn, kOwnZh},
    {"model.args.hidden_dim", kYes, kOwn, kOwnZh},
    {"model.args.ffn_dim_multiplier", kYes, kOwn, kOwnZh},
    {"model.args.multiple_of", kYes, kOwn, kOwnZh},
    {"model.args.vocab_size", kYes, kOwn, kOwnZh},
    {"model.args.norm_eps", kYes, kOwn, kOwnZh},
    {"model.args.rope_theta", kYes, kOwn, kOwnZh},
    {"model.args.qk_norm", kYes, kOwn, kOwnZh},
    {"model.args.tied", kYes, kOwn, kOwnZh},
    {"model.args.attn_mask_type", kYes, "TorchTitan sets it in Python, by flavor", "TorchTitan 在 Python 中按规格设置"},
    {"model.args.hf_config", kYes, kOwn, kOwnZh},
    // [optimizer]
    {"optimizer.name", kYes},
    {"optimizer.lr", kYes},
    {"optimizer.beta1", kYes},
    {"optimizer.beta2", kYes},
    {"optimizer.eps", kYes},
    {"optimizer.weight_decay", kYes},
    {"optimizer.implementation", kNoEffect, "the fused kernel is always used; the maths is the same",
     "始终使用融合核；数学相同"},
    {"optimizer.early_step_in_backward", kYes, "per FSDP group, in the last micro-batch; nothing is clipped; not with pipelines or float16",
     "按 FSDP 组、在最后一个微批次中更新；不做梯度裁剪；不能与流水线或 float16 同用"},
    // [lr_scheduler]
    {"lr_scheduler.warmup_steps", kYes},
    {"lr_scheduler.total_steps", kYes},
    {"lr_scheduler.decay_ratio", kYes},
    {"lr_scheduler.decay_type", kYes},
    {"lr_scheduler.min_lr_factor", kYes},
    // [training]
    {"training.dataset", kYes},
    {"training.dataset_path", kYes},
    {"training.local_batch_size", kYes},
    {"training.global_batch_size", kYes},
    {"training.seq_len", kYes},
    {"training.max_norm", kYes},
    {"training.steps", kYes},
    {"training.num_epochs", kYes, kOwn, kOwnZh},
    {"training.enable_cpu_offload", kYes, "on one process, too; parameters, gradients and optimizer states in host memory",
     "单进程同样有效；参数、梯度与优化器状态位于主机内存"},
    {"training.dtype", kYes, "also float64, for tests", "也接受 float64（用于测试）"},
    {"training.mixed_precision_param", kYes, "holds on every path while training.dtype is float32; also float16 (with loss scaling) and float64",
     "当 training.dtype 为 float32 时在所有路径上生效；也接受 float16（带损失缩放）与 float64"},
    {"training.mixed_precision_reduce", kYes},
    {"training.loss_chunk_tokens", kYes, kOwn, kOwnZh},
    {"training.gc_freq", kNoEffect, kNoGarbage, kNoGarbageZh},
    {"training.gc_debug", kNoEffect, kNoGarbage, kNoGarbageZh},
    {"training.dataloader.num_workers", kYes, "sets data.threads unless that is given", "未给出 data.threads 时设置它"},
    {"training.dataloader.persistent_workers", kNoEffect, kReaders, kReadersZh},
    {"training.dataloader.pin_memory", kNoEffect, kReaders, kReadersZh},
    {"training.dataloader.prefetch_factor", kYes, "times num_workers: sets data.prefetch unless that is given",
     "乘以 num_workers：未给出 data.prefetch 时设置它"},
    // [parallelism]
    {"parallelism.data_parallel_replicate_degree", kYes},
    {"parallelism.data_parallel_shard_degree", kYes},
    {"parallelism.fsdp_reshard_after_forward", kYes},
    {"parallelism.tensor_parallel_degree", kYes},
    {"parallelism.disable_loss_parallel", kNoEffect, "logits are never whole: the loss over split logits is the same number", "logits 从不完整存在：在切分的 logits 上计算的损失是同一个数"},
    {"parallelism.enable_async_tensor_parallel", kYes, "needs no compile; a ring of messages under the products of each block",
     "无需 compile；各块的矩阵乘法期间以环形消息通信"},
    {"parallelism.pipeline_parallel_degree", kYes},
    {"parallelism.module_fqns_per_model_part", kYes},
    {"parallelism.pipeline_parallel_first_stage_less_layers", kYes},
    {"parallelism.pipeline_parallel_last_stage_less_layers", kYes},
    {"parallelism.pipeline_parallel_layers_per_stage", kYes},
    {"parallelism.pipeline_parallel_schedule", kYes},
    {"parallelism.pipeline_parallel_schedule_csv", kYes},
    {"parallelism.pipeline_parallel_microbatch_size", kYes},
    {"parallelism.pipeline_parallel_expert_parallel_overlap", kNoEffect, "belongs to expert_parallel_degree > 1", "属于 expert_parallel_degree > 1"},
    {"parallelism.context_parallel_degree", kYes},
    {"parallelism.context_parallel_load_balancer", kPartly, "ptrr needs flex attention; use headtail or None", "ptrr 需要 flex attention；请用 headtail 或 None",
     [](C c) { return c.parallelism.context_parallel_load_balancer == "ptrr"; }, "ptrr"},
    {"parallelism.context_parallel_rotate_method", kYes},
    {"parallelism.expert_parallel_degree", kPartly, kOneDevice, kOneDeviceZh,
     [](C c) { return c.parallelism.expert_parallel_degree > 1; }, "2"},
    {"parallelism.expert_tensor_parallel_degree", kNoEffect, "belongs to expert_parallel_degree > 1", "属于 expert_parallel_degree > 1"},
    {"parallelism.expert_parallel_comm_backend", kNoEffect, "belongs to expert_parallel_degree > 1", "属于 expert_parallel_degree > 1"},
    // [checkpoint]
    {"checkpoint.enable", kYes},
    {"checkpoint.enable_ft_dataloader_checkpoints", kNoEffect, kFault, kFaultZh},
    {"checkpoint.folder", kYes},
    {"checkpoint.interval", kYes},
    {"checkpoint.initial_load_path", kYes},
    {"checkpoint.initial_load_model_only", kYes},
    {"checkpoint.initial_load_in_hf", kYes},
    {"checkpoint.initial_load_in_hf_quantized", kNotBuilt, "convert the weights to bfloat16 first", "请先把权重转换为 bfloat16",
     [](C c) { return c.checkpoint.initial_load_in_hf_quantized; }, "true"},
    {"checkpoint.last_save_model_only", kYes},
    {"checkpoint.last_save_in_hf", kYes},
    {"checkpoint.export_dtype", kYes},
    {"checkpoint.async_mode", kPartly, "set it to disabled; saves take the time of the write", "请设为 disabled；保存耗时等于写盘时间",
     [](C c) { return c.checkpoint.async_mode != "disabled"; }, "async"},
    {"checkpoint.keep_latest_k", kYes},
    {"checkpoint.load_step", kYes},
    {"checkpoint.exclude_from_loading", kYes},
    {"checkpoint.enable_first_step_checkpoint", kYes},
    {"checkpoint.create_seed_checkpoint", kYes, "not needed to compare runs: initial weights follow from debug.seed on any number of devices",
     "比较不同训练时无需使用：初始权重由 debug.seed 决定，与设备数量无关"},
    {"checkpoint.load_only", kYes},
    // [activation_checkpoint]
    {"activation_checkpoint.mode", kPartly, "memory_budget is not built; use selective or full", "未实现 memory_budget；请用 selective 或 full",
     [](C c) { return c.activation_checkpoint.mode == "memory_budget"; }, "memory_budget"},
    {"activation_checkpoint.selective_ac_option", kYes},
    {"activation_checkpoint.checkpoint_ratio", kYes, kOwn, kOwnZh},
    {"activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns", kNoEffect, kRecompute, kRecomputeZh},
    {"activation_checkpoint.early_stop", kNoEffect, kRecompute, kRecomputeZh},
    {"activation_checkpoint.memory_budget", kNoEffect, kBudget, kBudgetZh},
    {"activation_checkpoint.visualize_memory_budget_pareto", kNoEffect, kBudget, kBudgetZh},
    {"activation_checkpoint.preserve_rng_state", kNoEffect, "no operator of these models draws random numbers", "这些模型的算子不使用随机数"},
    {"activation_checkpoint.determinism_check", kNoEffect, "a debugging aid of torch.utils.checkpoint", "torch.utils.checkpoint 的调试手段"},
    {"activation_checkpoint.debug", kNoEffect, "a debugging aid of torch.utils.checkpoint", "torch.utils.checkpoint 的调试手段"},
    // [compile]
    {"compile.enable", kYes, "the whole step is captured as a graph of the device (CUDA Graph, NPUGraph) and replayed; there is no tracing compiler",
     "将整个训练步捕获为设备图（CUDA Graph、NPUGraph）并重放；不使用跟踪编译器"},
    {"compile.require", kYes, kOwn, kOwnZh},
    {"compile.components", kNoEffect, "compile.enable captures the whole step", "compile.enable 捕获整个训练步"},
    {"compile.backend", kNoEffect, "every backend means the captured step", "任何后端都表示捕获整个训练步"},
    // [quantize]
    {"quantize.linear.float8.enable_fsdp_float8_all_gather", kNoEffect, "parameters are gathered in the dtype of the computation", "参数以计算精度聚合"},
    {"quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp", kNoEffect, "scales are computed where weights are cast",
     "缩放系数在转换权重时计算"},
    {"quantize.linear.float8.recipe_name", kPartly, "tensorwise; rowwise and rowwise_with_gw_hp with emulate", "tensorwise；rowwise 与 rowwise_with_gw_hp 需同时启用 emulate",
     [](C c) {
       return c.quantize.linear.float8.recipe_name.value_or("tensorwise") != "tensorwise" && !c.quantize.linear.float8.emulate;
     },
     "rowwise"},
    {"quantize.linear.float8.filter_fqns", kYes,
     "auto_filter_small_kn takes queries, keys and values as one matrix, gate and up too; a layer whose sizes are no multiples of 16 stays as it is",
     "auto_filter_small_kn 将 q、k、v 视为一个矩阵，gate 与 up 亦然；尺寸不是 16 的倍数的层保持不变"},
    {"quantize.linear.float8.emulate", kYes, "rounds to float8 and multiplies in float32, on any device", "舍入到 float8 后以 float32 相乘，适用于任何设备"},
    {"quantize.linear.mx.mxfp8_dim1_cast_kernel_choice", kNoEffect, kConverters, kConvertersZh},
    {"quantize.linear.mx.recipe_name", kNoEffect, kConverters, kConvertersZh},
    {"quantize.linear.mx.filter_fqns", kNoEffect, kConverters, kConvertersZh},
    {"quantize.grouped_mm.float8.fqns", kNoEffect, kConverters, kConvertersZh},
    {"quantize.grouped_mm.mx.recipe_name", kNoEffect, kConverters, kConvertersZh},
    {"quantize.grouped_mm.mx.fqns", kNoEffect, kConverters, kConvertersZh},
    // [comm]
    {"comm.init_timeout_seconds", kYes},
    {"comm.train_timeout_seconds", kYes},
    {"comm.trace_buf_size", kYes, "collectives that a rank remembers; written when one fails, for `titan comm-trace`",
     "一个 rank 记住的集合通信次数；失败时写出，供 `titan comm-trace` 使用"},
    {"comm.save_traces_folder", kYes},
    {"comm.save_traces_file_prefix", kYes},
    {"comm.mode", kPartly, "local_tensor: use `titan selfcheck`, or `titan launch` with --device.name cpu, which run all ranks without devices",
     "local_tensor：请用 `titan selfcheck`，或带 --device.name cpu 的 `titan launch`，两者无需设备即可运行全部 rank",
     [](C c) { return c.comm.mode == "local_tensor"; }, "local_tensor"},
    {"comm.backend", kNoEffect, "the device decides: gloo on CPUs, nccl on GPUs, hccl on NPUs", "由设备决定：CPU 用 gloo，GPU 用 nccl，NPU 用 hccl"},
    {"comm.world_size", kYes},
    {"comm.rank", kYes},
    {"comm.master_addr", kYes},
    {"comm.master_port", kYes},
    {"comm.report", kYes, kOwn, kOwnZh},
    {"metrics.timings", kYes, kOwn, kOwnZh},
    // [memory_estimation]
    {"memory_estimation.enable", kNotBuilt, "the start-up summary of `titan train` forecasts the memory", "`titan train` 启动摘要会预估内存",
     [](C c) { return c.memory_estimation.enable; }, "true"},
    {"memory_estimation.disable_fake_mode", kNoEffect, "belongs to memory_estimation.enable", "属于 memory_estimation.enable"},
    // [fault_tolerance]
    {"fault_tolerance.enable", kNotBuilt, "replica groups are not built", "未实现副本组", [](C c) { return c.fault_tolerance.enable; }, "true"},
    {"fault_tolerance.process_group", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.process_group_timeout_ms", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.replica_id", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.group_size", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.min_replica_size", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.semi_sync_method", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.sync_steps", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.should_quantize", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.fragment_sync_delay", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.fragment_update_alpha", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.num_fragments", kNoEffect, kFault, kFaultZh},
    {"fault_tolerance.module_fqns_per_model_fragment", kNoEffect, kFault, kFaultZh},
    // [experimental]
    {"experimental.custom_import", kNotBuilt, "Python modules cannot be loaded; add the feature in C++", "无法加载 Python 模块；请用 C++ 添加功能",
     [](C c) { return has(c.experimental.custom_import); }, "my.module"},
    {"experimental.custom_args_module", kNoEffect, "older name: sets job.custom_config_module", "旧名称：设置 job.custom_config_module"},
    // [validation]
    {"validation.enable", kYes},
    {"validation.dataset", kYes},
    {"validation.dataset_path", kYes},
    {"validation.local_batch_size", kYes},
    {"validation.seq_len", kYes},
    {"validation.freq", kYes},
    {"validation.steps", kYes},
    {"validation.dataloader.num_workers", kNoEffect, kReaders, kReadersZh},
    {"validation.dataloader.persistent_workers", kNoEffect, kReaders, kReadersZh},
    {"validation.dataloader.pin_memory", kNoEffect, kReaders, kReadersZh},
    {"validation.dataloader.prefetch_factor", kNoEffect, kReaders, kReadersZh},
    // [debug]
    {"debug.seed", kYes, "a value, not the layout, decides the initial weights", "初始权重只由该值决定，与并行布局无关"},
    {"debug.deterministic", kYes},
    {"debug.deterministic_warn_only", kNoEffect, "an operator without a deterministic form still ends the run",
     "没有确定性实现的算子仍会终止训练", [](C c) { return c.debug.deterministic_warn_only; }, "true"},
    {"debug.moe_force_load_balance", kNoEffect, "dense models have no experts", "稠密模型没有专家"},
    {"debug.shard_one_process", kYes, kOwn, kOwnZh},
    // titan's own sections
    {"device.name", kYes, "cuda needs libtitan_cuda.so beside the binary, npu libtitan_npu.so",
     "cuda 需要二进制旁的 libtitan_cuda.so，npu 需要 libtitan_npu.so"},
    {"device.threads", kYes, kOwn, kOwnZh},
    {"data.text_key", kYes, kOwn, kOwnZh},
    {"data.text_document", kYes, kOwn, kOwnZh},
    {"data.reset_positions", kYes, kOwn, kOwnZh},
    {"data.virtual_streams", kYes, kOwn, kOwnZh},
    {"data.prefetch", kYes, kOwn, kOwnZh},
    {"data.threads", kYes, kOwn, kOwnZh},
    {"npu.route", kYes, kOwn, kOwnZh},
    {"npu.memory_fraction", kYes, "acts on Ascend devices only", "只对昇腾设备起作用"},
    {"npu.zero_stage", kYes},
    {"npu.expandable_segments", kYes, kOwn, kOwnZh},
    {"npu.max_split_size_mb", kYes, kOwn, kOwnZh},
    {"npu.garbage_collection_threshold", kYes, kOwn, kOwnZh},
    {"npu.task_queue", kYes, kOwn, kOwnZh},
    {"npu.multi_stream_reuse", kYes, kOwn, kOwnZh},
    {"npu.cpu_affinity", kYes, kOwn, kOwnZh},
    {"npu.launch_blocking", kYes, kOwn, kOwnZh},
    {"npu.hccl_connect_timeout_seconds", kYes, kOwn, kOwnZh},
    {"npu.hccl_exec_timeout_seconds", kYes, kOwn, kOwnZh},
};
// clang-format on

}  // namespace

std::span<const Row> compatibility() { return kRows; }

}  // namespace titan::config
