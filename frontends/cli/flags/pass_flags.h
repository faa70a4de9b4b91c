// The flags that choose the target and the forms that passes give a shard, and those for debugging
// passes. Shared by export, plan and opt.
#pragma once

#include <string>
#include <vector>

#include "ir/model/plan.h"
#include "passes/pipeline.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// The values as text. The parser accepts only names of the enum, and lists them if one is wrong.
struct PassFlags {
  std::string routing = "rank";
  std::string experts = "unrolled";
  std::string target = "onnx";
  std::string chip;                  // empty: the rules of all chips
  std::string attention, form, sum;  // empty: what the target prefers
  int64_t bank_channel_limit = PassOptions{}.bank_channel_limit;
  std::vector<std::string> skip, dump_after;
  std::string dump_dir;
  int64_t bisect = -1;  // below 0: all passes
};

void add_pass_flags(CLI::App& command, PassFlags& flags);

// Errors: those of find_target() and for_chip().
Result<PassOptions> pass_options(const PassFlags& flags);
// Error passes.unknown: --skip-pass names no pass.
Result<RunOptions> run_options(const PassFlags& flags);

}  // namespace moec
