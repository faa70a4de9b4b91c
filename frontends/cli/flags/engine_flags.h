// Flags for the engine that runs the graphs of an export.
#pragma once

#include <memory>
#include <string>

#include "backends/runtime/session/engine.h"
#include "frontends/cli/flags/session_flags.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct EngineFlags {
  std::string engine = "cpu";
  std::string device;  // empty: the CPU
  bool keeps_compiled = false;
};

// A further word for --engine, for a command that runs it itself, and its help.
struct OtherEngine {
  std::string name, help;
};

void add_engine_flags(CLI::App& command, EngineFlags& flags, const OtherEngine& other = {});

// Returns the engine that the flags name: `cpu` (the engine of session_options()), OpenVINO, or
// null for the reference executor. Errors: engine.option (a flag that the engine does not accept),
// those of openvino_engine().
Result<std::shared_ptr<Engine>> open_engine(const EngineFlags& flags, const SessionFlags& session,
                                            std::shared_ptr<Engine> cpu);

}  // namespace moec
