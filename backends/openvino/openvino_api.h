// Interface to OpenVINO. The program does not link OpenVINO: module/openvino_module.cc implements
// this interface in a library that is loaded when an engine is opened. Program and library must be
// from the same build. No exception crosses the interface.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"

namespace moec {

// An input or output of a model. Elements are in C order.
struct OpenVinoPort {
  std::vector<std::string> names;  // of the value; several if an op only forwards it
  Type type;                       // of layout plain
};

struct OpenVinoCompile {
  std::string device;     // "CPU", "GPU", "GPU.1", "NPU"
  std::string precision;  // of intermediate results: "f32" or "f16"
  // Name suffixes: matching values inside the graph become additional outputs, after the graph's
  // own.
  std::vector<std::string> watched;
};

// A model compiled for a device. Not thread-safe: one run at a time.
class OpenVinoModel {
 public:
  virtual ~OpenVinoModel() = default;
  virtual std::vector<OpenVinoPort> inputs() const = 0;
  virtual std::vector<OpenVinoPort> outputs() const = 0;
  // Runs the model. `inputs` are the elements of each input, in the order of inputs(). Error:
  // engine.run.
  virtual Status run(const std::vector<const void*>& inputs) = 0;
  // Returns the elements of an output of the last run.
  virtual const void* output(size_t index) const = 0;
  // Saves the model for OpenVinoLibrary::load(). Error: engine.cache.
  virtual Status save(const std::string& path) const = 0;
};

class OpenVinoLibrary {
 public:
  virtual ~OpenVinoLibrary() = default;
  virtual std::string version() const = 0;  // with the build number
  // Returns the devices of this machine: "CPU", "GPU.0", …
  virtual std::vector<std::string> devices() const = 0;
  virtual std::string full_name(const std::string& device) const = 0;
  // Returns the subset of "f32" and "f16" that the device computes in.
  virtual std::vector<std::string> precisions(const std::string& device) const = 0;
  // Compiles an ONNX file. Error: engine.compile.
  virtual Result<std::unique_ptr<OpenVinoModel>> compile(const std::string& path,
                                                         const OpenVinoCompile& options) = 0;
  // Loads a model from the first `bytes` bytes of a file, as written by save(). Error:
  // engine.cache.
  virtual Result<std::unique_ptr<OpenVinoModel>> load(const std::string& path, size_t bytes,
                                                      const OpenVinoCompile& options) = 0;
};

// The function that the module exports as kOpenVinoModuleEntry. Returns a library that the caller
// owns, or null if OpenVINO fails to start.
using OpenVinoEntry = OpenVinoLibrary* (*)();
inline constexpr const char* kOpenVinoModule = "libmoec_openvino.so";
inline constexpr const char* kOpenVinoModuleEntry = "moec_openvino_library";

}  // namespace moec
