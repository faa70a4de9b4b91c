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
#include <thread>
#include <vector>

#include "backends/runtime/session/routing_mass.h"
#include "backends/runtime/session/session.h"
#include "backends/runtime/text/generate.h"
#include "frontends/jobs/serve/choice_log.h"
#include "frontends/jobs/serve/kept_sequences.h"
#include "frontends/jobs/serve/serve_options.h"

namespace moec {

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
  // `peers`: those of the session; may be null.
  Scheduler(Session session, const SchedulerLimits& limits,
            const std::shared_ptr<NodePeers>& peers = nullptr);
  ~Scheduler();
  // Ends incomplete texts with serve.stopping and accepts no new ones.
  void stop();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Of the first session. Later ones differ in their experts only (reload_check.h).
  const Manifest& manifest() const { return manifest_; }
  // Experts that the folder has and that texts can choose.
  ExpertSets own_experts() const;
  // Continues all texts with another session, which must pass check_reload(). Texts in progress
  // keep their caches, which the earlier session computed. Prefixes that it computed are not reused
  // for new texts, unless both sessions compute the same results. Waits until the texts in progress
  // have finished their steps. Error serve.stopping.
  Status replace(Session session);
  // Runs tokens as the beginning of a text, and returns the routing weights that they would have
  // without the mask of a node. Waits until the texts in progress have finished their steps.
  // Errors: serve.no_routing (the routers are not separate shards), serve.stopping, those of
  // Session::feed().
  Result<RoutingMass> probe(std::vector<int64_t> tokens);
  // Returns the routing weights that the texts of a node wanted, with a half-life of
  // kGateHalfLife tokens; empty if the folder is not a node and has no mask.
  RoutingMass gates() const;
  // Runs experts for another node, between two steps of this node's texts or while it waits for a
  // peer. Errors: serve.stopping, those of Session::run_experts().
  Result<Rows> run_experts(ExpertCall call);
  // The counts of calls to peers, up to the latest text that has ended; nullopt without peers.
  std::optional<PeerCounts> peer_counts() const;
  // Returns the experts that these texts wanted in a layer.
  LayerChoices choices(int64_t layer) const;
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

  // A request to thread_, whose sender waits for the answer.
  template <class In, class Out>
  struct Request {
    In in;
    std::promise<Out> answer;
  };
  template <class In, class Out>
  using Requests = std::deque<Request<In, Out>>;

  struct Logs {
    RoutingMass gates;
    ChoiceLog choices;
    std::optional<PeerCounts> peers;
  };

  void run();
  // Queues a request and waits for its answer. Error serve.stopping.
  template <class In, class Out>
  Out ask(Requests<In, Out>& requests, In in);
  // Answers all queued requests with run(in), without the mutex.
  template <class In, class Out, class Run>
  void answer_all(Requests<In, Out>& requests, Run run);
  void run_calls();
  void wait_for_peer(const std::function<bool()>& done);
  void observe(RoutingObserver observer);
  Status use_session(Session& next);
  bool idle() const;  // no text and no request
  Result<RoutingMass> run_probe(const std::vector<int64_t>& tokens);
  void log_gates();
  bool admit();           // false: the scheduler must end
  void drop_cancelled();  // from waiting_
  void start(Job& job, KeptSequences::Taken taken);
  bool step(Job& job);  // false: the text is complete
  void finish(Job& job, const Ticket::News& news);

  Session session_;
  const Manifest manifest_;
  SchedulerLimits limits_;
  KeptSequences kept_;
  std::deque<Job> active_;  // used by thread_ only

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> waiting_;
  Requests<std::vector<int64_t>, Result<RoutingMass>> probes_;
  Requests<ExpertCall, Result<Rows>> calls_;
  Requests<Session, Status> replacements_;
  ExpertSets own_experts_;  // written by thread_ only
  Logs logs_;
  bool stopping_ = false;
  std::thread thread_;  // last member, because it uses all other members
};

}  // namespace moec
