// Runs the texts of several clients with one session, in turn: one step of each, then the next
// step of each. A thread of its own owns the session.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "backends/runtime/session/session.h"
#include "backends/runtime/text/generate.h"
#include "frontends/jobs/serve/serve_options.h"

namespace moec {

// Sequences whose caches stay in memory when a text is done, so that a prompt that begins as one of
// them needs only its rest to run. The tokens that a text wrote count as much as those of its
// prompt.

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

// A text that is being written, as its client sees it. Any thread may use it.
class Ticket {
 public:
  // What has happened since the last look.
  struct News {
    std::vector<int64_t> tokens;
    std::vector<TokenLogprobs> logprobs;  // of each token, if the request asks for them
    std::optional<StoppedBy> stopped_by;  // the text is done
    std::optional<Diagnostics> error;     // and will not be
    bool over() const { return stopped_by || error; }
  };
  // Waits until there is news, at most so long.
  News wait(std::chrono::milliseconds most);
  // The client wants no more: the text ends with its next step.
  void cancel();
  // How many tokens of the prompt were in a cache; known with the first token.
  int64_t reused() const;

 private:
  friend class Scheduler;
  void tell(const News& news);
  bool cancelled() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  News news_;
  int64_t reused_ = 0;
  bool cancelled_ = false;
};

class Scheduler {
 public:
  Scheduler(Session session, const SchedulerLimits& limits);
  ~Scheduler();
  // Ends the texts that are not done with serve.stopping, and takes no more.
  void stop();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  const Manifest& manifest() const { return session_.manifest(); }
  // Errors: serve.busy (as many texts wait as may), serve.stopping.
  Result<std::shared_ptr<Ticket>> submit(std::vector<int64_t> prompt,
                                         const GenerateOptions& options);

 private:
  struct Job {
    std::vector<int64_t> prompt;
    GenerateOptions options;
    std::shared_ptr<Ticket> ticket;
    std::optional<TextWriter> writer;  // from when it has a sequence
    size_t slot = 0;
    Sequence sequence;
  };

  void run();
  bool admit();           // false: the scheduler ends
  void drop_cancelled();  // of those that wait
  void start(Job& job, KeptSequences::Taken taken);
  bool step(Job& job);  // false: the text is over
  void finish(Job& job, const Ticket::News& news);

  Session session_;
  SchedulerLimits limits_;
  KeptSequences kept_;
  std::deque<Job> active_;  // of the thread alone

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> waiting_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all others
};

}  // namespace moec
