// The judgement of ONNX's own tools on a file.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// onnx::checker on the file (external data must be there), then strict shape inference with data
// propagation, which must come to the shapes that the file states. Errors: onnx.unreadable,
// onnx.checker, onnx.shape_inference, each with the library's words.
Status check_onnx_file(const std::string& path);

}  // namespace moec
