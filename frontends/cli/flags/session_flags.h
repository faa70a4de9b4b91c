// The flags of the commands that run an export.
#pragma once

#include <string>

#include "backends/runtime/session/session.h"
#include "ir/base/diagnostics.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct SessionFlags {
  std::string precision = "f32";
  std::string memory;  // empty: the default
  int threads = 0;     // 0: one per core
  std::string activations = "f32";
  std::string cache_dtype = "f32";
  std::string expert_mask;  // empty: no mask
  TopKRequest top_k;
};

// --expert-mask: the experts that tokens may choose.
void add_mask_flag(CLI::App& command, std::string& mask);
// --threads: threads of the engine `cpu`.
void add_threads_flag(CLI::App& command, int& threads);
void add_session_flags(CLI::App& command, SessionFlags& flags);
// --top-k, --battery, --category and --confidence: the top-k variant that runs.
void add_form_flags(CLI::App& command, TopKRequest& request);

// Returns options with the engine `cpu`. Errors: cli.bytes (--memory is not an amount of memory),
// cli.conflict (--activations int8 with --precision f16).
Result<SessionOptions> session_options(const SessionFlags& flags);

}  // namespace moec
