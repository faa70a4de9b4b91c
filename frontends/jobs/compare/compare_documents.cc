#include "frontends/jobs/compare/compare_documents.h"

#include "frontends/jobs/compare/group_scores.h"
#include "frontends/measure/prompt_suite.h"

namespace moec {
namespace {

constexpr const char* kCommand = "compare";

Result<std::vector<CompareDocument>> read_suite(const DocumentSource& source,
                                                const ModelTokenizer& tokenizer) {
  // The source has no files, because the tokens come from the suite.
  const TextSource text{kCommand, {}, "", source.model};
  MOEC_ASSIGN(std::vector<SuitePrompt> prompts, read_prompt_suite(source.prompts));
  std::vector<CompareDocument> documents;
  for (SuitePrompt& prompt : prompts) {
    // A prompt has either a text or token ids. Ids are not encoded again.
    if (prompt.text) {
      MOEC_ASSIGN(prompt.tokens, encode_text(text, tokenizer, *prompt.text));
    }
    // Ids of a suite may be from another model's vocabulary.
    MOEC_TRY(check_vocabulary(prompt.tokens, text, tokenizer.vocab()));
    documents.push_back({std::move(prompt.category), std::move(prompt.tokens)});
  }
  return documents;
}

}  // namespace

Result<std::vector<CompareDocument>> read_documents(const DocumentSource& source,
                                                    const ModelTokenizer& tokenizer) {
  if (!source.prompts.empty()) return read_suite(source, tokenizer);
  std::vector<CompareDocument> documents;
  const auto add = [&](const TextSource& text) -> Status {
    MOEC_ASSIGN(std::vector<int64_t> tokens, read_tokens(text, tokenizer));
    documents.push_back({kTextCategory, std::move(tokens)});
    return {};
  };
  for (const std::string& text : source.texts) MOEC_TRY(add({kCommand, {text}, "", source.model}));
  if (!source.tokens_file.empty()) MOEC_TRY(add({kCommand, {}, source.tokens_file, source.model}));
  if (documents.empty())
    return fail("compare.empty", "no text was given for the comparison",
                "pass --prompts default, --text FILES or --tokens FILE");
  return documents;
}

}  // namespace moec
