// Traces of experts: which experts the tokens of a text chose, layer by layer. A trace is a file of
// one of two forms, with the same rows:
//
// csv, which other tools of this field read (those that want `layer,expert` take two columns):
//
//   layer,token,expert,weight
//   0,0,3,0.625
//   0,0,7,0.375
//
// binary, little-endian, about 7 bytes an expert:
//
//   8 bytes  "MOECTRC\n"
//   u32      version, 1
//   u32      0
//   u64      rows; all bits are set until the file is finished
//   groups   u32 token, u16 layer, u16 n, then n of: u16 expert, f32 weight
//
// Tokens are numbered through all documents of a text. Weights are the routing weights that the
// model multiplies with; both forms hold them exactly.
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

// By the ending of the file: .moetrace and .bin are binary, all others csv.
TraceForm trace_form_of(const std::string& path);

class TraceWriter {
 public:
  // Error trace.write.
  static Result<TraceWriter> open(const std::string& path, TraceForm form);

  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();

  // Rows of one layer and token should follow one another. Layers and experts are below 65,536.
  void add(const TraceRow& row);
  // Finishes the file, which has its name only then: an earlier one stays until it is replaced.
  // Error trace.write: not all rows could be written.
  Status close();

 private:
  struct File;
  explicit TraceWriter(std::unique_ptr<File> file);
  void write_group();
  std::unique_ptr<File> file_;
};

// Reads a file of either form, whatever its name. The rows are sorted by token, layer and expert.
// Errors: trace.file (cannot be read), trace.version, trace.unfinished (its writer was stopped),
// trace.truncated, trace.row (a row of another form, with its line or offset), trace.twice (an
// expert twice of one token), trace.empty.
Result<std::vector<TraceRow>> read_trace(const std::string& path);
Result<std::vector<TraceRow>> parse_trace(std::string_view bytes, const std::string& file);

}  // namespace moec
