// What a split has written, or would write.
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

// Writes the files of a split. A node is complete when its first file is there, which is written
// last: until then nothing loads it.

struct WrittenSplit {
  std::map<std::string, std::string> digests;  // of each file, by its path in the folder
  bool trunk_linked = true;  // false: the file system has no hard links, each node has a copy
};

// The files are copied in pieces of a few MiB. Errors: kSplitInterrupted, split.source_changed (a
// file of the source has another size than when it was read), those of RegularFile and OutputFile.
Result<WrittenSplit> write_split(const SplitOptions& options, const MoeSource& source,
                                 const SplitPlan& plan);

// What a node's routing weights are, compared with those of the whole model.
enum class NodeRouting : uint8_t { whole, masked, compensated, inflated, unknown };
constexpr auto enum_names(NodeRouting) {
  return name_table<NodeRouting>({"whole", "masked", "compensated", "inflated", "unknown"});
}

struct SplitReport {
  std::string source, out;
  std::string arch, digest;  // MoeSource
  int64_t experts = 0;       // of each layer of the source
  KeptRouting routing = KeptRouting::unknown;
  SplitPlan plan;
  bool dry_run = false;
  WrittenSplit written;
  Diagnostics notes;

  NodeRouting routing_of(const NodePlan& node) const;
};

// The source, the bytes of the trunk and of all files that are written, and of each node its
// experts, routing and files with their bytes; their digests where they are written.
nlohmann::ordered_json split_json(const SplitReport& report, double seconds);

// The text of split.json: the same of the source and its nodes, and whether all files are there.
std::string split_index_text(const SplitReport& report, bool finished);

}  // namespace moec
