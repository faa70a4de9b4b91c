// Writes the files of a split. A node is complete when its first file is there, which is written
// last: until then nothing loads it.
#pragma once

#include <map>
#include <string>

#include "frontends/jobs/split/moe_source.h"
#include "frontends/jobs/split/split_options.h"
#include "frontends/jobs/split/split_plan.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct WrittenSplit {
  std::map<std::string, std::string> digests;  // of each file, by its path in the folder
  bool trunk_linked = true;  // false: the file system has no hard links, each node has a copy
};

// The files are copied in pieces of a few MiB. Errors: kSplitInterrupted, split.source_changed (a
// file of the source has another size than when it was read), those of RegularFile and OutputFile.
Result<WrittenSplit> write_split(const SplitOptions& options, const MoeSource& source,
                                 const SplitPlan& plan);

}  // namespace moec
