// `titan tokenizer train|encode|decode|info|bench`.
#include <fmt/ranges.h>

#include <charconv>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/options.h"
#include "data/json_reader.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/trainer.h"

namespace titan::cli {
namespace {

struct TrainOptions {
  data::TrainRequest request;
  std::string output;
};

void train(const TrainOptions& options) {
  const auto report = data::train_tokenizer(options.request, options.output);
  std::printf("tokenizer: %s tokens from %s of text (%s pieces, %s distinct), written to %s\n",
              text::with_commas(report.vocab_size).c_str(), text::bytes(report.bytes).c_str(),
              text::with_commas(report.pieces).c_str(),
              text::with_commas(report.distinct_pieces).c_str(), options.output.c_str());
  if (report.replaced > 0) {
    std::printf("tokenizer: %s parts of the text were not UTF-8 and became U+FFFD\n",
                text::with_commas(report.replaced).c_str());
  }
  if (report.vocab_size < options.request.vocab_size) {
    std::printf(
        "tokenizer: no more pair occurs twice, so the vocabulary has %s tokens instead of %s\n",
        text::with_commas(report.vocab_size).c_str(),
        text::with_commas(options.request.vocab_size).c_str());
  }
}

struct EncodeOptions {
  std::string tokenizer, file, text_key = "text";
  bool jsonl = false, document = false;
};

// The text of one JSON line. Ill-formed UTF-8 and lone surrogate escapes become U+FFFD.
class JsonLines {
 public:
  explicit JsonLines(std::string key) : key_(std::move(key)) {}

  std::string_view text_of(std::string_view line, int64_t number) {
    if (!text::is_valid_utf8(line)) {
      repaired_ = text::to_valid_utf8(line);
      line = repaired_;
    }
    if (const auto problem = json_.parse(line)) {
      throw Error("[tokenizer] line {}, column {}: not valid JSON: {}", number, problem->offset + 1,
                  problem->what);
    }
    using Type = data::JsonReader::Type;
    const auto text = json_.node(0).type == Type::kObject ? json_.member(0, key_) : std::nullopt;
    if (!text || json_.node(*text).type != Type::kString) {
      throw Error("[tokenizer] line {}: an object with a string \"{}\" is needed", number, key_);
    }
    return json_.node(*text).text;
  }

