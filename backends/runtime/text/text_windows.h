// Cuts a text that is longer than the widest shard into overlapping windows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Maximum number of tokens before and after a token on which its logits depend, over all layers.
struct Reach {
  int64_t back = 0, ahead = 0;
  bool operator==(const Reach&) const = default;
};

Reach reach_of(const Manifest& manifest);

// A window that runs tokens [begin, end), of which only the logits of [keep_begin, keep_end) are
// used.
struct TextWindow {
  int64_t begin = 0, end = 0, keep_begin = 0, keep_end = 0;
  bool operator==(const TextWindow&) const = default;
};

// Cuts a text into windows of at most `width` tokens. The logits of each token are used from
// exactly one window, which contains all tokens on which they depend. Error: run.width (`width` is
// not above `reach`).
Result<std::vector<TextWindow>> cut_windows(int64_t tokens, int64_t width, Reach reach);

// Returns the warning export.short_texts if the export labels tokens, but its widest shard is too
// narrow to cut longer texts into windows.
std::optional<Diagnostic> warn_of_width(const Manifest& manifest);

}  // namespace moec
