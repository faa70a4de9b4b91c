// OpenVINO as the engine of a session: runs the ONNX files of an export on a CPU, GPU or NPU.
#pragma once

#include <memory>
#include <string>

#include "backends/runtime/session/engine.h"

namespace moec {

struct OpenVinoOptions {
  std::string device = "CPU";  // or "GPU", "NPU", or a specific one: "GPU.1"
  // Cache compiled models in the export's folder (compiled_cache.h).
  bool keeps_compiled = false;
};

// Errors: those of load_openvino(); engine.device, which names the devices of this machine. Errors
// of the engine: engine.format and engine.precision from accepts(); engine.compile, engine.cache
// and session.port from compile(); engine.run from runs.
Result<std::shared_ptr<Engine>> openvino_engine(const OpenVinoOptions& options);

}  // namespace moec
