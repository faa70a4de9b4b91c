#include "frontends/measure/analysis_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontends/measure/prompt_suite.h"

namespace moec {
namespace {

constexpr const char* kCommand = "analyze";
constexpr const char* kOneCategory = "text";

// Linear search: a text has few categories, and they must keep the order of their first document.
size_t category_at(AnalysisText& text, const std::string& name) {
  auto& all = text.categories;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const ProfileCategory& one) { return one.name == name; });
  if (found != all.end()) return static_cast<size_t>(found - all.begin());
  all.push_back({name, 0, 0});
  return all.size() - 1;
}

void add_windows(AnalysisText& text, const std::vector<int64_t>& tokens, size_t document) {
  TokenWindows& windows = text.windows;
  for (int64_t begin = 0; begin < std::ssize(tokens); begin += windows.window) {
    const int64_t count = std::min(windows.window, std::ssize(tokens) - begin);
    windows.tokens.insert(windows.tokens.end(), tokens.begin() + begin,
                          tokens.begin() + begin + count);
    // A graph has a static number of tokens, so a document's last window is filled up with the last
    // token. `counts` excludes the fill, and the counters ignore its rows.
    windows.tokens.insert(windows.tokens.end(), static_cast<size_t>(windows.window - count),
                          tokens.back());
    windows.counts.push_back(count);
    text.parts.push_back({text.tokens(), count, document, 0});
  }
}

// Assigns documents to halves alternately within each category, so that both halves cover every
// category.
void halve(AnalysisText& text) {
  // `begun` starts at the number of documents before the category, not at 0. Otherwise the only
  // document of each small category would always be in the first half.
  std::vector<int64_t> begun(text.categories.size(), 0);
  for (size_t c = 1; c < begun.size(); ++c)
    begun[c] = begun[c - 1] + text.categories[c - 1].documents;
  std::vector<int> half_of;
  for (const size_t category : text.category_of)
    half_of.push_back(static_cast<int>(begun[category]++ % 2));
  for (size_t w = 0; w < text.parts.size(); ++w)
    // A single document cannot be divided by documents, so its windows alternate.
    text.parts[w].half =
        half_of.size() == 1 ? static_cast<int>(w % 2) : half_of[text.parts[w].document];
}

Result<std::vector<AnalysisDocument>> read_files(const AnalyzeOptions& options,
                                                 const ModelTokenizer& tokenizer) {
  std::vector<AnalysisDocument> documents;
  if (const std::string& prompt = options.text.prompt; !prompt.empty()) {
    MOEC_ASSIGN(std::vector<int64_t> tokens,
                encode_text({kCommand, {}, "", options.source}, tokenizer, prompt));
    documents.push_back({kOneCategory, std::move(tokens)});
  }
  for (const std::string& path : options.text.texts) {
    MOEC_ASSIGN(std::vector<int64_t> tokens,
                read_tokens({kCommand, {path}, "", options.source}, tokenizer));
    documents.push_back({kOneCategory, std::move(tokens)});
  }
  for (const std::string& path : options.text.tokens) {
    MOEC_ASSIGN(std::vector<int64_t> tokens,
                read_tokens({kCommand, {}, path, options.source}, tokenizer));
    documents.push_back({kOneCategory, std::move(tokens)});
  }
  return documents;
}

Result<std::vector<AnalysisDocument>> read_suite(const AnalyzeOptions& options,
                                                 const ModelTokenizer& tokenizer) {
  const TextSource source{kCommand, {}, "", options.source};
  MOEC_ASSIGN(std::vector<SuitePrompt> prompts, read_prompt_suite(options.text.prompts));
  std::vector<AnalysisDocument> documents;
  for (SuitePrompt& prompt : prompts) {
    if (prompt.text) {
      MOEC_ASSIGN(prompt.tokens, encode_text(source, tokenizer, *prompt.text));
    }
    MOEC_TRY(check_vocabulary(prompt.tokens, source, tokenizer.vocab()));
    documents.push_back({std::move(prompt.category), std::move(prompt.tokens)});
  }
  return documents;
}

}  // namespace

AnalysisText cut_documents(const std::vector<AnalysisDocument>& documents, int64_t window) {
  AnalysisText text;
  // A window longer than the longest document would only add fill tokens, which cost time.
  int64_t longest = 0;
  for (const AnalysisDocument& document : documents)
    longest = std::max(longest, std::ssize(document.tokens));
  text.windows.window = std::min(window, longest);
  for (const AnalysisDocument& document : documents) {
    const size_t category = category_at(text, document.category);
    ++text.categories[category].documents;
    text.categories[category].tokens += std::ssize(document.tokens);
    add_windows(text, document.tokens, text.category_of.size());
    text.category_of.push_back(category);
  }
  halve(text);
  return text;
}

Result<AnalysisText> read_analysis_text(const AnalyzeOptions& options,
                                        const ModelTokenizer& tokenizer, int64_t positions) {
  if (options.text.window < 1)
    return fail("analyze.window",
                fmt::format("the window has {} tokens, expected at least 1", options.text.window),
                "pass a larger --window, such as 256");
  MOEC_ASSIGN(const std::vector<AnalysisDocument> documents, options.text.prompts.empty()
                                                                 ? read_files(options, tokenizer)
                                                                 : read_suite(options, tokenizer));
  if (documents.empty())
    return fail("analyze.empty", "there is no text to analyze",
                "pass --prompts default, --text FILES or --tokens FILES");
  return cut_documents(documents, std::min(options.text.window, positions));
}

}  // namespace moec
