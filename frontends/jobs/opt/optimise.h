// Runs passes over a shard in text form.
#pragma once

#include <functional>
#include <string>

#include "frontends/jobs/opt/ir_file.h"
#include "passes/pipeline.h"

namespace moec {

struct OptInput {
  std::string path;
  Shard shard;  // verifies
  IrFile file;  // with the passes and options of the run line
  PassOptions defaults;
};

// Gets the text of a shard with findings under the lines that they concern.
using ShowFindings = std::function<void(const std::string& text)>;

// Reads the shard of a file (ir_file.h) and verifies it. `show` is called where it does not verify.
// Errors: opt.unreadable, passes.option, those of the parser and of the verifier.
Result<OptInput> read_opt_input(const std::string& path, const PassOptions& defaults,
                                const ShowFindings& show = {});

struct Optimised {
  PipelineResult result;
  Diagnostics notes;
};

// Runs the passes that are named, with the default options. Without names, runs those of the file,
// or the whole pipeline where it names none, with the options of the file. Errors: those of
// parse_pipeline() and run_pipeline().
Result<Optimised> optimise(const OptInput& input, const std::string& passes, const RunOptions& run);

}  // namespace moec
