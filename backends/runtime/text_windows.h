// A text that is longer than a shard's width, read in overlapping windows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// How far the logits of a token depend on others, through all layers.
struct Reach {
  int64_t back = 0, ahead = 0;
  bool operator==(const Reach&) const = default;
};

Reach reach_of(const Manifest& manifest);

// Tokens begin … end - 1 are read, and of these keep_begin … keep_end - 1 are kept.
struct TextWindow {
  int64_t begin = 0, end = 0, keep_begin = 0, keep_end = 0;
  bool operator==(const TextWindow&) const = default;
};

// Windows of at most `width` tokens that keep each token of the text once, and with it all that its
// logits depend on. Error run.width where the width is too small for that.
Result<std::vector<TextWindow>> cut_windows(int64_t tokens, int64_t width, Reach reach);

// Warning export.short_texts, where an export labels tokens but its widths are too small to read
// any text of its context in windows.
std::optional<Diagnostic> warn_of_width(const Manifest& manifest);

}  // namespace moec
