#include "frontends/run/write_text.h"

#include <fmt/format.h>

#include "backends/runtime/tokenizer.h"

namespace moec {

Result<GeneratedText> write_text(Session& session, const Prompt& prompt,
                                 const WriteOptions& options, const TokenCallback& on_token) {
  MOEC_TRY(check_prompt_length(prompt.tokens, session.manifest()));
  if (on_token)
    for (const int64_t token : prompt.tokens) on_token(token);
  GenerateOptions generate = options.generate;
  if (!options.ignore_eos) generate.eos_tokens = session.manifest().model.eos_tokens;
  return generate_text(session, prompt.tokens, generate, on_token);
}

bool writes_bytes(const Manifest& manifest) { return manifest.tokenizer == TokenizerKind::bytes; }

std::string token_text(const Manifest& manifest, int64_t token) {
  return writes_bytes(manifest) ? decode_bytes({token}) : fmt::format("{} ", token);
}

}  // namespace moec
