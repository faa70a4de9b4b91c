// Runs passes over a shard in text form.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "passes/pipeline.h"

namespace moec {

// A file that passes are run over: a shard in text form, an `.ir` test or a reproducer. Of a test
// with several cases the first one is read. The run line of a test or reproducer names passes and
// options:
//
//   // run: lower_router,linear_to_conv routing=iterate
//   shard a model { … }
//   // expect            (nothing after this line is read)

struct IrFile {
  std::string input;   // the text of the shard, with the line numbers that it has in the file
  std::string passes;  // empty if there is no run line, or one that names no pass
  PassOptions options;
};

// The options of the run line replace those of `defaults`. Error: passes.option.
Result<IrFile> split_ir_file(std::string_view text, const PassOptions& defaults);

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

// The shard's name, its IR as text, and the passes with their times and numbers of ops.
nlohmann::ordered_json optimised_json(const Optimised& optimised);

// All passes, with the forms that they take and return.
nlohmann::ordered_json passes_json();

}  // namespace moec
