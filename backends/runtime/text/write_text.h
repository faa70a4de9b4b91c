// Generates text with an exported model.
#pragma once

#include <functional>
#include <string>

#include "backends/runtime/text/generate.h"
#include "backends/runtime/text/prompt.h"

namespace moec {

// Options of the log of chosen experts.
struct GateLogOptions {
  std::string file;    // trace; its name determines the format (expert_trace.h). Empty: no log
  std::string layers;  // "0-3,7"; empty: all
};

// Runs `job` and logs the routing of the session during it. Errors: run.no_gates (the model has no
// experts, or the graphs do not label their routing weights), trace.write, those of
// parse_expert_layers() and of `job`.
Status with_gate_log(Session& session, const GateLogOptions& options,
                     const std::function<Status()>& job);

struct WriteOptions {
  GenerateOptions generate;  // eos_tokens is set from the manifest
  bool ignore_eos = false;   // continue after end-of-text tokens
};

// Generates text after the prompt. Once the length of the prompt is checked, `on_token` receives
// the tokens of the prompt, then each generated token. Errors: those of generate_text().
Result<GeneratedText> write_text(Session& session, const Prompt& prompt,
                                 const WriteOptions& options, const TokenCallback& on_token = {});

}  // namespace moec
