// What runs the graphs of an export.
#pragma once

#include <memory>
#include <string>

#include "backends/runtime/session/engine.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct EngineFlags {
  std::string engine = "reference";
  std::string device;  // empty: the CPU
  bool keeps_compiled = false;
};

void add_engine_flags(CLI::App& command, EngineFlags& flags);

// Null for the reference executor. Errors: engine.option (a flag that it does not take), those of
// openvino_engine().
Result<std::shared_ptr<Engine>> open_engine(const EngineFlags& flags);

}  // namespace moec
