// `titan generate`: text from a checkpoint. Text goes to standard output, everything else to
// standard error.
#include <csignal>
#include <cstdio>
#include <random>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/dtype.h"
#include "cli/command.h"
#include "cli/options.h"
#include "device/registry.h"
#include "generate/generate.h"
#include "generate/prompts.h"
#include "generate/source.h"
#include "generate/tokenizer_choice.h"
#include "train/signals.h"

namespace titan::cli {
namespace {

struct GenerateCommand {
  std::string checkpoint, tokenizer, prompt_file, output;
  std::optional<std::string> prompt;
  std::string device = "auto", dtype = "auto";
  std::optional<int64_t> threads;
  std::optional<uint64_t> seed;
  generate::Options options{.max_new_tokens = 128};
  bool json = false, stream = true, echo = true, stop_at_eos = true;
};

// "--max_new_tokens" is also spelt "--max-new-tokens".
std::string both_spellings(std::string name) {
  std::string dashed = name;
  std::replace(dashed.begin() + 2, dashed.end(), '_', '-');
  return dashed == name ? name : name + "," + dashed;
}

void add_options(CLI::App& app, GenerateCommand& c) {
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(both_spellings(name), value, help);
  };
  option("--checkpoint", c.checkpoint,
         "a step folder, a run folder (its newest step) or a Hugging Face folder")
      ->required();
  auto* prompt =
      option("--prompt", c.prompt, "text to go on with; empty: from the beginning of a document");
  auto* file =
      option("--prompt_file", c.prompt_file, "one prompt a line, or .jsonl with {\"prompt\": …}");
  prompt->excludes(file);
  option("--max_new_tokens", c.options.max_new_tokens, "tokens to generate per prompt")
      ->capture_default_str();
  option("--temperature", c.options.sampling.temperature,
         "divides the logits; 0: always the likeliest token")
      ->capture_default_str();
  option("--top_k", c.options.sampling.top_k, "choose among the k likeliest tokens; 0: all")
      ->capture_default_str();
  option("--top_p", c.options.sampling.top_p,
         "of those, the likeliest that reach this probability together")
      ->capture_default_str();
  option("--seed", c.seed, "the same seed gives the same text (default: drawn, and logged)");
  option("--batch_size", c.options.batch_size, "prompts of a file that run together")
      ->capture_default_str();
  option("--tokenizer", c.tokenizer, "tokenizer file or folder (default: the model's own)");
  option("--device", c.device, "auto, cpu, cuda or npu")->capture_default_str();
  option("--threads", c.threads, "CPU threads (default: the cores this process may use)");
  option("--dtype", c.dtype, "auto (as stored), float32, bfloat16, float16 or float64")
      ->capture_default_str();
  option("--output", c.output, "a file that also gets the result, when all of it is there");
  app.add_flag("--json", c.json, "one JSON object a line: index, prompt, text, ids, finish");
  const auto flag = [&](const char* on, const char* off, bool& value, const char* help) {
    std::string names = both_spellings(on);
    for (const auto& name : text::split(both_spellings(off), ',')) names += ",!" + name;
    app.add_flag(names, value, help);
  };
  flag("--stream", "--no_stream", c.stream,
       "write the text while it is generated (default), or at the end");
  flag("--echo", "--no_echo", c.echo, "write the prompt in front of its text (default), or not");
  flag("--stop_at_eos", "--ignore_eos", c.stop_at_eos,
       "end at the end-of-text token (default), or go on behind it");
}

// nullopt when --help was asked for and printed.
std::optional<GenerateCommand> parse_generate(Arguments arguments) {
  GenerateCommand command;
  CLI::App app("Generates text from a checkpoint of titan or a Hugging Face folder.",
               "titan generate");
  add_options(app, command);
  if (!parse_options(app, arguments)) return std::nullopt;
  if (!command.prompt && command.prompt_file.empty()) {
    throw Error("[cli] titan generate: no prompt — give --prompt TEXT or --prompt_file FILE");
  }
  return command;
}

std::optional<at::ScalarType> dtype_of(const std::string& name) {
  if (name == "auto") return std::nullopt;
  if (const auto dtype = checkpoint::floating_dtype(name)) return dtype;
  throw Error("[generate] dtype '{}' is not one of auto, float32, bfloat16, float16, float64",
              name);
}

std::vector<std::string> prompts_of(const GenerateCommand& command) {
  if (command.prompt) return {text::to_valid_utf8(*command.prompt)};
  auto file = generate::read_prompts(command.prompt_file);
  log::info("{} prompts in {}", text::with_commas(static_cast<int64_t>(file.prompts.size())),
            command.prompt_file);
  if (file.blank_lines > 0) log::info("{} blank lines were left out", file.blank_lines);
  if (file.replaced_bytes > 0)
    log::warning("{} parts of the file were not UTF-8 and became U+FFFD", file.replaced_bytes);
  return file.prompts;
}

// Writes results in the order of the prompts. The first prompt that is not finished streams; what
// later ones say meanwhile waits for its turn.
class Printer {
 public:
  Printer(const GenerateCommand& command, std::span<const std::string> prompts)
      : command_(command), prompts_(prompts), waiting_(prompts.size()), finished_(prompts.size()) {}

  void begin() {
    if (streams()) put(head(0));
  }

  void text(size_t row, std::string_view piece) {
    if (streams() && row == current_) {
      put(piece);
    } else {
      waiting_[row] += piece;
    }
  }

  void finished(size_t row, const generate::Result& result) {
    if (command_.json) waiting_[row] = json_line(row, result);
    finished_[row] = true;
    while (current_ < finished_.size() && finished_[current_]) next();
  }

