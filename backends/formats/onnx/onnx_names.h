// Names and versions of ONNX files, shared by emitter and reader.
#pragma once

#include <cstdint>
#include <string_view>

namespace moec {

// The operator set of the default domain and the IR version that moec writes and reads.
inline constexpr int64_t kOnnxOpset = 17;
inline constexpr int64_t kOnnxIrVersion = 8;

// The domain of onnxruntime's contributed operators, at version 1.
inline constexpr const char* kMicrosoftDomain = "com.microsoft";

}  // namespace moec
