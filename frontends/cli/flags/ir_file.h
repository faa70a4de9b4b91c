// A file for `moec opt`: a shard in text form, or an `.ir` test or reproducer, of which the first
// case is taken. The run line of those names passes and options:
//
//   // run: lower_router,linear_to_conv routing=iterate
//   shard a model { … }
//   // expect            (and all behind it is not read)
#pragma once

#include <string>
#include <string_view>

#include "passes/pipeline.h"

namespace moec {

struct IrFile {
  std::string input;   // the text of the shard, as many lines down as in the file
  std::string passes;  // empty: no run line, or one that names no pass
  PassOptions options;
};

// The options of the run line are set on top of `defaults`. Errors: passes.option.
Result<IrFile> split_ir_file(std::string_view text, const PassOptions& defaults);

}  // namespace moec
