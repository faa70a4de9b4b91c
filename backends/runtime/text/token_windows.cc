#include "backends/runtime/text/token_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/files/digest.h"
#include "ir/base/json.h"
#include "ir/base/parse_number.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

bool is_between_ids(char c) { return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

Result<std::vector<int64_t>> read_ids(const TextSource& source) {
  const std::string& path = source.tokens_file;
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

Result<std::vector<int64_t>> read_texts(const TextSource& source, const ModelTokenizer& tokenizer) {
  std::vector<int64_t> tokens;
  // Encodes each file separately, so that no token spans two files.
  for (const std::string& path : source.texts) {
    MOEC_TRY(check_takes_text(source, tokenizer));
    MOEC_ASSIGN(const std::string text, read_user_text(path, source.command + ".text"));
    MOEC_ASSIGN(const std::vector<int64_t> more, encode_text(source, tokenizer, text));
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  return tokens;
}

}  // namespace

int64_t longest_window(const Manifest& manifest) {
  const manifest::Build& build = manifest.build;
  // Without a cache, tokens can attend only to tokens of the same pass.
  return !has_cache(build.cache) ? std::min(build.context, build.tokens.back()) : build.context;
}

Result<std::vector<int64_t>> encode_text(const TextSource& source, const ModelTokenizer& tokenizer,
                                         std::string_view text) {
  MOEC_TRY(check_takes_text(source, tokenizer));
  return tokenizer.encode(text);
}

Status check_vocabulary(const std::vector<int64_t>& tokens, const TextSource& source,
                        int64_t size) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= size)
      return fail(source.command + ".vocabulary",
                  fmt::format("token {} of the text, {}, is outside the vocabulary of {}", i,
                              tokens[i], size),
                  "encode the text with the tokenizer of this checkpoint");
  return {};
}

Result<std::vector<int64_t>> read_tokens(const TextSource& source,
                                         const ModelTokenizer& tokenizer) {
  MOEC_ASSIGN(std::vector<int64_t> tokens,
              source.tokens_file.empty() ? read_texts(source, tokenizer) : read_ids(source));
  if (tokens.empty())
    return fail(source.command + ".empty",
                fmt::format("there is no text to {} with", source.command),
                "pass --text FILES or --tokens FILE with at least a few thousand tokens");
  MOEC_TRY(check_vocabulary(tokens, source, tokenizer.vocab()));
  return tokens;
}

Result<TokenWindows> read_windows(const TextSource& source, const ModelTokenizer& tokenizer,
                                  int64_t window) {
  if (window < 1)
    return fail(source.command + ".window",
                fmt::format("the window has {} tokens, expected at least 1", window),
                "use a window of a few hundred tokens");
  TokenWindows text;
  MOEC_ASSIGN(text.tokens, read_tokens(source, tokenizer));
  const int64_t count = std::ssize(text.tokens);
  // read_tokens() guarantees at least one token, so the window is not 0.
  text.window = std::min(window, count);
  text.unused = count % text.window;
  // All windows have the same number of tokens, so an incomplete last one is dropped.
  text.tokens.resize(static_cast<size_t>(count - text.unused));
  return text;
}

std::string digest_of_tokens(std::span<const int64_t> tokens) {
  Digest digest;
  // Covers the ids as 64-bit integers in the machine's byte order.
  digest.update(std::as_bytes(tokens));
  return digest.hex();
}

}  // namespace moec
