// What `moec split` is asked to do, as a program without a command line would say it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace moec {

// The code of the error that ends a split when SplitOptions::stop returns true.
inline constexpr const char* kSplitInterrupted = "split.interrupted";

struct SplitOptions {
  std::string source;  // a GGUF file, the first one of a model in several; or an exported folder
  std::string out;     // folder, of which each node gets one
  // Which experts each node gets: exactly one of these three is given.
  std::string place_file;   // groups as in ir/experts/expert_groups.h
  int64_t groups = 0;       // so many nodes with runs of consecutive experts, of each group of a
                            // router where they can be divided
  std::string expert_list;  // one node, as in ir/experts/expert_sets.h
  // A profile (ir/experts/expert_profile.h), from which routing weights are corrected that the
  // router does not normalise; empty: they are not.
  std::string profile;
  bool allow_uncovered = false;  // experts may be on no node
  bool force = false;            // replaces what an earlier split wrote
  bool dry_run = false;          // plans and reports, writes nothing; `out` may be empty
  // Each may be empty. `progress` is told of each piece that was copied: its bytes, those of all
  // files, and the file.
  std::function<bool()> stop;
  std::function<void(uint64_t bytes, uint64_t total, const std::string& file)> progress;
};

}  // namespace moec
