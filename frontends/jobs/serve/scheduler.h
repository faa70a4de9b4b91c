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
#include <thread>
#include <vector>

#include "backends/runtime/session/session.h"
#include "backends/runtime/text/generate.h"
#include "frontends/jobs/serve/kept_sequences.h"

namespace moec {

struct SchedulerLimits {
  int64_t sequences = 4;  // texts that are written at a time, and whose caches are kept
  int64_t waiting = 64;   // texts that wait for one of them
};

// A text that is being written, as its client sees it. Any thread may use it.
class Ticket {
 public:
  // What has happened since the last look.
  struct News {
    std::vector<int64_t> tokens;
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
