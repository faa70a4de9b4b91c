// Generates the texts of several clients with one session, round-robin by step. The scheduler's
// thread owns the session.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "backends/runtime/session/routing_mass.h"
#include "backends/runtime/session/session.h"
#include "backends/runtime/text/generate.h"
#include "frontends/jobs/serve/serve_options.h"

namespace moec {

// Prefix cache: keeps the sequences of finished texts, with prompt and generated tokens. A prompt
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

 private:
  struct Kept {
    bool in_use = false;
    uint64_t given_back = 0;  // value of clock_ at give_back(); 0: empty
    Sequence sequence;
    std::vector<int64_t> tokens;
  };
  std::optional<size_t> best_for(std::span<const int64_t> prompt) const;
  size_t oldest() const;  // the least recently used free sequence

  std::vector<Kept> kept_;
  uint64_t clock_ = 0;
};

// The client's handle of a text in progress. Thread-safe.
class Ticket {
 public:
  // Events since the last call of wait().
  struct News {
    std::vector<int64_t> tokens;
    std::vector<TokenLogprobs> logprobs;  // one per token, if requested
    std::optional<StoppedBy> stopped_by;  // set when the text is complete
    std::optional<Diagnostics> error;     // set when the text has failed
    bool over() const { return stopped_by || error; }
  };
  // Waits at most `most` for news.
  News wait(std::chrono::milliseconds most);
  // Ends the text at its next step.
  void cancel();
  // Number of prompt tokens that were in a cache; valid once the first token has arrived.
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

// Tokens after which a logged routing weight counts half.
inline constexpr double kGateHalfLife = 10'000;

class Scheduler {
 public:
  Scheduler(Session session, const SchedulerLimits& limits);
  ~Scheduler();
  // Ends incomplete texts with serve.stopping and accepts no new ones.
  void stop();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  const Manifest& manifest() const { return session_.manifest(); }
  // Experts that texts can choose.
  const ExpertSets& available() const { return available_; }
  // Runs tokens as the beginning of a text, and returns the routing weights that they would have
  // without the mask of a node. Waits until the texts in progress have finished their steps.
  // Errors: serve.no_routing (the routers are not separate shards), serve.stopping, those of
  // Session::feed().
  Result<RoutingMass> probe(std::vector<int64_t> tokens);
  // Returns the routing weights that the texts of a node wanted, with a half-life of
  // kGateHalfLife tokens; empty if the folder
  // is not a node and has no mask.
  RoutingMass gates() const;
  // Queues a text. Errors: serve.busy (the queue is full), serve.stopping.
  Result<std::shared_ptr<Ticket>> submit(std::vector<int64_t> prompt,
                                         const GenerateOptions& options);

 private:
  struct Job {
    std::vector<int64_t> prompt;
    GenerateOptions options;
    std::shared_ptr<Ticket> ticket;
    std::optional<TextWriter> writer;  // set once the job has a sequence
    size_t slot = 0;
    Sequence sequence;
  };

  struct ProbeJob {
    std::vector<int64_t> tokens;
    std::promise<Result<RoutingMass>> answer;
  };

  void run();
  void run_probes();
  Result<RoutingMass> run_probe(const std::vector<int64_t>& tokens);
  void log_gates();
  bool admit();           // false: the scheduler must end
  void drop_cancelled();  // from waiting_
  void start(Job& job, KeptSequences::Taken taken);
  bool step(Job& job);  // false: the text is complete
  void finish(Job& job, const Ticket::News& news);

  Session session_;
  const ExpertSets available_;
  SchedulerLimits limits_;
  KeptSequences kept_;
  std::deque<Job> active_;  // used by thread_ only

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> waiting_;
  std::deque<ProbeJob> probes_;
  RoutingMass gates_;
  bool stopping_ = false;
  std::thread thread_;  // last member, because it uses all other members
};

}  // namespace moec