  // A row that was never begun has written its prompt only.
  void end() {
    if (streams() && current_ < finished_.size()) put("\n");
    if (!command_.output.empty()) files::write_atomically(command_.output, written_);
  }

 private:
  bool streams() const { return command_.stream && !command_.json; }

  std::string head(size_t row) const {
    return (row > 0 ? "---\n" : "") + (command_.echo ? prompts_[row] : std::string());
  }

  std::string json_line(size_t row, const generate::Result& result) const {
    const nlohmann::ordered_json line = {{"index", row},
                                         {"prompt", prompts_[row]},
                                         {"text", result.text},
                                         {"ids", result.ids},
                                         {"finish", generate::to_text(result.finish)}};
    return line.dump() + "\n";
  }

  void next() {
    if (command_.json) {
      put(waiting_[current_]);
    } else if (streams()) {
      put("\n");
    } else {
      put(head(current_) + waiting_[current_] + "\n");
    }
    waiting_[current_].clear();
    if (++current_ < finished_.size() && streams()) put(head(current_) + waiting_[current_]);
  }

  void put(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    if (!command_.output.empty()) written_ += text;
  }

  const GenerateCommand& command_;
  std::span<const std::string> prompts_;
  std::vector<std::string> waiting_;
  std::vector<bool> finished_;
  std::string written_;  // for --output
  size_t current_ = 0;
};

void log_speed(const generate::Timing& timing) {
  const auto rate = [](int64_t tokens, double seconds) {
    return static_cast<double>(tokens) / std::max(seconds, 1e-9);
  };
  log::info("Prefill: {} tokens in {:.3f} s, {:.1f} tokens/s",
            text::with_commas(timing.prompt_tokens), timing.prefill_s,
            rate(timing.prompt_tokens, timing.prefill_s));
  log::info("Decode: {} tokens in {:.3f} s, {:.1f} tokens/s", text::with_commas(timing.step_tokens),
            timing.step_s, rate(timing.step_tokens, timing.step_s));
}

std::vector<int32_t> end_ids_of(const GenerateCommand& command, const data::Tokenizer& tokenizer,
                                const generate::LoadedModel& loaded) {
  if (!command.stop_at_eos) return {};
  std::vector<int32_t> ids = loaded.end_ids;
  if (const auto eos = tokenizer.eos_id()) ids.push_back(*eos);
  if (ids.empty()) log::warning("the tokenizer names no EOS: the text ends at max_new_tokens only");
  return ids;
}

uint64_t seed_of(const GenerateCommand& command) {
  if (command.seed) return *command.seed;
  const uint64_t seed = std::random_device{}();
  if (command.options.sampling.temperature > 0)
    log::info("Seed {} was drawn; --seed {} repeats this text", seed, seed);
  return seed;
}

void check_cache_fits(int64_t needed, int64_t free_bytes) {
  if (needed <= free_bytes) return;
  throw EnvironmentError(
      "[memory] keys and values of this generation take {}, {} are free on the device — lower "
      "--max_new_tokens or --batch_size",
      text::bytes(needed), text::bytes(free_bytes));
}

int generate_text(GenerateCommand command) {
  generate::check(command.options.sampling);
  const auto dtype = dtype_of(command.dtype);
  const auto source = generate::find_source(command.checkpoint);
  const auto prompts = prompts_of(command);
  // The device module must be loaded before anything else touches libtorch's devices.
  const auto backend = device::open_backend({.name = command.device, .threads = command.threads});

  const Stopwatch watch;
  const auto loaded =
      generate::load_model(source, dtype, backend->device(), backend->free_memory());
  const auto& args = loaded.model->args();
  log::info("Model: {} {}, {} parameters in {}, from {} ({:.2f} s)", args.family, args.flavor,
            text::with_commas(models::count_parameters(args).total),
            checkpoint::dtype_name(loaded.dtype), loaded.description, watch.seconds());
  const auto choice = generate::choose_tokenizer(command.tokenizer, source, loaded.state);
  const auto tokenizer = data::load_tokenizer(choice.path);
  log::info("Tokenizer: {} ({})", choice.path.string(), choice.reason);
  const auto doubt = generate::check_tokenizer(*tokenizer, choice, args.vocab_size, loaded.state);
  if (!doubt.empty()) log::warning("{}", doubt);

  std::vector<std::vector<int32_t>> ids;
  for (const auto& prompt : prompts) ids.push_back(generate::encode_prompt(*tokenizer, prompt));
  command.options.end_ids = end_ids_of(command, *tokenizer, loaded);
  command.options.sampling.seed = seed_of(command);
  const auto warning = generate::check(ids, args.max_seq_len, command.options);
  if (!warning.empty()) log::warning("{}", warning);
  check_cache_fits(generate::cache_bytes(ids, args, command.options, loaded.dtype),
                   backend->free_memory());

  const train::StopSignals signals;
  command.options.stop = [&] { return signals.received() != 0; };
  generate::Decoder decoder(*loaded.model, loaded.dtype, backend->device());
  Printer printer(command, prompts);
  printer.begin();
  const auto timing = generate::generate(
      decoder, *tokenizer, ids, command.options,
      {.on_text = [&](size_t row, std::string_view piece) { printer.text(row, piece); },
       .on_finished = [&](size_t row,
                          const generate::Result& result) { printer.finished(row, result); }});
  printer.end();
  log_speed(timing);
  return signals.received() ? 128 + signals.received() : 0;
}

}  // namespace

int run_generate(Arguments arguments) {
  const auto command = parse_generate(arguments);
  if (!command) return 0;
  log::configure({.color = log::wants_color(2), .to_stderr = true});
  return generate_text(*command);
}

}  // namespace titan::cli
