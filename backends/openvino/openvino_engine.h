// OpenVINO as an engine of a session: runs the ONNX files of an export on a CPU, GPU or NPU.
#pragma once

#include <memory>
#include <string>

#include "backends/runtime/session/engine.h"

namespace moec {

struct OpenVinoOptions {
  std::string device = "CPU";  // or "GPU", "NPU", or one of several: "GPU.1"
  // Keep compiled models in the folder of the export for later runs (compiled_cache.h).
  bool keeps_compiled = false;
};

// Errors: those of load_openvino(); engine.device, which names the devices of this machine.
// The engine's accepts() gives engine.format and engine.precision, its compile() engine.compile,
// engine.cache and session.port, its runs engine.run.
Result<std::shared_ptr<Engine>> openvino_engine(const OpenVinoOptions& options);

}  // namespace moec
