// Expert traces: the experts that the tokens of a text chose, layer by layer. A trace is a file in
// one of two formats with the same rows:
//
// csv, which other tools of this field read (tools that need `layer,expert` use columns 1 and
// 3):
//
//   layer,token,expert,weight
//   0,0,3,0.625
//   0,0,7,0.375
//
// binary, little-endian, about 7 bytes per expert:
//
//   8 bytes  "MOECTRC\n"
//   u32      version, 1
//   u32      0
//   u64      rows; all bits are set until the file is finished
//   groups   u32 token, u16 layer, u16 n, then n of: u16 expert, f32 weight
//
// Tokens are numbered consecutively across the documents of a text. Weights are the routing weights
// that the model multiplies by; both formats store them exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"

namespace moec {

struct TraceRow {
  int32_t layer = 0, token = 0, expert = 0;
  float weight = 0;
  bool operator==(const TraceRow&) const = default;
};

enum class TraceForm : uint8_t { csv, binary };
constexpr auto enum_names(TraceForm) { return name_table<TraceForm>({"csv", "binary"}); }

// Returns the format for a file name: binary for .moetrace and .bin, otherwise csv.
TraceForm trace_form_of(const std::string& path);

class TraceWriter {
 public:
  // Error: trace.write.
  static Result<TraceWriter> open(const std::string& path, TraceForm form);

  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();

  // Adds a row. Rows of one layer and token should be consecutive; layers and experts must be below
  // 65,536.
  void add(const TraceRow& row);
  // Finishes the file and renames it to `path` of open(). Until then, an existing file at `path` is
  // unchanged. Error: trace.write (not all rows could be written).
  Status close();

 private:
  struct File;
  explicit TraceWriter(std::unique_ptr<File> file);
  void write_group();
  std::unique_ptr<File> file_;
};

// Reads a file of either format, regardless of its name. Returns the rows sorted by token, layer
// and expert. Errors: trace.file (unreadable), trace.version, trace.unfinished (its writer was
// stopped), trace.truncated, trace.row (a malformed row, with its line or offset), trace.twice (a
// token has an expert twice), trace.empty.
Result<std::vector<TraceRow>> read_trace(const std::string& path);
Result<std::vector<TraceRow>> parse_trace(std::string_view bytes, const std::string& file);

}  // namespace moec
