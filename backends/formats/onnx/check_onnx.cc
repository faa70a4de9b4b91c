#include "backends/formats/onnx/check_onnx.h"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <limits>

#include "ir/base/regular_file.h"

namespace moec {
namespace {

// The library's messages have several lines; the cause of a diagnostic is one line.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

// Runs a libonnx call, which throws on a finding.
template <class Call>
Status guarded(const char* code, const std::string& path, Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return fail(code, one_line(error.what()),
                "the file was changed after it was written, or this is a fault of moec",
                {.file = path});
  }
  return {};
}

// Protobuf reads no larger message.
constexpr uint64_t kMaxGraphBytes = std::numeric_limits<int>::max();

Result<onnx::ModelProto> load(const std::string& path) {
  onnx::ModelProto model;
  const auto bytes = read_text_file(path, kMaxGraphBytes);
  if (!bytes || !model.ParseFromString(*bytes))
    return fail("onnx.unreadable", "not a readable ONNX model", "export it again", {.file = path});
  return model;
}

}  // namespace

Status check_onnx_file(const std::string& path) {
  MOEC_ASSIGN(onnx::ModelProto model, load(path));
  MOEC_TRY(guarded("onnx.checker", path, [&] { onnx::checker::check_model(path); }));
  const onnx::ShapeInferenceOptions strict{true, 1, true};
  return guarded("onnx.shape_inference", path, [&] {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), strict);
  });
}

}  // namespace moec
