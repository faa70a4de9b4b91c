// The flags of `moec calibrate`.
#pragma once

#include <string>
#include <vector>

#include "frontends/jobs/calibrate/calibrate_options.h"
#include "frontends/sources/family_options.h"
#include "ir/base/diagnostics.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct CalibrateFlags {
  FamilyOptions family;
  std::string source, out, tokens, group_memory, part;
  std::vector<std::string> texts;
  int64_t window = 256;
  int threads = 0;  // 0: one per core
  bool join = false, sensitivity = false, quiet = false, json = false;
};

void add_calibrate_flags(CLI::App& command, CalibrateFlags& flags);

// Errors: cli.bytes (--group-memory is not an amount of memory), calibrate.part (--part is not
// I/N).
Result<CalibrateOptions> calibrate_options(const CalibrateFlags& flags);

}  // namespace moec
