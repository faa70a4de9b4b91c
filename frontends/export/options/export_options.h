// Options of `moec export`, for programs without a command line.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "backends/formats/gguf/gguf_options.h"
#include "backends/formats/onnx/onnx_options.h"
#include "frontends/compile/compile_options.h"
#include "ir/base/share.h"

namespace moec {

// Reports that `bytes` more bytes of a payload of `total` bytes were written. `part` names the
// shard or table. The first call announces `total`, with 0 bytes and an empty `part`.
using ProgressCallback =
    std::function<void(uint64_t bytes, uint64_t total, const std::string& part)>;

// Code of the error that ends an export when ExportCallbacks::stop returns true.
inline constexpr const char* kExportInterrupted = "export.interrupted";

// The runtime whose files are also written: the names and manifest of frontends/export/ane_book.h,
// or the files of frontends/export/pipeline_export.h.
enum class Compat : uint8_t { none, ane_book, genai };
constexpr auto enum_names(Compat) { return name_table<Compat>({"none", "ane-book", "genai"}); }

struct OutputOptions {
  std::string folder;
  Compat compat = Compat::none;
  std::string book_model;  // MODEL in the names of ane_book.h; empty: derived from the source
  bool sha256 = false;     // record the SHA-256 of each file in the manifest
  uint64_t expert_alignment = 0;  // EmitOptions::expert_alignment
  OnnxOptions onnx;
  GgufOptions gguf;
  bool force = false;  // discard an earlier export in the folder and start over
  // Writes only this share, below the folder. A later export with `join` completes the folder.
  std::optional<JobShare> share;
  // True if this process writes the tables: share 0, or an export that is not divided.
  bool has_tables() const { return !share || share->index == 0; }
  bool join = false;  // uses the shares below the folder
};

// Each callback may be empty. Several threads call them concurrently.
struct ExportCallbacks {
  std::function<bool()> stop;  // polled between tiles; true ends the export with an error
  ProgressCallback progress;
};

struct ExportOptions {
  SourceOptions source;
  CompileOptions compile;
  ValueOptions values;  // bad weight values that are allowed
  OutputOptions output;
  ExportResources resources;
  ExportCallbacks callbacks;
};

}  // namespace moec
