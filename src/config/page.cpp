// docs/compatibility.md in both languages, written from the table, so that the page cannot say what
// the code does not.
#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "config/alias.h"
#include "config/compatibility.h"
#include "config/help.h"
#include "config/schema.h"

namespace titan::config {
namespace {

// Every text of the page that is not in the table, in one language.
struct PageText {
  const char* head;
  const char* counts;  // keys, supported, partly, without effect, not built
  const char* columns;
  std::array<const char*, 4> support;  // by Support
  const char* no_value;
  const char* older;
  const char* alias_columns;
  std::array<const char*, 3> effect;  // by AliasEffect
  const char* yaml;
  const char* yaml_columns;
  const char* results;
};

constexpr PageText kEnglishText = {
    .head = R"(# Compatibility with TorchTitan

<!-- Written by `titan config table`; a test keeps it equal to the program. Edit src/config/compatibility_table.cpp. -->

titan reads the TOML files and command lines of TorchTitan v0.2.0, v0.2.1 and v0.2.2. This page says of every key what
becomes of it. `titan config check FILE` lists what a file needs that is not built; `titan config explain KEY` says the
same about one key.

- **supported**: does what it says.
- **with exceptions**: supported, but for the values the note names; those are refused.
- **no effect**: accepted, and nothing changes; the note says why.
- **not built**: refused when it is turned on, until the feature exists.
)",
    .counts = "{} keys: {} supported, {} with exceptions, {} without effect, {} not built.\n",
    .columns = "| key | default | support | note |\n|---|---|---|---|\n",
    .support = {"supported", "with exceptions", "no effect", "not built"},
    .no_value = "–",
    .older = R"(
## Older names, and keys that modules of TorchTitan add

`-` and `_` are alike on the command line. A key that is set under two names in one file is an error.
)",
    .alias_columns = "| key | what becomes of it | note |\n|---|---|---|\n",
    .effect = {"means `{}`", "no effect", "not built"},
    .yaml = R"(
## The YAML form

A file that ends in .yaml or .yml has the same sections and keys; these names are understood besides:
)",
    .yaml_columns = "| YAML key | key | note |\n|---|---|---|\n",
    .results = R"(
Model names: `simple_fsdp.llama3`, `compiler_toolkit.llama3`, `autoparallel.llama3` and `llama3_ft` mean `llama3`, the
same prefixes with `deepseek_v3` mean `deepseek_v3`. Converters: `float8` means `quantize.linear.float8`, `mx` means
`quantize.linear.mx`.

## Where results differ on purpose

Where TorchTitan's layouts disagree with each other, titan computes what one process computes.

- **Initial weights** follow from the seed and the parameter's name, on any number of devices. The distributions are
  TorchTitan's, the numbers are not.
- **Compute dtype.** `training.mixed_precision_param` holds everywhere. TorchTitan drops it for tensor or pipeline
  parallelism without sharding, and uses autocast on one device.
- **Division of the loss.** The loss is summed over valid tokens and divided by their number in the whole step.
  TorchTitan v0.2.2 divides again by the replicas in DDP and not at all in pipelines, which shows in grad_norm.
- **Sample order.** Documents are dealt to streams, so that the order does not depend on the number of readers; it is
  another order than TorchTitan's.
- **Documents under `block_causal`** begin where the packing knows them to, not behind every EOS id: a text that contains
  that id stays one document.
- **`training.dtype = "bfloat16"`** keeps parameters and optimizer states in bfloat16, as there.
)"};

constexpr PageText kChineseText = {
    .head = R"(# 与 TorchTitan 的兼容性

<!-- 由 `titan config table --language zh` 生成，测试保证与程序一致。请修改 src/config/compatibility_table.cpp。 -->

titan 可直接读取 TorchTitan v0.2.0、v0.2.1、v0.2.2 的 TOML 文件和命令行。本页说明每个键的处理方式。
`titan config check FILE` 列出文件所需而尚未实现的功能；`titan config explain KEY` 说明单个键。

- **支持**：按含义生效。
- **部分支持**：除说明中列出的取值外均支持；那些取值会被拒绝。
- **无效果**：接受但不改变任何行为；说明中给出原因。
- **未实现**：启用时被拒绝，直到功能实现。
)",
    .counts = "共 {} 个键：支持 {}，部分支持 {}，无效果 {}，未实现 {}。\n",
    .columns = "| 键 | 默认值 | 状态 | 说明 |\n|---|---|---|---|\n",
    .support = {"支持", "部分支持", "无效果", "未实现"},
    .no_value = "–",
    .older = R"(