 private:
  std::string key_, repaired_;
  data::JsonReader json_;
};

void append_ids(std::span<const int32_t> ids, std::string& out) {
  char digits[16];
  out.push_back('[');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(digits, std::to_chars(digits, digits + sizeof digits, ids[i]).ptr);
  }
  out.append("]\n");
}

// Reads a file, or standard input when the name is empty or "-", line by line.
template <class F>
void for_each_line(const std::string& file, F use) {
  std::ifstream opened;
  const bool from_stdin = file.empty() || file == "-";
  if (!from_stdin) {
    opened.open(file, std::ios::binary);
    if (!opened) throw Error("[tokenizer] cannot read {}", file);
  }
  std::istream& stream = from_stdin ? std::cin : opened;
  std::string line;
  for (int64_t number = 1; std::getline(stream, line); ++number)
    use(std::string_view(line), number);
}

std::string read_all(const std::string& file) {
  if (!file.empty() && file != "-") return files::read(file);
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

void encode(const EncodeOptions& options) {
  const auto tokenizer = data::load_tokenizer(options.tokenizer);
  const auto prefix = options.document ? tokenizer->document_prefix() : std::vector<int32_t>();
  const auto suffix = options.document ? tokenizer->document_suffix() : std::vector<int32_t>();
  std::vector<int32_t> ids;
  std::string out;
  const auto put = [&](std::string_view text) {
    ids = prefix;
    tokenizer->encode(text, ids);
    ids.insert(ids.end(), suffix.begin(), suffix.end());
    append_ids(ids, out);
    if (out.size() < (1 << 16)) return;
    std::fwrite(out.data(), 1, out.size(), stdout);
    out.clear();
  };
  if (options.jsonl) {
    JsonLines lines(options.text_key);
    for_each_line(options.file, [&](std::string_view line, int64_t number) {
      if (!text::trim(line).empty()) put(lines.text_of(line, number));
    });
  } else {
    put(read_all(options.file));
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
}

// CPU seconds of one thread for encoding all texts of a file, without loading and reading; for
// bench/tokenizer.py.
void bench(const EncodeOptions& options) {
  const auto tokenizer = data::load_tokenizer(options.tokenizer);
  JsonLines lines(options.text_key);
  std::vector<std::string> texts;
  for_each_line(options.file, [&](std::string_view line, int64_t number) {
    if (!text::trim(line).empty()) texts.emplace_back(lines.text_of(line, number));
  });
  int64_t bytes = 0, tokens = 0;
  std::vector<int32_t> ids;
  const std::clock_t begin = std::clock();
  for (const std::string& text : texts) {
    ids.clear();
    tokenizer->encode(text, ids);
    bytes += static_cast<int64_t>(text.size());
    tokens += static_cast<int64_t>(ids.size());
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("{\"texts\": %zu, \"bytes\": %lld, \"tokens\": %lld, \"cpu_s\": %.6f}\n",
              texts.size(), static_cast<long long>(bytes), static_cast<long long>(tokens), seconds);
}

struct DecodeOptions {
  std::string tokenizer, file;
  bool jsonl = false;
};

void decode(const DecodeOptions& options) {
  const auto tokenizer = data::load_tokenizer(options.tokenizer);
  for_each_line(options.file, [&](std::string_view line, int64_t number) {
    std::vector<int32_t> ids;
    for (const char* p = line.data(); p < line.data() + line.size();) {
      int32_t id = 0;
      if (*p == '[' || *p == ']' || *p == ',' || *p == ' ' || *p == '\r' || *p == '\t') {
        ++p;
        continue;
      }
      const auto [end, error] = std::from_chars(p, line.data() + line.size(), id);
      if (error != std::errc()) {
        throw Error(
            "[tokenizer] line {}, column {}: no token id — lines of ids or of JSON arrays of ids "
            "are needed",
            number, p - line.data() + 1);
      }
      ids.push_back(id);
      p = end;
    }
    const std::string text = tokenizer->decode(ids);
    const std::string shown = options.jsonl ? nlohmann::json{{"text", text}}.dump() : text;
    std::printf("%.*s\n", static_cast<int>(shown.size()), shown.data());
  });
}

std::string described(const data::Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? fmt::format("{} ({})", *id, tokenizer.token_bytes(*id)) : "none named by the files";
}

std::string listed(std::span<const int32_t> ids) {
  return ids.empty() ? "nothing" : fmt::format("{}", fmt::join(ids, " "));
}

void info(const std::string& path) {
  const auto tokenizer = data::load_tokenizer(path);
  std::printf("tokenizer   %s\n", path.c_str());
  for (const auto& line : tokenizer->description()) std::printf("            %s\n", line.c_str());
  std::printf("vocabulary  %s (largest id + 1)\n",
              text::with_commas(tokenizer->vocab_size()).c_str());
  std::printf("BOS         %s\n", described(*tokenizer, tokenizer->bos_id()).c_str());
  std::printf("EOS         %s\n", described(*tokenizer, tokenizer->eos_id()).c_str());
  std::printf("document    %s, ids of the text, %s\n", listed(tokenizer->document_prefix()).c_str(),
              listed(tokenizer->document_suffix()).c_str());
}

void add_train(CLI::App& app, TrainOptions& options) {
  auto* command = app.add_subcommand("train", "train a byte-level BPE vocabulary on plain text");
  command
      ->add_option("--vocab-size,--vocab_size", options.request.vocab_size,
                   "tokens, special ones included")
      ->required();
  command
      ->add_option("--output", options.output,
                   "folder for tokenizer.json and tokenizer_config.json")
      ->required();
  command->add_option("--max-bytes,--max_bytes", options.request.max_bytes,
                      "of text to read (0: all)");
  command->add_option("--threads", options.request.threads, "0: one per core");
  command->add_option("FILE", options.request.files, "plain text, UTF-8")->required();
  command->callback([&] { train(options); });
}

void add_encode(CLI::App& app, EncodeOptions& options) {
  auto* command = app.add_subcommand("encode", "print the ids of a text as a JSON array");
  command
      ->add_option("--tokenizer", options.tokenizer,
                   "tokenizer file or folder of Hugging Face assets")
      ->required();
  command->add_flag("--jsonl", options.jsonl, "the input is JSON lines; print one array per line");
  command->add_option("--text-key,--text_key", options.text_key, "key of the text in a JSON line")
      ->capture_default_str();
  command->add_flag("--document", options.document,
                    "with what training puts around a document (BOS, EOS)");
  command->add_option("FILE", options.file, "input (default: standard input)");
  command->callback([&] { encode(options); });
}

void add_bench(CLI::App& app, EncodeOptions& options) {
  auto* command =
      app.add_subcommand("bench", "print the CPU time that one thread needs to encode JSON lines");
  command
      ->add_option("--tokenizer", options.tokenizer,
                   "tokenizer file or folder of Hugging Face assets")
      ->required();
  command->add_option("--text-key,--text_key", options.text_key, "key of the text in a JSON line")
      ->capture_default_str();
  command->add_option("FILE", options.file, "JSON lines (default: standard input)");
  command->callback([&] { bench(options); });
}

void add_decode(CLI::App& app, DecodeOptions& options) {
  auto* command = app.add_subcommand("decode", "print the text of ids, one text per line of ids");
  command
      ->add_option("--tokenizer", options.tokenizer,
                   "tokenizer file or folder of Hugging Face assets")
      ->required();
  command->add_flag("--jsonl", options.jsonl, "print {\"text\": …} lines");
  command->add_option("FILE", options.file,
                      "lines of ids or of JSON arrays of ids (default: standard input)");
  command->callback([&] { decode(options); });
}

}  // namespace

int run_tokenizer(Arguments arguments) {
  CLI::App app("Trains, tries and inspects tokenizers.", "titan tokenizer");
  app.require_subcommand(1);
  TrainOptions train_options;
  EncodeOptions encode_options, bench_options;
  DecodeOptions decode_options;
  std::string info_path;
  add_train(app, train_options);
  add_encode(app, encode_options);
  add_decode(app, decode_options);
  add_bench(app, bench_options);
  auto* info_command =
      app.add_subcommand("info", "print what a tokenizer is, its size, BOS and EOS");
  info_command->add_option("PATH", info_path, "tokenizer file or folder of Hugging Face assets")
      ->required();
  info_command->callback([&] { info(info_path); });

  if (!parse_options(app, arguments)) return 0;
  return 0;
}

}  // namespace titan::cli
