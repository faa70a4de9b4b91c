#include "frontends/jobs/serve/kept_sequences.h"

#include <algorithm>
#include <utility>

namespace moec {
namespace {

// Length of the common prefix of `tokens` and of the prompt without its last token, which always
// runs.
int64_t shared(std::span<const int64_t> prompt, const std::vector<int64_t>& tokens) {
  const std::span<const int64_t> all_but_last = prompt.first(prompt.size() - 1);
  const auto ends =
      std::mismatch(all_but_last.begin(), all_but_last.end(), tokens.begin(), tokens.end());
  return ends.first - all_but_last.begin();
}

bool is_finite(const Rows& rows) {
  return std::all_of(rows.data.begin(), rows.data.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

std::optional<size_t> KeptSequences::best_for(std::span<const int64_t> prompt) const {
  std::optional<size_t> best;
  const auto better = [&](const Kept& one, const Kept& other) {
    const int64_t a = shared(prompt, one.tokens), b = shared(prompt, other.tokens);
    // Ties go to the least recently used sequence.
    return a != b ? a > b : one.given_back < other.given_back;
  };
  for (size_t i = 0; i < kept_.size(); ++i)
    if (!kept_[i].in_use && (!best || better(kept_[i], kept_[*best]))) best = i;
  return best;
}

size_t KeptSequences::oldest() const {
  size_t oldest = kept_.size();
  for (size_t i = 0; i < kept_.size(); ++i)
    if (!kept_[i].in_use &&
        (oldest == kept_.size() || kept_[i].given_back < kept_[oldest].given_back))
      oldest = i;
  return oldest;
}

std::optional<KeptSequences::Taken> KeptSequences::take(std::span<const int64_t> prompt,
                                                        Session& session) {
  const auto best = best_for(prompt);
  if (!best) return std::nullopt;
  const int64_t reused = shared(prompt, kept_[*best].tokens);
  const size_t slot = 2 * reused >= std::ssize(kept_[*best].tokens) ? *best : oldest();
  // Moves the caches if the slot is reused, because copies of caches are large.
  Sequence sequence = slot == *best ? std::move(kept_[slot].sequence) : Sequence();
  kept_[slot] = {.in_use = true};
  if (reused == 0) return Taken{slot, session.empty_sequence(), 0};
  // Copies the kept sequence, which stays valid for other prompts.
  if (slot != *best) sequence = kept_[*best].sequence;
  // rewind() acts on the session's current sequence, so the sequence is exchanged for the call.
  Sequence own = session.exchange(std::move(sequence));
  const bool can_rewind = session.rewind(reused);
  // Restores the previous sequence even if the rewind failed.
  sequence = session.exchange(std::move(own));
  if (can_rewind) return Taken{slot, std::move(sequence), reused};
  return Taken{slot, session.empty_sequence(), 0};
}

void KeptSequences::give_back(size_t slot, Sequence sequence, std::vector<int64_t> tokens) {
  if (kept_[slot].outdated) return drop(slot);
  // Tokens after `position` were not run and are not in the caches.
  tokens.resize(static_cast<size_t>(sequence.position));
  kept_[slot] = {false, false, ++clock_, std::move(sequence), std::move(tokens)};
}

void KeptSequences::drop(size_t slot) { kept_[slot] = {}; }

void KeptSequences::forget() {
  for (Kept& one : kept_) one = {.in_use = one.in_use, .outdated = one.in_use};
}

}  // namespace moec
