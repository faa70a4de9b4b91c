// Writes text with an exported model.
#pragma once

#include <functional>
#include <string>

#include "backends/runtime/text/generate.h"
#include "backends/runtime/text/prompt.h"

namespace moec {

// Which experts tokens choose.
struct GateLogOptions {
  std::string file;    // a trace of the form of its name (expert_trace.h); empty: none
  std::string layers;  // "0-3,7"; empty: all
};

// Runs `job` with the session, and writes the log meanwhile. Errors: run.no_gates (the model has no
// experts, or the graphs do not name their weights), trace.write, those of parse_expert_layers()
// and of the job.
Status with_gate_log(Session& session, const GateLogOptions& options,
                     const std::function<Status()>& job);

struct WriteOptions {
  GenerateOptions generate;  // eos_tokens is set from the manifest
  bool ignore_eos = false;   // write on behind the end of text
};

// Continues the prompt. `on_token` gets the tokens of the prompt, too, when their number has been
// checked. Errors: those of generate_text().
Result<GeneratedText> write_text(Session& session, const Prompt& prompt,
                                 const WriteOptions& options, const TokenCallback& on_token = {});

}  // namespace moec