## 旧名称，以及 TorchTitan 各模块增加的键

命令行中 `-` 与 `_` 等价。同一文件中用两个名称设置同一个键是错误。
)",
    .alias_columns = "| 键 | 处理方式 | 说明 |\n|---|---|---|\n",
    .effect = {"等同于 `{}`", "无效果", "未实现"},
    .yaml = R"(
## YAML 形式

以 .yaml 或 .yml 结尾的文件使用相同的节和键；另外还识别下列名称：
)",
    .yaml_columns = "| YAML 键 | 键 | 说明 |\n|---|---|---|\n",
    .results = R"(
模型名称：`simple_fsdp.llama3`、`compiler_toolkit.llama3`、`autoparallel.llama3` 和 `llama3_ft` 等同于 `llama3`；
带相同前缀的 `deepseek_v3` 等同于 `deepseek_v3`。转换器：`float8` 等同于 `quantize.linear.float8`，
`mx` 等同于 `quantize.linear.mx`。

## 有意不同的结果

当 TorchTitan 的不同并行布局结果不一致时，titan 以单进程的结果为准。

- **初始权重**只取决于种子和参数名，与设备数量无关。分布与 TorchTitan 相同，数值不同。
- **计算精度**：`training.mixed_precision_param` 在所有路径上生效。TorchTitan 在不分片的张量或流水线并行中
  不使用它，在单设备上使用 autocast。
- **损失的除数**：损失对有效 token 求和，再除以整步的有效 token 数。TorchTitan v0.2.2 在 DDP 中又除以副本数，
  在流水线中则完全不除，表现为 grad_norm 不同。
- **样本顺序**：文档被分配到若干虚拟流，顺序与读取者数量无关，因而与 TorchTitan 的顺序不同。
- **`block_causal` 的文档**从打包时已知的位置开始，而不是从每个 EOS id 之后开始：正文中含有该 id 时仍是一篇文档。
- **`training.dtype = "bfloat16"`** 时参数与优化器状态保持 bfloat16，与 TorchTitan 相同。
)"};

std::string alias_rows(std::span<const Alias> list, const PageText& text, bool chinese) {
  std::string out;
  for (const auto& alias : list) {
    std::string effect = text.effect[static_cast<size_t>(alias.effect)];
    if (alias.to) effect = fmt::format(fmt::runtime(effect), alias.to);
    out += fmt::format("| `{}` | {} | {} |\n", alias.from, effect,
                       chinese ? alias.note_zh : alias.note);
  }
  return out;
}

std::string key_tables(const PageText& text, bool chinese) {
  JobConfig defaults;
  std::string out;
  std::string table;
  for (const auto& key : keys(defaults)) {
    const Row* row = find_row(key.path);
    TITAN_CHECK(row, "key {} has no row in the compatibility table", key.path);
    if (key.section() != table) {
      table = key.section();
      out += fmt::format("\n## [{}]\n\n{}", table, text.columns);
    }
    const Value value = get(key);
    const std::string shown =
        std::holds_alternative<None>(value) ? text.no_value : fmt::format("`{}`", to_text(value));
    out += fmt::format("| `{}` | {} | {} | {} |\n", key.name(), shown,
                       text.support[static_cast<size_t>(row->support)],
                       chinese ? row->note_zh : row->note);
  }
  return out;
}

}  // namespace

std::string compatibility_page(Language language) {
  const bool chinese = language == Language::kChinese;
  const PageText& text = chinese ? kChineseText : kEnglishText;
  std::array<int, 4> count{};
  for (const auto& row : compatibility()) ++count[static_cast<size_t>(row.support)];
  std::string yaml;
  for (const auto& alias : yaml_aliases()) {
    yaml += fmt::format("| `{}` | `{}` | {} |\n", alias.from, alias.to,
                        chinese ? alias.note_zh : alias.note);
  }
  return fmt::format("{}\n{}{}{}\n{}{}{}\n{}{}{}", text.head,
                     fmt::format(fmt::runtime(text.counts), compatibility().size(), count[0],
                                 count[1], count[2], count[3]),
                     key_tables(text, chinese), text.older, text.alias_columns,
                     alias_rows(aliases(), text, chinese), text.yaml, text.yaml_columns, yaml,
                     text.results);
}

}  // namespace titan::config
