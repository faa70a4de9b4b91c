#include "frontends/measure/prompt_suite.h"

#include "embedded/embedded_prompts.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

Result<SuitePrompt> read_prompt(JsonFields& fields) {
  SuitePrompt prompt;
  MOEC_TRY(fields.text("category", prompt.category));
  if (prompt.category.empty()) return fields.bad("category", "must not be empty");
  // Token ids allow a suite for models without a tokenizer. A prompt with both could contradict
  // itself.
  if (fields.has("tokens") == fields.has("text"))
    return fields.bad("category", "needs either a text or tokens next to it");
  if (fields.has("tokens")) {
    MOEC_TRY(fields.integers("tokens", prompt.tokens));
    if (prompt.tokens.empty()) return fields.bad("tokens", "must not be empty");
  } else {
    MOEC_TRY(fields.text("text", prompt.text.emplace()));
    if (prompt.text->empty()) return fields.bad("text", "must not be empty");
  }
  MOEC_TRY(fields.finish());
  return prompt;
}

Result<SuitePrompt> parse_prompt(std::string_view line, const std::string& file) {
  const JsonReport report(
      line, file,
      JsonCodes::all_as("analyze.prompts",
                        R"(write one line {"category": "code", "text": "…"} per prompt)"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return read_prompt(fields);
}

}  // namespace

Result<std::vector<SuitePrompt>> parse_prompt_suite(std::string_view text,
                                                    const std::string& file) {
  std::vector<SuitePrompt> prompts;
  for (uint32_t line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const std::string_view words = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    // Empty lines are skipped but counted, so that messages have the line number of the file.
    if (words.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto prompt = parse_prompt(words, file);
    // The parser sees a single line and always reports line 1.
    if (!prompt) {
      for (Diagnostic& error : prompt.error()) error.place.line = line;
      return fail(std::move(prompt.error()));
    }
    prompt->place = {.file = file, .line = line};
    prompts.push_back(*std::move(prompt));
  }
  if (prompts.empty())
    return fail("analyze.prompts", "the suite has no prompt",
                R"(write one line {"category": "code", "text": "…"} per prompt)", {.file = file});
  return prompts;
}

std::string_view default_suite_text() { return embedded_prompts.front().text; }

Result<std::vector<SuitePrompt>> read_prompt_suite(const std::string& name) {
  if (name == kDefaultSuite)
    return parse_prompt_suite(default_suite_text(), std::string(embedded_prompts.front().name));
  MOEC_ASSIGN(const std::string text, read_user_text(name, "analyze.text"));
  return parse_prompt_suite(text, name);
}

}  // namespace moec
