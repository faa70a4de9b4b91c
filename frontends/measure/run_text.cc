#include "frontends/measure/run_text.h"

namespace moec {
namespace {

class TextRunner {
 public:
  TextRunner(Session& session, const Text& text, const Observer& observer, const ChunkRun& run)
      : session_(session), text_(text), observer_(observer), run_(run) {}

  Status run() {
    if (observer_.routing)
      session_.observe_routing([this](int64_t layer, int64_t position, const Rows& weights) {
        // Observers of a session report positions in the window.
        observer_.routing(layer, chunk_.first - chunk_.position + position, weights);
      });
    const Status done = run_windows();
    // The callback refers to this object. It must be removed on errors, too, because the session
    // outlives this object.
    if (observer_.routing) session_.observe_routing({});
    return done;
  }

 private:
  Status run_windows() {
    const ChunkSize size = run_.size ? run_.size : [this](int64_t remaining) {
      return session_.chunk_size(remaining);
    };
    for (int64_t window = 0; window < text_.windows(); ++window) {
      // Windows are independent, so each begins with an empty cache at position 0.
      session_.reset();
      const TextChunk whole = chunk_of(text_, window);
      MOEC_TRY(
          each_chunk(whole.tokens, 0, size, [&](std::span<const int64_t> tokens, int64_t position) {
            const bool ends_window = position + std::ssize(tokens) == whole.count();
            chunk_ = {window, whole.first + position, position, tokens, ends_window};
            return run_chunk();
          }));
    }
    return {};
  }

  Status run_chunk() {
    if (observer_.begin) MOEC_TRY(observer_.begin(chunk_));
    // Without a probe, engines need not expose inner values.
    StepProbe probe;
    if (observer_.value)
      probe = [this](const manifest::Shard& shard, std::string_view label, const Tensor& value) {
        observer_.value(chunk_, shard, label, value);
      };
    if (run_.pass)
      MOEC_TRY(run_.pass(chunk_, probe));
    else
      MOEC_TRY(session_.pass(chunk_.tokens, chunk_.position, probe));
    return observer_.end ? observer_.end(chunk_) : Status();
  }

  Session& session_;
  const Text& text_;
  const Observer& observer_;
  const ChunkRun& run_;
  TextChunk chunk_;  // the current one
};

}  // namespace

Status each_chunk(
    std::span<const int64_t> tokens, int64_t position, const ChunkSize& size,
    const std::function<Status(std::span<const int64_t> chunk, int64_t position)>& pass) {
  while (!tokens.empty()) {
    const auto chunk = tokens.first(static_cast<size_t>(size(std::ssize(tokens))));
    MOEC_TRY(pass(chunk, position));
    position += std::ssize(chunk);
    tokens = tokens.subspan(chunk.size());
  }
  return {};
}

Status run_text(Session& session, const Text& text, const Observer& observer, const ChunkRun& run) {
  return TextRunner(session, text, observer, run).run();
}

}  // namespace moec
