// Sequences whose caches stay in memory when a text is done, so that a prompt that begins as one of
// them needs only its rest to run. The tokens that a text wrote count as much as those of its
// prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/runtime/session/session.h"

namespace moec {

class KeptSequences {
 public:
  // Room for `most` sequences, which are made when they are needed.
  explicit KeptSequences(size_t most) : kept_(most) {}

  // A sequence that is in use, and how many of the prompt's tokens it has.
  struct Taken {
    size_t slot = 0;
    Sequence sequence;
    int64_t reused = 0;
  };
  // A sequence with the longest beginning of the prompt that one of those has that are not in use.
  // It is that one, cut, where the prompt has half of its tokens or more; else a copy of it, in the
  // place of the one that was given back first. The last token of the prompt is never reused: its
  // logits are needed. Nothing: all are in use. The session's own sequence is as before.
  std::optional<Taken> take(std::span<const int64_t> prompt, Session& session);
  // Puts it back with the tokens that are in its caches, as many as its position says.
  void give_back(size_t slot, Sequence sequence, std::vector<int64_t> tokens);
  // Puts back an empty one: what was computed is not to be used again.
  void drop(size_t slot);

 private:
  struct Kept {
    bool in_use = false;
    uint64_t given_back = 0;  // in which order; 0: it is empty
    Sequence sequence;
    std::vector<int64_t> tokens;
  };
  std::optional<size_t> best_for(std::span<const int64_t> prompt) const;
  size_t oldest() const;  // of those that are not in use

  std::vector<Kept> kept_;
  uint64_t clock_ = 0;
};

}  // namespace moec
