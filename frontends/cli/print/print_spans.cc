#include "frontends/cli/print/print_spans.h"

#include "frontends/cli/print/say.h"
#include "frontends/jobs/run/run_json.h"

namespace moec {

void print_spans(const Prompt& prompt, const TaggedText& tagged) {
  for (const TextSpan& span : tagged.spans)
    print_out("{:>6} {:>6}  {:.3f}  {}{}\n", span.begin, span.end, span.score, span.label,
              prompt.text ? "  " + text_of_span(*prompt.text, span) : "");
}

}  // namespace moec
