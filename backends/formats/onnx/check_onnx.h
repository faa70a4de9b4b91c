// Checks a file with ONNX's own checker and shape inference.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Runs onnx::checker on the file (external data must exist), then strict shape inference with data
// propagation, which must agree with the shapes that the file states. Errors: onnx.unreadable,
// onnx.checker, onnx.shape_inference, each with the library's words.
Status check_onnx_file(const std::string& path);

}  // namespace moec
