// A file that passes are run over: a shard in text form, an `.ir` test or a reproducer. Of a test
// with several cases the first one is read. The run line of a test or reproducer names passes and
// options:
//
//   // run: lower_router,linear_to_conv routing=iterate
//   shard a model { … }
//   // expect            (nothing after this line is read)
#pragma once

#include <string>
#include <string_view>

#include "passes/pipeline.h"

namespace moec {

struct IrFile {
  std::string input;   // the text of the shard, with the line numbers that it has in the file
  std::string passes;  // empty if there is no run line, or one that names no pass
  PassOptions options;
};

// The options of the run line replace those of `defaults`. Error: passes.option.
Result<IrFile> split_ir_file(std::string_view text, const PassOptions& defaults);

}  // namespace moec
