// Writes a split, and reports a split or a dry run.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/jobs/split/moe_source.h"
#include "frontends/jobs/split/split_options.h"
#include "frontends/jobs/split/split_plan.h"
#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"

namespace moec {

struct WrittenSplit {
  std::map<std::string, std::string> digests;  // by file path in the folder
  bool trunk_linked =
      true;  // false: each node has a copy, because the file system has no hard links
};

// Writes the files of a split in pieces of a few MiB. A node's first file is written last, so that
// nothing can load an incomplete node. Errors: kSplitInterrupted, split.source_changed (a source
// file changed since its header was read), those of RegularFile and OutputFile.
Result<WrittenSplit> write_split(const SplitOptions& options, const MoeSource& source,
                                 const SplitPlan& plan);

// A node's routing weights compared with those of the whole model (README.md).
enum class NodeRouting : uint8_t { whole, masked, compensated, inflated, unknown };
constexpr auto enum_names(NodeRouting) {
  return name_table<NodeRouting>({"whole", "masked", "compensated", "inflated", "unknown"});
}

struct SplitReport {
  std::string source, out;
  std::string arch, digest;  // MoeSource
  int64_t experts = 0;       // per layer of the source
  KeptRouting routing = KeptRouting::unknown;
  SplitPlan plan;
  bool dry_run = false;
  WrittenSplit written;
  Diagnostics notes;

  NodeRouting routing_of(const NodePlan& node) const;
};

// The report as JSON: source, bytes of the trunk and of all written files, and per node its
// experts, routing and files with bytes, and digests if written.
nlohmann::ordered_json split_json(const SplitReport& report, double seconds);

// The text of split.json: `finished`, and the data of source and nodes as in split_json().
std::string split_index_text(const SplitReport& report, bool finished);

}  // namespace moec
