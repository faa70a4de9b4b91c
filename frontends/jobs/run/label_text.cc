#include "frontends/jobs/run/label_text.h"

namespace moec {

Result<TaggedText> label_text(Session& session, const Prompt& prompt, bool to_redact) {
  if (to_redact && !prompt.text)
    return fail("run.no_text", "--redact needs a text; the prompt consists of token ids",
                "give --prompt TEXT or --prompt-file FILE, or leave --redact out");
  MOEC_ASSIGN(TaggedText tagged, tag_text(session, prompt.tokens));
  if (to_redact) MOEC_TRY(check_judged(*prompt.text, tagged));
  if (prompt.text) widen_to_characters(*prompt.text, tagged.spans);
  return tagged;
}

}  // namespace moec
