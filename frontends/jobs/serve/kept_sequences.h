// Prefix cache of a server.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/runtime/session/session.h"

namespace moec {

// Keeps the sequences of finished texts, with prompt and generated tokens. A prompt
// with the same prefix as a kept sequence runs only its remaining tokens.
class KeptSequences {
 public:
  // Keeps at most `most` sequences, which are created on demand.
  explicit KeptSequences(size_t most) : kept_(most) {}

  // A sequence in use. `reused` is the number of prompt tokens that its caches contain.
  struct Taken {
    size_t slot = 0;
    Sequence sequence;
    int64_t reused = 0;
  };
  // Returns a sequence that starts with the longest prefix of the prompt among the free sequences,
  // or nothing if all are in use. If the prefix is at least half of the kept sequence, that
  // sequence is truncated and used. Otherwise a copy replaces the least recently used one. The last
  // prompt token is never reused, because its logits are needed. Does not change the session's
  // current sequence.
  std::optional<Taken> take(std::span<const int64_t> prompt, Session& session);
  // Frees the slot and keeps its sequence. The first `sequence.position` elements of `tokens` must
  // be the tokens in its caches.
  void give_back(size_t slot, Sequence sequence, std::vector<int64_t> tokens);
  // Frees the slot and discards its sequence, so that its caches are never reused.
  void drop(size_t slot);
  // Discards all sequences: the free ones at once, those in use when they are given back.
  void forget();

 private:
  struct Kept {
    bool in_use = false;
    bool outdated = false;    // discarded when it is given back
    uint64_t given_back = 0;  // value of clock_ at give_back(); 0: empty
    Sequence sequence;
    std::vector<int64_t> tokens;
  };
  std::optional<size_t> best_for(std::span<const int64_t> prompt) const;
  size_t oldest() const;  // the least recently used free sequence

  std::vector<Kept> kept_;
  uint64_t clock_ = 0;
};

}  // namespace moec
