// What moec asks of OpenVINO. The program does not link OpenVINO: module/openvino_module.cc
// implements this in a library of its own, which is loaded when an engine is opened
// (load_module.h). Program and library come from one build. No exception crosses the interface.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"

namespace moec {

// An input or an output of a model. Elements are in C order.
struct OpenVinoPort {
  std::vector<std::string> names;  // of the value; it has several where an op only passes it on
  Type type;                       // of layout plain
};

struct OpenVinoCompile {
  std::string device;     // "CPU", "GPU", "GPU.1", "NPU"
  std::string precision;  // of the results between ops: "f32" or "f16"
  // Values inside the graph become outputs behind its own where their names end so.
  std::vector<std::string> watched;
};

// A model that is compiled for a device, and one run of it at a time.
class OpenVinoModel {
 public:
  virtual ~OpenVinoModel() = default;
  virtual std::vector<OpenVinoPort> inputs() const = 0;
  virtual std::vector<OpenVinoPort> outputs() const = 0;
  // Runs with the elements of the inputs, in the order of inputs(). Error engine.run.
  virtual Status run(const std::vector<const void*>& inputs) = 0;
  // The elements of an output of the last run.
  virtual const void* output(size_t index) const = 0;
  // Writes what OpenVinoLibrary::load() reads. Error engine.cache.
  virtual Status save(const std::string& path) const = 0;
};

class OpenVinoLibrary {
 public:
  virtual ~OpenVinoLibrary() = default;
  virtual std::string version() const = 0;  // with the number of its build
  // Of this machine: "CPU", "GPU.0", …
  virtual std::vector<std::string> devices() const = 0;
  virtual std::string full_name(const std::string& device) const = 0;
  // Of "f32" and "f16", those that the device computes in.
  virtual std::vector<std::string> precisions(const std::string& device) const = 0;
  // Compiles an ONNX file. Error engine.compile.
  virtual Result<std::unique_ptr<OpenVinoModel>> compile(const std::string& path,
                                                         const OpenVinoCompile& options) = 0;
  // Loads the first `bytes` of a file that begins with what save() wrote. Error engine.cache.
  virtual Result<std::unique_ptr<OpenVinoModel>> load(const std::string& path, size_t bytes,
                                                      const OpenVinoCompile& options) = 0;
};

// The function that the module exports as kOpenVinoModuleEntry: a library that the caller owns, or
// null where OpenVINO does not start.
using OpenVinoEntry = OpenVinoLibrary* (*)();
inline constexpr const char* kOpenVinoModule = "libmoec_openvino.so";
inline constexpr const char* kOpenVinoModuleEntry = "moec_openvino_library";

}  // namespace moec
