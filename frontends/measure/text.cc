#include "frontends/measure/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/files/digest.h"
#include "frontends/measure/prompt_suite.h"
#include "ir/base/invariant.h"
#include "ir/base/json.h"
#include "ir/base/name_file.h"
#include "ir/base/parse_number.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

bool is_between_ids(char c) { return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

Result<std::vector<int64_t>> read_ids(const TextSource& source, const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, source.command + ".text"));
  std::vector<int64_t> ids;
  for (std::string_view rest = text; !rest.empty();) {
    if (is_between_ids(rest.front())) {
      rest.remove_prefix(1);
      continue;
    }
    const char* const at = rest.data();
    const char* const end = at + rest.size();
    const auto id = take_number<int64_t>(rest);
    if (!id || (!rest.empty() && !is_between_ids(rest.front())))
      return fail(
          source.command + ".tokens",
          fmt::format("\"{}\" is not a token id",
                      printable(std::string_view(at, std::find_if(at, end, is_between_ids)), 40)),
          "separate token ids by spaces, line breaks or commas",
          {.file = path, .offset = static_cast<uint64_t>(at - text.data())});
    ids.push_back(*id);
  }
  return ids;
}

// Called before a text is read, so that a missing tokenizer is reported first.
Status check_takes_text(const TextSource& source, const ModelTokenizer& tokenizer) {
  if (tokenizer.exists()) return {};
  return fail(source.command + ".no_tokenizer", "the model has no tokenizer.json",
              "place it next to the model's config.json, or pass the token ids of a text that was "
              "encoded elsewhere",
              {.file = source.model});
}

Result<std::vector<int64_t>> encode_text(const TextSource& source, const ModelTokenizer& tokenizer,
                                         std::string_view text) {
  MOEC_TRY(check_takes_text(source, tokenizer));
  return tokenizer.encode(text);
}

Result<std::vector<int64_t>> read_text(const TextSource& source, const std::string& path,
                                       const ModelTokenizer& tokenizer) {
  MOEC_TRY(check_takes_text(source, tokenizer));
  MOEC_ASSIGN(const std::string text, read_user_text(path, source.command + ".text"));
  return naming_file(tokenizer.encode(text), path);
}

Status check_vocabulary(const std::vector<int64_t>& tokens, const std::string& command,
                        int64_t size, const Place& place) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= size)
      return fail(command + ".vocabulary",
                  fmt::format("token {} of the text, {}, is outside the vocabulary of {}", i,
                              tokens[i], size),
                  "encode the text with the tokenizer of this checkpoint", place);
  return {};
}

// Joins the tokens of all files. Each file is encoded separately, so that no token spans two files.
Result<std::vector<int64_t>> read_tokens(const TextSource& source,
                                         const ModelTokenizer& tokenizer) {
  std::vector<int64_t> tokens;
  const bool ids = !source.tokens.empty();
  const std::vector<std::string>& files = ids ? source.tokens : source.texts;
  for (const std::string& path : files) {
    MOEC_ASSIGN(const std::vector<int64_t> more,
                ids ? read_ids(source, path) : read_text(source, path, tokenizer));
    MOEC_TRY(check_vocabulary(more, source.command, tokenizer.vocab(), {.file = path}));
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  if (!tokens.empty()) return tokens;
  const char* const next = "pass --text FILES or --tokens FILE with at least a few thousand tokens";
  if (files.empty())
    return fail(source.command + ".empty",
                fmt::format("no text was given for moec {}", source.command), next);
  return fail(
      source.command + ".empty",
      files.size() == 1 ? "the text has no tokens" : "this text and all others have no tokens",
      next, {.file = files.front()});
}

// A tokenizer can remove all of a prompt, e.g. its spaces.
Status check_has_tokens(const Document& document, const std::string& command, const Place& place) {
  if (!document.tokens.empty()) return {};
  return fail(command + ".empty",
              fmt::format("a prompt of category {} has no tokens", printable(document.category)),
              "remove the prompt, or write text that the tokenizer encodes", place);
}

Result<std::vector<Document>> read_suite(const TextSource& source,
                                         const ModelTokenizer& tokenizer) {
  MOEC_ASSIGN(std::vector<SuitePrompt> prompts, read_prompt_suite(source.prompts));
  std::vector<Document> documents;
  for (SuitePrompt& prompt : prompts) {
    if (prompt.text) {
      MOEC_ASSIGN(prompt.tokens,
                  naming_place(encode_text(source, tokenizer, *prompt.text), prompt.place));
    }
    // Ids of a suite may be from another model's vocabulary.
    MOEC_TRY(check_vocabulary(prompt.tokens, source.command, tokenizer.vocab(), prompt.place));
    documents.push_back({std::move(prompt.category), std::move(prompt.tokens)});
    MOEC_TRY(check_has_tokens(documents.back(), source.command, prompt.place));
  }
  return documents;
}

// Linear search: a text has few categories, and they must keep the order of their first document.
size_t category_at(Text& text, const std::string& name) {
  auto& all = text.categories;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const ProfileCategory& one) { return one.name == name; });
  if (found != all.end()) return static_cast<size_t>(found - all.begin());
  all.push_back({name, 0, 0});
  return all.size() - 1;
}

