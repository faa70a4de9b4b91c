#include "frontends/calibrate/calibration_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "backends/runtime/tokenizer.h"
#include "frontends/hf/checkpoint.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

bool is_between_ids(char c) { return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

Result<std::vector<int64_t>> read_ids(const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "calibrate.text"));
  std::vector<int64_t> ids;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    if (is_between_ids(*at)) {
      ++at;
      continue;
    }
    int64_t id = 0;
    const auto [stop, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (stop != end && !is_between_ids(*stop)))
      return fail(
          "calibrate.tokens",
          fmt::format("\"{}\" is not a token id",
                      printable(std::string_view(at, std::find_if(at, end, is_between_ids)), 40)),
          "give token ids, separated by spaces, lines or commas",
          {.file = path, .offset = static_cast<uint64_t>(at - text.data())});
    ids.push_back(id);
    at = stop;
  }
  return ids;
}

Result<std::vector<int64_t>> read_texts(const CalibrateOptions& options) {
  MOEC_ASSIGN(const TokenizerKind tokenizer, detect_tokenizer(source_folder(options.source)));
  if (tokenizer != TokenizerKind::bytes)
    return fail("calibrate.no_tokenizer", "the tokens of this model are not bytes",
                "encode the text elsewhere, and give the token ids with --tokens FILE",
                {.file = options.source});
  std::vector<int64_t> tokens;
  for (const std::string& path : options.texts) {
    MOEC_ASSIGN(const std::string text, read_user_text(path, "calibrate.text"));
    const std::vector<int64_t> more = encode_bytes(text);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  return tokens;
}

Status check_vocabulary(const std::vector<int64_t>& tokens, int64_t vocab) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= vocab)
      return fail("calibrate.vocabulary",
                  fmt::format("token {} of the text, {}, is outside the vocabulary of {}", i,
                              tokens[i], vocab),
                  "encode the text with the tokenizer of this checkpoint");
  return {};
}

}  // namespace

Result<CalibrationText> read_calibration_text(const CalibrateOptions& options,
                                              const ModelConfig& model) {
  CalibrationText text;
  MOEC_ASSIGN(text.tokens,
              options.tokens_file.empty() ? read_texts(options) : read_ids(options.tokens_file));
  if (text.tokens.empty())
    return fail("calibrate.empty", "there is no text to calibrate with",
                "give --text FILES or --tokens FILE with at least a few thousand tokens");
  MOEC_TRY(check_vocabulary(text.tokens, model.vocab));
  const int64_t count = std::ssize(text.tokens);
  text.window = std::min({options.window, model.max_positions, count});
  text.unused = count % text.window;
  text.tokens.resize(static_cast<size_t>(count - text.unused));
  return text;
}

}  // namespace moec
