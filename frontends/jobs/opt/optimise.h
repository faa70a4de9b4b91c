// Runs passes over a shard in text form.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "passes/pipeline.h"

namespace moec {

// An input file for passes: a shard in text form, an `.ir` test or a reproducer. Only the first
// case of a test is read. The run line of a test or reproducer specifies passes and options:
//
//   // run: lower_router,linear_to_conv routing=iterate
//   shard a model { … }
//   // expect            (nothing after this line is read)

struct IrFile {
  std::string input;   // text of the shard; preserves the line numbers of the file
  std::string passes;  // empty if there is no run line, or if it names no passes
  PassOptions options;
};

// Splits the text of a file. Options of the run line override `defaults`. Error: passes.option.
Result<IrFile> split_ir_file(std::string_view text, const PassOptions& defaults);

struct OptInput {
  std::string path;
  Shard shard;  // verified
  IrFile file;  // passes and options of the run line
  PassOptions defaults;
};

// Receives the text of a shard with findings below the lines that they concern.
using ShowFindings = std::function<void(const std::string& text)>;

// Reads and verifies the shard of a file. Calls `show` if verification fails. Errors:
// opt.unreadable, passes.option, those of the parser and of the verifier.
Result<OptInput> read_opt_input(const std::string& path, const PassOptions& defaults,
                                const ShowFindings& show = {});

struct Optimised {
  PipelineResult result;
  Diagnostics notes;
};

// Runs `passes` with the options `input.defaults`. If `passes` is empty, runs the passes of the
// file with the options of the file, or the whole pipeline if the file names no passes. Errors:
// those of parse_pipeline() and run_pipeline().
Result<Optimised> optimise(const OptInput& input, const std::string& passes, const RunOptions& run);

// The shard's name, its IR as text, and the passes with their times and op counts.
nlohmann::ordered_json optimised_json(const Optimised& optimised);

// All passes, with the forms that they accept and return.
nlohmann::ordered_json passes_json();

}  // namespace moec
