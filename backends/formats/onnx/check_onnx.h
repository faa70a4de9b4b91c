// Checks a file with the ONNX library's checker and shape inference.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Runs onnx::checker on the file (external data must exist), then strict shape inference with data
// propagation, which must agree with the shapes that the file states. Errors, with the library's
// message: onnx.unreadable, onnx.checker, onnx.shape_inference.
Status check_onnx_file(const std::string& path);

}  // namespace moec
