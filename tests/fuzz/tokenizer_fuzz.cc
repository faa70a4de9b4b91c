// Reads arbitrary text as a tokenizer.json and encodes the text after the first zero byte, or a
// plain text if there is no zero byte. Tokens must be in the vocabulary and decodable.
#include "backends/tokenizer/tokenizer.h"
#include "ir/base/invariant.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const auto tokenizer = moec::Tokenizer::parse(input.substr(0, end), "fuzz");
  if (!tokenizer) return 0;
  const std::string_view text =
      end == std::string_view::npos ? "ab <s> İ 12\r\n  a\xcc\x81" : input.substr(end + 1);
  const auto tokens = tokenizer->encode(text, moec::SpecialTokens::add);
  if (!tokens) return 0;
  (void)tokenizer->decode(*tokens);
  (void)tokenizer->byte_counts(*tokens, text);
  moec::TextDecoder decoder(&*tokenizer);
  for (const int64_t token : *tokens) {
    MOEC_CHECK(token >= 0, "a token has a negative id");
    (void)decoder.add(token);
  }
  (void)decoder.finish();
  return 0;
}
