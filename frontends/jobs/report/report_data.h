// The data of a report page about an export, from its manifest and the passes in report.json.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_profile.h"

namespace moec {

// A pass that changed a shard, with its position in the pipeline.
struct PassChange {
  int64_t position = 0;
  std::string name;
  int64_t before = 0, after = 0;  // ops of the shard
};

// A file with the time at which it was written, as its file system states.
struct TimedFile {
  std::filesystem::file_time_type time;
  int64_t bytes = 0;
};

// Shard name → its changes in the order of passes.
using PassesOfShards = std::map<std::string, std::vector<PassChange>>;

// One export. An export that was split has several folders, one per node.
struct ReportedExport {
  std::string folder;
  std::vector<Manifest> parts;     // at least one
  PassesOfShards passes;           // of the first part's report.json; empty: absent
  std::vector<TimedFile> written;  // the files of all shards
};

// Opens an export, or the nodes of a folder that moec split wrote. Errors: report.source (neither),
// report.malformed (report.json), those of read_manifest() and read_text_file().
Result<ReportedExport> open_reported(const std::string& folder);

// Returns {"exports": [EXPORT, …]}, with the second export for comparison. Shards with equal
// ops, placement and passes share an entry of "kinds", because an export may have tens of thousands
// of shards. `profile` adds the use of experts. Errors: report.profile (the profile's
// numbers of experts or layers are not those of the export), those of parse_expert_sets().
Result<nlohmann::ordered_json> report_data(const std::vector<ReportedExport>& exports,
                                           const std::optional<ExpertProfile>& profile);

}  // namespace moec
