// Observes a text that runs through a model: through the session of an export (run_text.h), or
// through the plan of a checkpoint (window_run.h).
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "backends/manifest/manifest.h"
#include "backends/reference/reference.h"
#include "backends/reference/rows.h"
#include "frontends/measure/text.h"
#include "ir/model/plan.h"

namespace moec {

// Tokens [first, first + count()) that run together: a part of a window in a session, and a whole
// window in a plan. Token numbers continue across windows and do not count padding.
struct TextChunk {
  int64_t window = 0;
  int64_t first = 0;
  int64_t position = 0;  // of the first token in its window
  std::span<const int64_t> tokens;
  bool ends_window = true;

  int64_t count() const { return std::ssize(tokens); }
};

// Returns the chunk of a whole window.
inline TextChunk chunk_of(const Text& text, int64_t window) {
  return {window, at(text.parts, window).first, 0, text.tokens_of(window)};
}

// Callbacks of a run; each may be empty. An error of a callback ends the run.
struct Observer {
  // Called before and after each chunk; in a plan, for each shard.
  std::function<Status(const TextChunk&chunk)> begin, end;

  // Session only. A labelled value of a shard; routing weights [tokens, experts] of a layer for the
  // tokens from number `first` on.
  std::function<void(const TextChunk& chunk, const manifest::Shard& shard, std::string_view label,
                     const Tensor& value)>
      value;
  std::function<void(int64_t layer, int64_t first, const Rows& weights)> routing;

  // Plan only. A shard before it runs; an expert of a layer with the tokens that chose it; the
  // input of a weight matrix.
  std::function<Status(const ShardDecl& shard)> shard;
  std::function<void(const TextChunk& chunk, int64_t layer, const ExpertRows& rows)> experts;
  MatrixProbe matrices;
};

}  // namespace moec
