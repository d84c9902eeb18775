// `titan data info|show|samples|bench`: look into training data without training.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/options.h"
#include "data/documents.h"
#include "data/loader.h"
#include "data/tokenizer/tokenizer.h"

namespace titan::cli {
namespace {

struct DataCommand {
  std::vector<std::string> paths;
  std::string text_key = "text", text_document = "line", split = "train", tokenizer;
  bool documents = false;
  int64_t limit = -1, seq_len = 2048, batch_size = 8, threads = 0, passes = 1;
};

data::DatasetRequest request_of(const DataCommand& command) {
  data::DatasetRequest request;
  request.name = "local";
  request.path = text::join(command.paths, ",");
  request.split = command.split == "train" ? data::Split::kTrain : data::Split::kValidation;
  request.text_key = command.text_key;
  request.text_document = data::parse_text_document(command.text_document);
  return request;
}

const char* format_name(const data::DataFile& file) {
  switch (file.format) {
    case data::Format::kText:
      return "text";
    case data::Format::kJsonLines:
      return "JSON lines";
    case data::Format::kParquet:
      return "Parquet";
    case data::Format::kArrowFile:
      return "Arrow file";
    case data::Format::kArrowStream:
      return "Arrow stream";
  }
  return "";
}

std::string shortened(std::string_view text) {
  constexpr size_t kShown = 300;
  if (text.size() <= kShown) return std::string(text);
  return fmt::format("{}… ({} bytes)",
                     text.substr(0, text::complete_utf8_prefix(text.substr(0, kShown))),
                     text.size());
}

void print_line(const std::string& line) { std::printf("%s\n", line.c_str()); }

void print_files(const data::Dataset& dataset) {
  constexpr size_t kShown = 10;
  int64_t bytes = 0;
  for (const auto& file : dataset.files) bytes += file.bytes;
  print_line(fmt::format("files: {}, {}{}", dataset.files.size(), text::bytes(bytes),
                         dataset.note.empty() ? "" : fmt::format(" ({})", dataset.note)));
  for (size_t i = 0; i < std::min(kShown, dataset.files.size()); ++i) {
    const auto& file = dataset.files[i];
    const char* packed = file.compression == data::Compression::kGzip   ? ", gzip"
                         : file.compression == data::Compression::kZstd ? ", zstd"
                                                                        : "";
    print_line(fmt::format("  {} ({}{}, {})", file.name, format_name(file), packed,
                           text::bytes(file.bytes)));
  }
  if (dataset.files.size() > kShown)
    print_line(fmt::format("  … {} more", dataset.files.size() - kShown));
}

void data_info(const DataCommand& command) {
  const auto tokenizer =
      command.tokenizer.empty() ? nullptr : data::load_tokenizer(command.tokenizer);
  data::DocumentReader reader(data::find_dataset(request_of(command)));
  print_files(reader.dataset());
  std::string first;
  int64_t longest = 0, tokens = 0;
  std::vector<int32_t> ids;
  while (const auto document = reader.next()) {
    if (first.empty())
      first = fmt::format("{}:{}: {}", document->file, document->line, shortened(document->text));
    longest = std::max(longest, static_cast<int64_t>(document->text.size()));
    if (!tokenizer) continue;
    ids.clear();
    tokenizer->encode(document->text, ids);
    tokens += static_cast<int64_t>(ids.size()) + tokenizer->bos_id().has_value() +
              tokenizer->eos_id().has_value();
  }
  const auto& report = reader.report();
  print_line(fmt::format("records: {}", text::with_commas(reader.records())));
  print_line(fmt::format("documents: {}, {} of text, mean {}, longest {}",
                         text::with_commas(report.documents), text::bytes(report.text_bytes),
                         text::bytes(report.text_bytes / std::max<int64_t>(1, report.documents)),
                         text::bytes(longest)));
  if (tokenizer) {
    print_line(fmt::format("tokens: {} with BOS and EOS, {:.2f} bytes per token",
                           text::with_commas(tokens),
                           static_cast<double>(report.text_bytes) /
                               static_cast<double>(std::max<int64_t>(1, tokens))));
  }
  bool any = false;
  for (int i = 0; i < data::kNumIrregularities; ++i) {
    const auto what = static_cast<data::Irregularity>(i);
    if (report.count(what) == 0) continue;
    if (!any) print_line("irregularities:");
    any = true;
    print_line(fmt::format("  {}: {} ({}), first at {}", data::name(what),
                           text::with_commas(report.count(what)), data::rule(what),
                           report.first[static_cast<size_t>(i)]));
  }
  if (!any) print_line("irregularities: none");
  if (!first.empty()) print_line("first document: " + first);
}

void data_show(const DataCommand& command) {
  data::DocumentReader reader(data::find_dataset(request_of(command)));
  for (int64_t i = 0; command.limit < 0 || i < command.limit; ++i) {
    const auto document = reader.next();
    if (!document) return;
    print_line(nlohmann::json(
                   {{"file", document->file}, {"line", document->line}, {"text", document->text}})
                   .dump());
  }
}

data::LoaderOptions finite_loader(const DataCommand& command) {
  data::LoaderOptions options;
  options.dataset = request_of(command);
  options.seq_len = command.seq_len;
  options.local_batch_size = options.global_batch_size = command.batch_size;
  options.num_epochs = command.passes;
  options.threads = std::max<int64_t>(1, command.threads);
  options.prefetch = command.threads == 0 ? 0 : 2;
  return options;
}

void data_samples(const DataCommand& command) {
  const auto tokenizer = data::load_tokenizer(command.tokenizer);
  data::Loader loader(finite_loader(command), *tokenizer);
  int64_t printed = 0;
  while (const auto batch = loader.next()) {
    for (int64_t row = 0; row < batch->num_samples; ++row) {
      if (command.limit >= 0 && printed >= command.limit) return;
      const auto begin = static_cast<size_t>(row * batch->seq_len);
      std::vector<int32_t> ids;
      for (size_t i = begin; i < begin + static_cast<size_t>(batch->seq_len); ++i) {
        if (batch->labels[i] == data::kIgnoredLabel) break;
        if (ids.empty()) ids.push_back(batch->inputs[i]);
        ids.push_back(batch->labels[i]);
      }
      if (ids.empty()) continue;
      if (command.documents) {
        const auto first = batch->documents.begin() + static_cast<std::ptrdiff_t>(begin);
        const std::vector<int32_t> documents(first,
                                             first + static_cast<std::ptrdiff_t>(ids.size()) - 1);
        print_line(nlohmann::ordered_json({{"ids", ids}, {"documents", documents}}).dump());
      } else {
        print_line(nlohmann::json(ids).dump());
      }
      ++printed;
    }
  }
}

void data_bench(const DataCommand& command) {
  const auto tokenizer = data::load_tokenizer(command.tokenizer);
  data::Loader loader(finite_loader(command), *tokenizer);
  const Stopwatch watch;
  const std::clock_t cpu_begin = std::clock();
  int64_t batches = 0;
  while (loader.next()) ++batches;
  const double seconds = watch.seconds();
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  const auto& report = loader.report();
  const nlohmann::json result = {
      {"documents", report.documents},
      {"text_bytes", report.text_bytes},
      {"tokens", report.tokens},
      {"samples", report.samples},
      {"batches", batches},
      {"seconds", seconds},
      {"cpu_seconds", cpu_seconds},
      {"threads", command.threads},
      {"mb_per_s", static_cast<double>(report.text_bytes) / 1e6 / seconds},
      {"tokens_per_s", static_cast<double>(report.tokens) / seconds}};
  print_line(result.dump());
}

CLI::App* add_data_command(CLI::App& app, const char* name, const char* help, DataCommand& command,
                           void (*run)(const DataCommand&)) {
  auto* sub = app.add_subcommand(name, help);
  sub->add_option("PATH", command.paths,
                  "files, folders, globs (text, JSON lines, Parquet, Arrow, save_to_disk)")
      ->required();
  sub->add_option("--text-key,--text_key", command.text_key, "field or column that holds the text")
      ->capture_default_str();
  sub->add_option("--text-document,--text_document", command.text_document,
                  "a document of a plain text file: line, paragraph or file")
      ->capture_default_str();
  sub->add_option("--split", command.split, "which split of a folder that has several")
      ->check(CLI::IsMember({"train", "validation"}))
      ->capture_default_str();
  sub->callback([&command, run] { run(command); });
  return sub;
}

void add_loader_options(CLI::App& sub, DataCommand& command) {
  sub.add_option("--tokenizer", command.tokenizer, "tokenizer file or folder")->required();
  sub.add_option("--seq-len,--seq_len", command.seq_len, "tokens per sequence")
      ->capture_default_str();
  sub.add_option("--batch-size,--batch_size", command.batch_size, "samples of a step")
      ->capture_default_str();
}

}  // namespace

int run_data(Arguments arguments) {
  CLI::App app("Looks into training data, the way training reads it.", "titan data");
  app.require_subcommand(1);
  DataCommand command;
  log::Options log_options;
  log_options.to_stderr = true;  // standard output is data
  log::configure(log_options);
  auto* info = add_data_command(
      app, "info", "count files, documents and irregularities, print the first document", command,
      data_info);
  info->add_option("--tokenizer", command.tokenizer, "count tokens with it, too");
  auto* show = add_data_command(app, "show", "print documents as JSON lines with file and line",
                                command, data_show);
  show->add_option("--limit", command.limit, "how many (default: all)");
  auto* samples = add_data_command(app, "samples",
                                   "print packed samples as arrays of seq_len + 1 ids, one a line",
                                   command, data_samples);
  samples->add_option("--limit", command.limit, "how many (default: one pass over the data)");
  samples->add_flag("--documents", command.documents,
                    "print objects: the ids and, of each input, the number of its document");
  add_loader_options(*samples, command);
  auto* bench =
      add_data_command(app, "bench", "read, tokenise and pack everything; print the speed as JSON",
                       command, data_bench);
  bench->add_option("--threads", command.threads, "background threads; 0: all work in one thread")
      ->capture_default_str();
  bench->add_option("--passes", command.passes, "passes over the data")->capture_default_str();
  add_loader_options(*bench, command);

  if (!parse_options(app, arguments)) return 0;
  return 0;
}

}  // namespace titan::cli
