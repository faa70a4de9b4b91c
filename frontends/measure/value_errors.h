// Errors of the values inside the graphs of an export.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "frontends/measure/metrics.h"
#include "frontends/measure/node_data.h"

namespace moec {

// A graph of an export: its file and, if the file has several, its function.
struct GraphPlace {
  std::string file, function;
  auto operator<=>(const GraphPlace&) const = default;
};

class ValueErrors {
 public:
  // Adds elements of the value `label` of a graph, or of its output port `label`. `found` and
  // `wanted` have equal sizes. Equal infinities are no error; other elements of `found` that are
  // NaN or infinite make the error infinite.
  void add(const manifest::Width& width, std::string_view label, std::span<const float> found,
           std::span<const float> wanted);
  bool empty() const { return graphs_.empty(); }

  // Returns the overlay "error" with the relative L2 error of each op in the export `folder`. An op
  // with several compared results has the largest of their errors. Errors: those of read_manifest()
  // and read_shard().
  Result<NodeOverlay> overlay(const std::string& folder, const std::string& title) const;

 private:
  using ByLabel = std::map<std::string, Comparer, std::less<>>;

  std::map<GraphPlace, ByLabel> graphs_;
};

// Writes the overlay of the errors; an empty path writes nothing. Errors: node_data.empty (no value
// was compared), those of ValueErrors::overlay() and write_node_data().
Status write_errors(const UserOutput& out, const ValueErrors& errors, const std::string& folder,
                    const std::string& title);

}  // namespace moec
