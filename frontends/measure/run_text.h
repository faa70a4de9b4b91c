// Runs a text through the session of an export.
#pragma once

#include "backends/runtime/session/session.h"
#include "frontends/measure/observer.h"

namespace moec {

// Calls `pass` for consecutive chunks of the tokens, the first at `position`. `size` returns the
// size of the next chunk for a number of remaining tokens. Errors: those of `pass`.
using ChunkSize = std::function<int64_t(int64_t remaining)>;
Status each_chunk(
    std::span<const int64_t> tokens, int64_t position, const ChunkSize& size,
    const std::function<Status(std::span<const int64_t> chunk, int64_t position)>& pass);

// Replaces the session's chunk sizes, and Session::pass(), if not empty.
struct ChunkRun {
  std::function<Status(const TextChunk& chunk, const StepProbe& probe)> pass;
  ChunkSize size;
};

// Runs the windows of a text in order. A chunk lies in one window. Resets the session before each
// window. Errors: those of Session and of the callbacks.
Status run_text(Session& session, const Text& text, const Observer& observer,
                const ChunkRun& run = {});

}  // namespace moec
