#include "backends/tokenizer/pattern.h"

#include <fmt/format.h>

#include "backends/tokenizer/regex_syntax.h"
#include "backends/tokenizer/unicode.h"
#include "ir/base/json.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace moec {
namespace {

// As in Ruby, ^ and $ match at every newline, and a dot matches anything except a newline. \C is
// forbidden, because it matches single bytes and would cut characters apart.
constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
// A match that needs more stack fails in pcre2_match(), and find() returns that error.
constexpr size_t kMaxStack = 64u << 20;  // maximum bytes of a backtracking stack

}  // namespace

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
template <class T>
using Owner = std::unique_ptr<T, FreePcre2>;

namespace {

std::string message_of(int error) {
  std::string text(256, '\0');
  const int length =
      pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text;
}

// Only a line feed is a newline, as in Oniguruma; PCRE2's default depends on how it was built.
Owner<pcre2_code> compile(std::string_view pattern, int& error) {
  const Owner<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  PCRE2_SIZE offset = 0;
  return Owner<pcre2_code>(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                         pattern.size(), kOptions, &error, &offset, context.get()));
}

// The known scripts depend on PCRE2's version, so the check compiles a pattern with `name`.
bool is_script(std::string_view name) {
  int error = 0;
  return compile(fmt::format("\\p{{sc:{}}}", name), error) != nullptr;
}

void add(std::vector<TextRange>& ranges, size_t begin, size_t end, bool matches) {
  if (begin != end) ranges.push_back({begin, end, matches});
}

}  // namespace

// The match data and the stack are scratch memory of find(). Copies of a pattern share them, so
// find() is not thread-safe. `code` is declared before them, so it is destroyed after them.
struct Pattern::Code {
  std::string text;  // the pattern; matched literally if `code` is null
  Owner<pcre2_code> code;
  Owner<pcre2_match_data> data;
  Owner<pcre2_match_context> context;
  Owner<pcre2_jit_stack> stack;
};

Result<Pattern> Pattern::literal(std::string_view text) {
  if (text.empty()) return fail("tokenizer.pattern", "empty pattern", "fix tokenizer.json");
  auto code = std::make_shared<Code>();
  code->text = text;
  return Pattern(std::move(code));
}

Result<Pattern> Pattern::regex(std::string_view pattern) {
  MOEC_ASSIGN(const std::string translated, pcre2_pattern(pattern, is_script));
  auto code = std::make_shared<Code>();
  code->text = pattern;
  int error = 0;
  code->code = compile(translated, error);
  if (!code->code)
    return fail(
        "tokenizer.pattern",
        fmt::format("invalid regular expression \"{}\": {}", printable(pattern), message_of(error)),
        "fix tokenizer.json");
  pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);  // falls back to the interpreter
  code->data.reset(pcre2_match_data_create_from_pattern(code->code.get(), nullptr));
  code->context.reset(pcre2_match_context_create(nullptr));
  code->stack.reset(pcre2_jit_stack_create(32u << 10, kMaxStack, nullptr));
  pcre2_jit_stack_assign(code->context.get(), nullptr, code->stack.get());
  return Pattern(std::move(code));
}

// `wanted` must not be empty; literal() ensures that. Matches do not overlap.
static void find_text(const std::string& wanted, std::string_view text,
                      std::vector<TextRange>& ranges) {
  size_t last = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, last)) {
    add(ranges, last, at, false);
    last = at + wanted.size();
    add(ranges, at, last, true);
  }
  add(ranges, last, text.size(), false);
}

Status Pattern::find(std::string_view text, std::vector<TextRange>& ranges) const {
  if (!code_->code) {
    find_text(code_->text, text, ranges);
    return {};
  }
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(code_->data.get());
  size_t last = 0, from = 0;
  while (from < text.size()) {
    // The caller has checked the UTF-8, so PCRE2 need not scan the rest of the text for each match.
    const int result =
        pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                    PCRE2_NO_UTF_CHECK, code_->data.get(), code_->context.get());
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      return fail("tokenizer.pattern_limit",
                  fmt::format("\"{}\" exceeds a PCRE2 limit in {} bytes of text: {}",
                              printable(code_->text), text.size(), message_of(result)),
                  "split the text");
    add(ranges, last, found[0], false);
    add(ranges, found[0], found[1], true);
    last = found[1];
    // An empty match only adds a boundary; advance by one character to terminate.
    from = last > found[0] || last == text.size() ? last : last + utf8_length(text[last]);
  }
  add(ranges, last, text.size(), false);
  return {};
}

}  // namespace moec