void add_windows(Text& text, const std::vector<int64_t>& tokens, size_t document) {
  for (int64_t begin = 0; begin < std::ssize(tokens); begin += text.window) {
    const int64_t count = std::min(text.window, std::ssize(tokens) - begin);
    text.tokens.insert(text.tokens.end(), tokens.begin() + begin, tokens.begin() + begin + count);
    // A graph has a static number of tokens, so a document's last window is filled up with the last
    // token. `parts` excludes the fill, and the counters ignore its rows.
    text.tokens.insert(text.tokens.end(), static_cast<size_t>(text.window - count), tokens.back());
    text.parts.push_back({text.count(), count, document, 0});
  }
}

// Assigns documents to halves alternately within each category, so that both halves cover every
// category.
void halve(Text& text) {
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

}  // namespace

int64_t longest_window(const Manifest& manifest) {
  const manifest::Build& build = manifest.build;
  // Without a cache, tokens can attend only to tokens of the same pass.
  return !has_cache(build.cache) ? std::min(build.context, build.tokens.back()) : build.context;
}

std::vector<std::string> given_file(const std::string& path) {
  return path.empty() ? std::vector<std::string>() : std::vector<std::string>{path};
}

Text cut_tokens(std::vector<int64_t> tokens, int64_t window) {
  const int64_t count = std::ssize(tokens);
  MOEC_CHECK(count > 0 && window > 0, "{} tokens were cut into windows of {}", count, window);
  Text text{std::move(tokens), std::min(window, count)};
  text.unused = count % text.window;
  // All windows have the same number of tokens, so an incomplete last one is dropped.
  text.tokens.resize(static_cast<size_t>(count - text.unused));
  for (int64_t first = 0; first < std::ssize(text.tokens); first += text.window)
    text.parts.push_back({first, text.window});
  return text;
}

Text cut_documents(const std::vector<Document>& documents, int64_t window) {
  Text text;
  // A window longer than the longest document would only add fill tokens, which cost time.
  int64_t longest = 0;
  for (const Document& document : documents)
    longest = std::max(longest, std::ssize(document.tokens));
  text.window = std::min(window, longest);
  for (const Document& document : documents) {
    const size_t category = category_at(text, document.category);
    ++text.categories[category].documents;
    text.categories[category].tokens += std::ssize(document.tokens);
    add_windows(text, document.tokens, text.category_of.size());
    text.category_of.push_back(category);
  }
  halve(text);
  return text;
}

Result<Text> read_windows(const TextSource& source, const ModelTokenizer& tokenizer,
                          int64_t window) {
  if (window < 1)
    return fail(source.command + ".window",
                fmt::format("the window has {} tokens, expected at least 1", window),
                "use a window of a few hundred tokens");
  MOEC_ASSIGN(std::vector<int64_t> tokens, read_tokens(source, tokenizer));
  return cut_tokens(std::move(tokens), window);
}

Result<std::vector<Document>> read_documents(const TextSource& source,
                                             const ModelTokenizer& tokenizer) {
  if (!source.prompts.empty()) return read_suite(source, tokenizer);
  std::vector<Document> documents;
  if (!source.prompt.empty()) {
    MOEC_ASSIGN(std::vector<int64_t> tokens, encode_text(source, tokenizer, source.prompt));
    documents.push_back({kTextCategory, std::move(tokens)});
    MOEC_TRY(check_has_tokens(documents.back(), source.command, {.file = source.model}));
  }
  const auto add = [&](const TextSource& one) -> Status {
    MOEC_ASSIGN(std::vector<int64_t> tokens, read_tokens(one, tokenizer));
    documents.push_back({kTextCategory, std::move(tokens)});
    return {};
  };
  for (const std::string& path : source.texts)
    MOEC_TRY(add({source.command, source.model, {path}}));
  for (const std::string& path : source.tokens)
    MOEC_TRY(add({source.command, source.model, {}, {path}}));
  if (documents.empty())
    return fail(source.command + ".empty",
                fmt::format("no text was given for moec {}", source.command),
                "pass --prompts default, --text FILES or --tokens FILE");
  return documents;
}

std::string digest_of_tokens(std::span<const int64_t> tokens) {
  Digest digest;
  // Covers the ids as 64-bit integers in the machine's byte order.
  digest.update(std::as_bytes(tokens));
  return digest.hex();
}

}  // namespace moec
