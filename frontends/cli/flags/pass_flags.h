// The flags that choose passes and their forms, shared by export and opt.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "passes/pipeline.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// The flags' values as text; CLI11 refuses words that are no name of the enum, and lists the names.
struct PassFlags {
  std::string routing = "rank";
  std::string experts = "unrolled";
  std::string target = "onnx";
  std::string chip;  // empty: all
  // Empty: the target's own.
  std::string attention;
  std::string form;  // of projections
  std::string sum;   // of expert outputs
  int64_t bank_channel_limit = PassOptions{}.bank_channel_limit;
  std::vector<std::string> skip, dump_after;
  std::string dump_dir;
  int64_t bisect = -1;
};

void add_pass_flags(CLI::App& command, PassFlags& flags);

Result<PassOptions> pass_options(const PassFlags& flags);
Result<RunOptions> run_options(const PassFlags& flags);

}  // namespace moec
