// Cuts a text that is longer than a shard's width into overlapping windows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// How many tokens before and behind its own the logits of a token depend on, through all layers.
struct Reach {
  int64_t back = 0, ahead = 0;
  bool operator==(const Reach&) const = default;
};

Reach reach_of(const Manifest& manifest);

// Tokens begin … end - 1 are run; the logits of keep_begin … keep_end - 1 are kept.
struct TextWindow {
  int64_t begin = 0, end = 0, keep_begin = 0, keep_end = 0;
  bool operator==(const TextWindow&) const = default;
};

// Windows of at most `width` tokens. Each token of the text is kept in exactly one window, which
// also has all tokens that its logits depend on. Error run.width if the width is too small for
// that.
Result<std::vector<TextWindow>> cut_windows(int64_t tokens, int64_t width, Reach reach);

// The warning export.short_texts for an export that labels tokens, but whose widths are too small
// to cut longer texts into windows.
std::optional<Diagnostic> warn_of_width(const Manifest& manifest);

}  // namespace moec
