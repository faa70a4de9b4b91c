// Loads the library with OpenVINO's part of the engine, which lies beside the program.
#pragma once

#include <memory>

#include "backends/openvino/openvino_api.h"

namespace moec {

// It stays loaded until the program ends. Errors: engine.not_built (this build has no such
// library), engine.library (it, or the OpenVINO that it was built with, cannot be loaded or does
// not start).
Result<std::unique_ptr<OpenVinoLibrary>> load_openvino();

}  // namespace moec
