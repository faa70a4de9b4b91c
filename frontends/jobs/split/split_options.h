// Options of `moec split`, for programs without a command line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace moec {

// The code of the error that ends a split when SplitOptions::stop returns true.
inline constexpr const char* kSplitInterrupted = "split.interrupted";

struct SplitOptions {
  std::string source;  // the first GGUF file of a model, or an exported folder
  std::string out;     // output folder; each node gets a subfolder
  // Experts per node: exactly one of the following three must be set.
  std::string place_file;  // groups as in ir/experts/expert_groups.h
  // Number of nodes. Each node gets consecutive experts; if the experts of every router group can
  // be divided evenly, it gets a run of each group.
  int64_t groups = 0;
  std::string expert_list;  // one node, as in ir/experts/expert_sets.h
  // A profile (ir/experts/expert_profile.h) to correct routing weights that the router does not
  // normalise; empty: no correction.
  std::string profile;
  // An earlier split of the export (split_update.h), whose files are linked if they are equal.
  // Stays unchanged. Empty: none.
  std::string update;
  bool allow_uncovered = false;  // some experts may be on no node
  bool force = false;            // replace an earlier split
  bool dry_run = false;          // plan and report only; `out` may be empty
  // Each callback may be empty. `stop` returns true to interrupt the split. `progress` is called
  // per copied piece, with the bytes of the piece, the total of all files, and the file.
  std::function<bool()> stop;
  std::function<void(uint64_t bytes, uint64_t total, const std::string& file)> progress;
};

}  // namespace moec
