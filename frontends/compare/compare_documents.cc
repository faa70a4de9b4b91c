#include "frontends/compare/compare_documents.h"

#include "frontends/compare/group_scores.h"

namespace moec {
namespace {

constexpr const char* kCommand = "compare";

}  // namespace

Result<std::vector<CompareDocument>> read_documents(const DocumentSource& source,
                                                    const TextVocabulary& vocabulary) {
  std::vector<CompareDocument> documents;
  const auto add = [&](TextSource text) -> Status {
    MOEC_ASSIGN(std::vector<int64_t> tokens, read_tokens(text, vocabulary));
    documents.push_back({kTextCategory, std::move(tokens)});
    return {};
  };
  for (const std::string& text : source.texts) MOEC_TRY(add({kCommand, {text}, "", source.model}));
  if (!source.tokens_file.empty()) MOEC_TRY(add({kCommand, {}, source.tokens_file, source.model}));
  if (documents.empty())
    return fail("compare.empty", "there is no text to compare with",
                "give --text FILES, a document each, or --tokens FILE");
  return documents;
}

}  // namespace moec
