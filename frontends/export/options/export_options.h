// What `moec export` is asked to do, as a program without a command line would say it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "backends/formats/gguf/gguf_options.h"
#include "backends/formats/onnx/onnx_options.h"
#include "frontends/compile/compile_options.h"

namespace moec {

// Reports that `bytes` more of a payload of `total` bytes are written; `part` names the shard or
// table that they belong to. The first call has 0 bytes and no part: it announces the total.
using ProgressCallback =
    std::function<void(uint64_t bytes, uint64_t total, const std::string& part)>;

// The code of the error that ends an export when ExportCallbacks::stop returns true.
inline constexpr const char* kExportInterrupted = "export.interrupted";

struct OutputOptions {
  std::string folder;
  bool ane_book = false;          // names and manifest of frontends/export/ane_book.h as well
  std::string book_model;         // the MODEL of these names; empty: that of the source
  bool sha256 = false;            // record the SHA-256 of each file in the manifest
  uint64_t expert_alignment = 0;  // EmitOptions::expert_alignment
  OnnxOptions onnx;
  GgufOptions gguf;
  bool force = false;  // discard what an earlier export left in the folder and start over
};

// Each may be empty. They are called by several threads at once.
struct ExportCallbacks {
  std::function<bool()> stop;  // polled between tiles; true ends the export with an error
  ProgressCallback progress;
};

struct ExportOptions {
  SourceOptions source;
  CompileOptions compile;
  ValueOptions values;  // that are allowed
  OutputOptions output;
  ExportResources resources;
  ExportCallbacks callbacks;
};

}  // namespace moec
