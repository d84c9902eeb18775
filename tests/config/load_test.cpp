#include "config/load.h"

#include "base/files.h"
#include "config/config_fixture.h"
#include "config/help.h"

namespace titan::config {
namespace {
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

using Load = ConfigFiles;
using BadFile = ConfigFiles;
using Rules = ConfigFiles;
using Aliases = ConfigFiles;

TEST_F(Load, CommandLineBeatsFileBeatsDefault) {
  const auto loaded =
      load_toml("[training]\nsteps = 20\nseq_len = 64\n", {"--training.steps", "7"});
  EXPECT_EQ(loaded.config.training.steps, 7);
  EXPECT_EQ(loaded.config.training.seq_len, 64);
  EXPECT_EQ(loaded.config.training.local_batch_size, 8);
  EXPECT_EQ(loaded.origin("training.steps"), "command line (--training.steps)");
  EXPECT_THAT(loaded.origin("training.seq_len"), HasSubstr("a.toml:3"));
  EXPECT_EQ(loaded.origin("training.local_batch_size"), "default");
  EXPECT_TRUE(loaded.given("training.steps"));
  EXPECT_FALSE(loaded.given("training.local_batch_size"));
}

TEST_F(Load, WithoutAFileTheDefaultsHold) {
  const auto loaded = load(Words{});
  EXPECT_EQ(loaded.config.training.steps, 10000);
  EXPECT_THAT(loaded.not_built, IsEmpty());
  EXPECT_THAT(loaded.warnings, IsEmpty());
}

TEST_F(Load, ProcessRanksComeFromTheEnvironmentUnlessGiven) {
  setenv("WORLD_SIZE", "4", 1);
  setenv("RANK", "2", 1);
  const auto loaded = load_toml("[comm]\nrank = 1\n");
  setenv("WORLD_SIZE", "four", 1);
  const std::string refused = refusal({});
  unsetenv("WORLD_SIZE");
  unsetenv("RANK");
  EXPECT_EQ(loaded.config.comm.world_size, 4);
  EXPECT_EQ(loaded.config.comm.rank, 1);
  EXPECT_EQ(loaded.origin("comm.world_size"), "environment (WORLD_SIZE)");
  EXPECT_THAT(refused, AllOf(HasSubstr("environment (WORLD_SIZE)"), HasSubstr("got \"four\"")));
}

TEST_F(Load, EveryTypeOfValueIsRead) {
  const auto loaded = load_toml(R"(
[model]
converters = ["quantize.linear.float8", "quantize.grouped_mm.float8"]
[model.args]
tied = true
dim = 64
[optimizer]
lr = 1
[debug]
seed = 0x10
[parallelism]
module_fqns_per_model_part = [["tok_embeddings", "layers.0"], ["norm"]]
[quantize.linear.float8]
filter_fqns = []
[training.dataloader]
num_workers = 3
prefetch_factor = 2
)");
  EXPECT_EQ(loaded.config.model.converters.size(), 2u);
  EXPECT_EQ(loaded.config.model.args.tied, true);
  EXPECT_EQ(loaded.config.optimizer.lr, 1.0);
  EXPECT_EQ(loaded.config.debug.seed, 16);
  EXPECT_EQ(loaded.config.parallelism.module_fqns_per_model_part->size(), 2u);
  EXPECT_EQ(loaded.config.data.threads, 3);
  EXPECT_EQ(loaded.config.data.prefetch, 6);
  EXPECT_EQ(loaded.origin("data.threads"), "from training.dataloader.num_workers");
}

TEST_F(Load, ByteOrderMarkAndCarriageReturnsAreNoTrouble) {
  const auto loaded = load_toml("\xEF\xBB\xBF[training]\r\nsteps = 3\r\nseq_len = 16\r\n");
  EXPECT_EQ(loaded.config.training.steps, 3);
  EXPECT_THAT(loaded.origin("training.seq_len"), HasSubstr(":3"));
}

TEST_F(Load, ShownConfigReadsBackToTheSameValues) {
  const auto first = load_toml(
      "[training]\nsteps = 20\n[model]\nconverters = [\"float8\"]\n[job]\ndescription = \"a "
      "\\\"b\\\" \\n c\"\n"
      "[parallelism]\nmodule_fqns_per_model_part = [[\"a\"], [\"b\", \"c\"]]\n",
      {"--debug.seed", "4", "--optimizer.lr=3e-5"});
  const auto second = load(Words{write("shown.toml", show(first, false))});
  JobConfig again = second.config;
  again.job.config_file = first.config.job.config_file;
  EXPECT_EQ(to_json(again), to_json(first.config));
}

TEST_F(BadFile, UnknownKeyIsNamedWithLineAndNearestKey) {
  EXPECT_THAT(toml_refusal("[training]\n\nstepz = 5\n"),
              AllOf(HasSubstr("a.toml:3"), HasSubstr("unknown key 'training.stepz'"),
                    HasSubstr("did you mean 'training.steps'?")));
  EXPECT_THAT(toml_refusal("[training]\nwarmup_steps = 5\n"),
              HasSubstr("did you mean 'lr_scheduler.warmup_steps'?"));
  EXPECT_THAT(toml_refusal("steps = 5\n"), HasSubstr("unknown key 'steps'"));
  EXPECT_THAT(toml_refusal("[training.steps]\nvalue = 5\n"),
              HasSubstr("unknown section 'training.steps'"));
}

TEST_F(BadFile, UnknownSectionIsNamedOnce) {
  const auto text = toml_refusal("[trainning]\nsteps = 5\nseq_len = 6\n");
  EXPECT_THAT(text, AllOf(HasSubstr("a.toml:1"), HasSubstr("unknown section 'trainning'"),
                          HasSubstr("'training'")));
  EXPECT_THAT(text, Not(HasSubstr("problems")));
  EXPECT_THAT(toml_refusal("[qwertyuiop]\n"), HasSubstr("unknown section"));
  EXPECT_THAT(toml_refusal("training = 5\n"), HasSubstr("'training' is a section, not a key"));
}

TEST_F(BadFile, AllProblemsAreReportedAtOnce) {
  const auto text =
      toml_refusal("[training]\nsteps = -1\nseq_len = \"long\"\n[optimizer]\nname = \"SGD\"\n");
  EXPECT_THAT(text, AllOf(HasSubstr("3 problems"), HasSubstr("a.toml:2: training.steps"),
                          HasSubstr("a.toml:3"),
                          HasSubstr("a.toml:5: optimizer.name expects one of Adam, AdamW")));
}

TEST_F(BadFile, WrongTypesNameTheRightOne) {
  EXPECT_THAT(toml_refusal("[training]\nsteps = 1.5\n"),
              HasSubstr("expects an integer, at least 1, but got 1.5"));
  EXPECT_THAT(toml_refusal("[checkpoint]\nenable = \"true\"\n"),
              HasSubstr("expects true or false"));
  EXPECT_THAT(toml_refusal("[model]\nconverters = \"float8\"\n"),
              HasSubstr("expects a list of texts"));
  EXPECT_THAT(toml_refusal("[model]\nconverters = [1]\n"),
              AllOf(HasSubstr("a.toml:2"), HasSubstr("list")));
  EXPECT_THAT(toml_refusal("[training]\nsteps = 2026-01-01\n"), HasSubstr("a date or a time"));
  EXPECT_THAT(toml_refusal("[lr_scheduler]\ndecay_type = \"cosin\"\n"),
              HasSubstr("did you mean \"cosine\"?"));
}

TEST_F(BadFile, NamesOfPipelineSchedulesAreTakenInAnyCase) {
  EXPECT_EQ(toml_refusal("[parallelism]\npipeline_parallel_schedule = \"interleaved1f1b\"\n"), "");
  EXPECT_THAT(toml_refusal("[parallelism]\npipeline_parallel_schedule = \"1F2B\"\n"),
              HasSubstr("did you mean \"1F1B\"?"));
  EXPECT_THAT(toml_refusal("[optimizer]\nname = \"adamw\"\n"), HasSubstr("expects one of"));
}

TEST_F(BadFile, DuplicatesAreRefused) {
  EXPECT_THAT(toml_refusal("[training]\nsteps = 1\nsteps = 2\n"),
              AllOf(HasSubstr("a.toml:3"), HasSubstr("steps")));
  EXPECT_THAT(toml_refusal("[training]\nseed = 1\n[debug]\nseed = 2\n"),
              AllOf(HasSubstr("debug.seed is already set by"), HasSubstr("keep one")));
  EXPECT_THAT(yaml_refusal("training:\n  steps: 1\n  steps: 2\n"),
              AllOf(HasSubstr("a.yaml:3"), HasSubstr("twice")));
}

TEST_F(BadFile, SyntaxErrorsGiveTheLine) {
  EXPECT_THAT(toml_refusal("[training]\nsteps = 5\nseq_len =\n"),
              AllOf(HasSubstr("a.toml:3"), HasSubstr("not TOML")));
  EXPECT_THAT(toml_refusal("[training\n"), HasSubstr("a.toml:1"));
  EXPECT_THAT(yaml_refusal("training:\n  steps: [1\nx\n"), HasSubstr("not YAML"));
  EXPECT_THAT(yaml_refusal("- a\n- b\n"), HasSubstr("not a map of sections"));
}

TEST_F(BadFile, WhatIsNoReadableFileIsSaidPlainly) {
  EXPECT_THAT(refusal({(folder_ / "none.toml").string()}),
              AllOf(HasSubstr("no file"), HasSubstr("none.toml")));
  EXPECT_THAT(refusal({folder_.string()}), HasSubstr("is a folder"));
  EXPECT_THAT(toml_refusal("[job]\ndescription = \"\xFF\"\n"),
              AllOf(HasSubstr("a.toml:2"), HasSubstr("UTF-8")));
  EXPECT_THAT(toml_refusal(std::string("\xFF\xFE[\0t\0", 6)), HasSubstr("UTF-16"));
  EXPECT_THAT(toml_refusal(std::string("a = 1\n\0", 7)),
              AllOf(HasSubstr("a.toml:2"), HasSubstr("zero byte")));
  EXPECT_EQ(toml_refusal(""), "");
  EXPECT_EQ(yaml_refusal(""), "");
}

TEST_F(BadFile, EndlessNestingIsRefusedNotFollowed) {
  std::string dotted = "a";
  std::string brackets = "a = ";
  for (int i = 0; i < 100000; ++i) {
    dotted += ".a";
    brackets += '[';
  }
  EXPECT_THAT(toml_refusal(dotted + " = 1\n"), HasSubstr("more than 500 parts"));
  EXPECT_THAT(toml_refusal("[" + dotted + "]\n"), HasSubstr("more than 500 parts"));
  EXPECT_THAT(toml_refusal(brackets), HasSubstr("a.toml:1"));
  EXPECT_THAT(yaml_refusal("a: " + brackets.substr(4)), HasSubstr("nested too deeply"));
}

TEST_F(Rules, BatchesMustDivide) {
  const std::string text =
      toml_refusal("[training]\nlocal_batch_size = 8\nglobal_batch_size = 20\n");
  EXPECT_THAT(text,
              AllOf(HasSubstr("a.toml:3"), HasSubstr("not a multiple"), HasSubstr("use 16 or 24")));
  EXPECT_EQ(toml_refusal("[training]\nlocal_batch_size = 8\nglobal_batch_size = 32\n"), "");
  EXPECT_THAT(toml_refusal("[training]\nlocal_batch_size = 8\nglobal_batch_size = 8\n"
                           "[parallelism]\ndata_parallel_replicate_degree = 2\n"),
              HasSubstr("use 16"));
  EXPECT_THAT(toml_refusal("[data]\nvirtual_streams = 12\n"), HasSubstr("use 8 or 16"));
}

TEST_F(Rules, SequenceMustSplitOnlyWhenItIsSplit) {
  EXPECT_EQ(toml_refusal("[training]\nseq_len = 2047\n"), "");
  EXPECT_THAT(
      toml_refusal("[training]\nseq_len = 2047\n[parallelism]\ntensor_parallel_degree = 4\n"),
      HasSubstr("use 2044 or 2048"));
  const std::string two =
      "[training]\nseq_len = 2046\n[parallelism]\ncontext_parallel_degree = 2\n";
  EXPECT_THAT(toml_refusal(two), HasSubstr("x 2 (headtail) — use 2044 or 2048"));
  // TOML has no word for "none".
  EXPECT_NO_THROW(load_toml(two, {"--parallelism.context_parallel_load_balancer", "None"}));
  EXPECT_THAT(
      toml_refusal(
          "[validation]\nenable = true\nseq_len = 33\n[parallelism]\ntensor_parallel_degree = 2\n"),
      HasSubstr("validation.seq_len = 33"));
}

TEST_F(Rules, CheckpointSettingsThatNeedEachOther) {
  EXPECT_THAT(toml_refusal("[checkpoint]\nlast_save_in_hf = true\nlast_save_model_only = false\n"),
              AllOf(HasSubstr("a.toml:2"), HasSubstr("needs checkpoint.last_save_model_only")));
  EXPECT_EQ(toml_refusal("[checkpoint]\nlast_save_in_hf = true\n"), "");
  EXPECT_THAT(toml_refusal("[checkpoint]\nkeep_latest_k = 1\n"),
              HasSubstr("at least 2, or 0, but got 1"));
  EXPECT_THAT(
      toml_refusal("[checkpoint]\ninitial_load_in_hf = true\ninitial_load_model_only = false\n"),
      HasSubstr("no optimizer states"));
}

TEST_F(Rules, OthersByTheirOwnNames) {
  EXPECT_THAT(toml_refusal("[activation_checkpoint]\nselective_ac_option = \"0\"\n"),
              HasSubstr("whole number above 0"));
  EXPECT_THAT(toml_refusal("[activation_checkpoint]\nselective_ac_option = \"ops\"\n"),
              HasSubstr("got \"ops\""));
  EXPECT_THAT(toml_refusal("[profiling]\nenable_profiling = true\nprofile_freq = 3\n"),
              HasSubstr("at least 4"));
  EXPECT_THAT(toml_refusal("[model]\nname = \"lama3\"\n"), HasSubstr("did you mean \"llama3\"?"));
  EXPECT_THAT(toml_refusal("[model]\nconverters = [\"quantize.linear.float9\"]\n"),
              HasSubstr("float8"));
  EXPECT_THAT(toml_refusal("[model]\nconverters = [\"float8\", \"mx\"]\n"),
              HasSubstr("mixes float8 and mx"));
  EXPECT_THAT(toml_refusal("[model.args]\nn_heads = 6\nn_kv_heads = 4\n"),
              HasSubstr("does not divide n_heads 6"));
  EXPECT_THAT(toml_refusal("[model.args]\ndim = 100\nn_heads = 3\n"), HasSubstr("use 99 or 102"));
  EXPECT_THAT(
      toml_refusal("[training]\ndtype = \"bfloat16\"\nmixed_precision_param = \"float16\"\n"),
      HasSubstr("loses range"));
}

TEST_F(Rules, DoubtfulSettingsAreWarnings) {
  EXPECT_THAT(load_toml("[training]\nsteps = 5\n").warnings,
              Contains(HasSubstr("lr_scheduler.warmup_steps = 200 is cut")));
  EXPECT_THAT(load_toml("[lr_scheduler]\ntotal_steps = 900\n[training]\nsteps = 5\n").warnings,
              IsEmpty());
}

TEST_F(Rules, SettingsWithoutEffectAreSaid) {
  EXPECT_THAT(load_toml("[training]\nnum_epochs = 2\n").warnings,
              Contains(HasSubstr("set training.steps")));
  EXPECT_THAT(load_toml("[training]\nnum_epochs = 2\nsteps = 300\n").warnings, IsEmpty());
  EXPECT_THAT(load_toml("[training]\ndtype = \"float64\"\n").warnings, IsEmpty());
  EXPECT_THAT(
      load_toml("[training]\ndtype = \"bfloat16\"\nmixed_precision_param = \"float32\"\n").warnings,
      Contains(HasSubstr("is without effect")));
  EXPECT_THAT(
      load_toml("[activation_checkpoint]\nmode = \"none\"\ncheckpoint_ratio = 0.5\n").warnings,
      Contains(HasSubstr("checkpoint_ratio is without effect")));
}

TEST_F(Aliases, KeysOfOlderReleases) {
  const auto loaded = load_toml(
      "[training]\nseed = 3\ndeterministic = true\ndebug_moe_force_load_balance = true\n"
      "[parallelism]\nenable_compiled_autograd = true\n[compile]\ncompiled_autograd_enable = true\n"
      "graph_passes = \"auto_bucketing\"\n[job]\n"
      "custom_config_module = \"torchtitan.experiments.simple_fsdp.job_config\"\n[model]\n"
      "name = \"simple_fsdp.llama3\"\nconverters = [\"float8\"]\ntokenizer_path = \"there\"\n");
  EXPECT_EQ(loaded.config.debug.seed, 3);
  EXPECT_TRUE(loaded.config.debug.deterministic);
  EXPECT_TRUE(loaded.config.debug.moe_force_load_balance);
  EXPECT_EQ(loaded.config.model.name, "llama3");
  EXPECT_EQ(loaded.config.model.hf_assets_path, "there");
  EXPECT_EQ(loaded.config.model.converters, TextList{"quantize.linear.float8"});
  EXPECT_THAT(loaded.warnings, Contains(HasSubstr("parallelism.enable_compiled_autograd")));
  EXPECT_THAT(loaded.warnings, Contains(HasSubstr("compile.compiled_autograd_enable")));
  EXPECT_THAT(loaded.origin("debug.seed"), HasSubstr("a.toml:2"));
}

TEST_F(Aliases, KeysOfUnbuiltExtensionsAreListedNotStored) {
  const auto loaded =
      load_toml("[encoder]\nt5_encoder = \"x\"\n[hf_transformers]\nmodel = \"y\"\n");
  EXPECT_THAT(loaded.not_built, Contains(HasSubstr("encoder.t5_encoder")));
  EXPECT_THAT(loaded.not_built, Contains(HasSubstr("hf_transformers.model")));
  EXPECT_THROW(require_runnable(loaded), Error);
}

TEST_F(Aliases, YamlFormMapsOnTheSameStructs) {
  const auto loaded = load_yaml(R"(
model:
  name: llama2_7b
  vocab_size: 32000
  hidden_size: 512
  num_attention_heads: 8
  num_layers: 4
  max_seq_len: 1024
training:
  batch_size: 4
  learning_rate: 3e-4
  num_epochs: 2
  warmup_steps: 10
  gradient_clip: 0.5
  weight_decay: 0.01
  dtype: bf16
distributed:
  backend: hccl
  world_size: 1
  rank: 0
  master_addr: localhost
  master_port: 29500
  fp8_enabled: false
npu:
  memory_fraction: 0.9
  checkpoint_enabled: true
  checkpoint_ratio: 0.5
  zero_stage: 2
)",
                                {"--data-path", "/data/x.txt", "--output-dir=/out"});
  const auto& config = loaded.config;
  EXPECT_EQ(config.model.name, "llama2");
  EXPECT_EQ(config.model.flavor, "7B");
  EXPECT_EQ(config.model.args.vocab_size, 32000);
  EXPECT_EQ(config.model.args.dim, 512);
  EXPECT_EQ(config.model.args.n_heads, 8);
  EXPECT_EQ(config.model.args.n_layers, 4);
  EXPECT_EQ(config.training.seq_len, 1024);
  EXPECT_EQ(config.validation.seq_len, 1024);
  EXPECT_EQ(config.training.local_batch_size, 4);
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_EQ(config.training.num_epochs, 2);
  EXPECT_EQ(config.lr_scheduler.warmup_steps, 10);
  EXPECT_EQ(config.training.max_norm, 0.5);
  EXPECT_EQ(config.optimizer.weight_decay, 0.01);
  EXPECT_EQ(config.training.mixed_precision_param, "bfloat16");
  EXPECT_EQ(config.training.dtype, "float32");
  EXPECT_EQ(config.comm.backend, "hccl");
  EXPECT_EQ(config.comm.world_size, 1);
  EXPECT_EQ(config.comm.rank, 0);
  EXPECT_EQ(config.comm.master_addr, "localhost");
  EXPECT_EQ(config.comm.master_port, 29500);
  EXPECT_EQ(config.npu.memory_fraction, 0.9);
  EXPECT_EQ(config.npu.zero_stage, 2);
  EXPECT_EQ(config.activation_checkpoint.mode, "full");
  EXPECT_EQ(config.activation_checkpoint.checkpoint_ratio, 0.5);
  EXPECT_EQ(config.training.dataset_path, "/data/x.txt");
  EXPECT_EQ(config.job.dump_folder, "/out");
  EXPECT_THAT(loaded.origin("model.args.dim"), HasSubstr("a.yaml:5"));
  EXPECT_THAT(loaded.not_built, IsEmpty());
}

TEST_F(Aliases, YamlFormSaysWhatIsWrong) {
  EXPECT_THAT(yaml_refusal("training:\n  batch_sizes: 4\n"),
              AllOf(HasSubstr("a.yaml:2"), HasSubstr("batch_sizes")));
  EXPECT_THAT(yaml_refusal("training:\n  batch_size: four\n"),
              AllOf(HasSubstr("training.local_batch_size"), HasSubstr("got \"four\"")));
  EXPECT_THAT(yaml_refusal("model:\n  name: llama9_7b\n"), HasSubstr("no model family"));
  EXPECT_THAT(yaml_refusal("training:\n  batch_size: 4\n  local_batch_size: 4\n"),
              HasSubstr("already set"));
  EXPECT_THAT(yaml_refusal("distributed:\n  world_sizes: 1\n"),
              HasSubstr("unknown key 'distributed.world_sizes'"));
  EXPECT_EQ(
      load_yaml("distributed:\n  fp8_enabled: true\n  world_size: 8\n").config.model.converters,
      TextList{"quantize.linear.float8"});
}

// The examples of the user guide, in both languages, are configs that work.
TEST_F(Load, ExamplesOfTheGuideAreLegal) {
  for (const char* page : {"docs/config.md", "docs/config.zh-CN.md"}) {
    const std::string text = files::read(std::filesystem::path(TITAN_SOURCE_DIR) / page);
    for (const std::string kind : {"toml", "yaml"}) {
      const auto begin = text.find("```" + kind + "\n");
      ASSERT_NE(begin, std::string::npos) << page;
      const auto first = begin + kind.size() + 4;
      const auto example = text.substr(first, text.find("```", first) - first);
      const auto loaded = load(Words{write("example." + kind, example)});
      EXPECT_THAT(loaded.not_built, IsEmpty()) << page;
      EXPECT_THAT(loaded.warnings, IsEmpty()) << page << " " << kind;
    }
  }
}

}  // namespace
}  // namespace titan::config
