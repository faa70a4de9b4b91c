#include "backends/formats/onnx/check_onnx.h"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <limits>

#include "ir/base/regular_file.h"

namespace moec {
namespace {

// The library's messages have several lines, but the cause of a diagnostic must be one line.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

// Converts the exceptions that libonnx throws to diagnostics.
template <class Call>
Status guarded(const char* code, const std::string& path, Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return fail(code, one_line(error.what()),
                "export the model again; if the error persists, report it as a bug of moec",
                {.file = path});
  }
  return {};
}

// The protobuf limit for a message.
constexpr uint64_t kMaxGraphBytes = std::numeric_limits<int>::max();

Result<onnx::ModelProto> load(const std::string& path) {
  onnx::ModelProto model;
  const auto bytes = read_text_file(path, kMaxGraphBytes);
  if (!bytes || !model.ParseFromString(*bytes))
    return fail("onnx.unreadable", "the file is not a readable ONNX model",
                "export the model again", {.file = path});
  return model;
}

}  // namespace

Status check_onnx_file(const std::string& path) {
  MOEC_ASSIGN(onnx::ModelProto model, load(path));
  // The checker gets the path, because it needs the folder to find external data.
  MOEC_TRY(guarded("onnx.checker", path, [&] { onnx::checker::check_model(path); }));
  // Type checks, strict mode (errors are reported), and data propagation.
  const onnx::ShapeInferenceOptions strict{true, 1, true};
  return guarded("onnx.shape_inference", path, [&] {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), strict);
  });
}

}  // namespace moec
