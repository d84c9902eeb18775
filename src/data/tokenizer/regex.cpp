#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/regex.h"

#include <pcre2.h>

#include <mutex>
#include <vector>

#include "base/error.h"

namespace titan::data {
namespace {

constexpr size_t kJitStackBytes = 64 << 20;

std::string message_of(int code) {
  unsigned char buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

// What one scan needs beside the compiled pattern.
struct Regex::Scan::State {
  explicit State(const pcre2_code* code)
      : match(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr)) {
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  pcre2_match_data* match;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

struct Regex::Compiled {
  std::string pattern;
  pcre2_code* code = nullptr;
  std::mutex mutex;
  std::vector<std::unique_ptr<Scan::State>> free;  // states that no scan uses at the moment
  ~Compiled() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, RegexDialect dialect)
    : compiled_(std::make_unique<Compiled>()) {
  compiled_->pattern = pattern;
  const std::string rewritten = rewrite_regex(pattern, dialect);
  int error = 0;
  size_t place = 0;
  // NO_UTF_CHECK: the texts have been checked. NEVER_BACKSLASH_C: it would break characters apart.
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C;
  auto* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                                  options, &error, &place, context);
  pcre2_compile_context_free(context);
  if (!compiled_->code)
    throw Error("[tokenizer] the regex {} does not compile: {}", pattern, message_of(error));
  pcre2_jit_compile(compiled_->code,
                    PCRE2_JIT_COMPLETE);  // without JIT support the interpreter does the same
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

Regex::Scan::Scan(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {
  Compiled& compiled = *regex_.compiled_;
  {
    const std::lock_guard lock(compiled.mutex);
    if (!compiled.free.empty()) {
      state_ = std::move(compiled.free.back());
      compiled.free.pop_back();
    }
  }
  if (!state_) state_ = std::make_unique<State>(compiled.code);
}

Regex::Scan::~Scan() {
  const std::lock_guard lock(regex_.compiled_->mutex);
  regex_.compiled_->free.push_back(std::move(state_));
}

std::optional<Regex::Match> Regex::Scan::find(size_t from) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  const auto match = [&](uint32_t options) {
    return pcre2_match(regex_.compiled_->code, subject, text_.size(), from,
                       PCRE2_NO_UTF_CHECK | options, state_->match, state_->context);
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw Error("[tokenizer] the regex {} failed at byte {} of a text of {} bytes: {}",
                regex_.compiled_->pattern, from, text_.size(), message_of(result));
  }
  const size_t* bounds = pcre2_get_ovector_pointer(state_->match);
  return Match{bounds[0], bounds[1]};
}

}  // namespace titan::data
