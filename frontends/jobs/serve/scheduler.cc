#include "frontends/jobs/serve/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/manifest/expert_grid.h"
#include "frontends/jobs/serve/reload_check.h"

namespace moec {

Ticket::News Ticket::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  // The predicate handles spurious wake-ups and news that came before the wait.
  changed_.wait_for(lock, most, [&] { return !news_.tokens.empty() || news_.over(); });
  // Takes all news at once, so a slow client gets several tokens per event.
  return std::exchange(news_, {});
}

void Ticket::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

bool Ticket::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

int64_t Ticket::reused() const {
  const std::lock_guard lock(mutex_);
  return reused_;
}

void Ticket::tell(const News& news) {
  {
    const std::lock_guard lock(mutex_);
    news_.tokens.insert(news_.tokens.end(), news.tokens.begin(), news.tokens.end());
    news_.logprobs.insert(news_.logprobs.end(), news.logprobs.begin(), news.logprobs.end());
    if (news.stopped_by) news_.stopped_by = news.stopped_by;
    if (news.error) news_.error = news.error;
  }
  // Notifies after unlocking, so that the woken thread does not wait for the mutex.
  changed_.notify_all();
}

Scheduler::Scheduler(Session session, const SchedulerLimits& limits,
                     const std::shared_ptr<NodePeers>& peers)
    : session_(std::move(session)),
      manifest_(session_.manifest()),
      limits_(limits),
      kept_(static_cast<size_t>(limits.sequences)),
      own_experts_(session_.own_experts()),
      logs_{{}, ChoiceLog(expert_grid(manifest_).experts, kGateHalfLife), {}} {
  if (peers) {
    logs_.peers.emplace();
    peers->wait_with({[this](const auto& done) { wait_for_peer(done); },
                      [this] {
                        // Locked, so that the waiting thread cannot miss the change.
                        const std::lock_guard lock(mutex_);
                        wake_.notify_all();
                      }});
  }
  thread_ = std::thread([this] { run(); });
}

void Scheduler::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
}

Scheduler::~Scheduler() {
  stop();
  thread_.join();
}

static tl::unexpected<Diagnostics> stopping() {
  return fail("serve.stopping", "the server is shutting down");
}

Result<std::shared_ptr<Ticket>> Scheduler::submit(std::vector<int64_t> prompt,
                                                  const GenerateOptions& options) {
  auto ticket = std::make_shared<Ticket>();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return stopping();
    // Cancelled texts must not make the queue look full.
    drop_cancelled();
    if (std::ssize(waiting_) >= limits_.waiting)
      return fail("serve.busy", fmt::format("the queue is full with {} texts", waiting_.size()),
                  "try again later, or start the server with a larger --waiting");
    waiting_.push_back({std::move(prompt), options, ticket, {}, 0, {}});
  }
  wake_.notify_all();
  return ticket;
}

template <class In, class Out>
Out Scheduler::ask(Requests<In, Out>& requests, In in) {
  std::future<Out> answer;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return stopping();
    requests.push_back({std::move(in), {}});
    answer = requests.back().answer.get_future();
  }
  wake_.notify_all();
  return answer.get();
}

template <class In, class Out, class Run>
void Scheduler::answer_all(Requests<In, Out>& requests, Run run) {
  std::unique_lock lock(mutex_);
  while (!requests.empty()) {
    {
      Request<In, Out> request = std::move(requests.front());
      requests.pop_front();
      // Unlocked while the session runs, so that requests can be queued.
      lock.unlock();
      request.answer.set_value(run(request.in));
    }
    lock.lock();
  }
}

Result<RoutingMass> Scheduler::probe(std::vector<int64_t> tokens) {
  {
    const std::lock_guard lock(mutex_);
    if (std::ssize(probes_) >= limits_.waiting)
      return fail("serve.busy", fmt::format("{} probes are waiting", probes_.size()),
                  "try again later, or start the server with a larger --waiting");
  }
  return ask(probes_, std::move(tokens));
}

Result<Rows> Scheduler::run_experts(ExpertCall call) { return ask(calls_, std::move(call)); }

Status Scheduler::replace(Session session) { return ask(replacements_, std::move(session)); }

void Scheduler::run_calls() {
  answer_all(calls_, [this](ExpertCall& call) { return session_.run_experts(std::move(call)); });
}

// Runs the calls of other nodes until done(). Two nodes that wait for each other would otherwise
// wait forever.
void Scheduler::wait_for_peer(const std::function<bool()>& done) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return done() || !calls_.empty(); });
      if (done()) return;
    }
    run_calls();
  }
}

std::optional<PeerCounts> Scheduler::peer_counts() const {
  const std::lock_guard lock(mutex_);
  return logs_.peers;
}

// Between two steps no text uses the session: the sequences of texts are in their jobs. The caller
// ends the earlier session, which is in `next` then.
Status Scheduler::use_session(Session& next) {
  ExpertSets own = next.own_experts();
  if (own != own_experts_ || !same_results(session_.manifest(), next.manifest())) kept_.forget();
  {
    const std::lock_guard lock(mutex_);
    own_experts_ = std::move(own);
  }
  std::swap(session_, next);
  log_gates();
  return {};
}

ExpertSets Scheduler::own_experts() const {
  const std::lock_guard lock(mutex_);
  return own_experts_;
}

RoutingMass Scheduler::gates() const {
  const std::lock_guard lock(mutex_);
  return logs_.gates;
}

LayerChoices Scheduler::choices(int64_t layer) const {
  const std::lock_guard lock(mutex_);
  return logs_.choices.layer(layer);
}

// Runs in the session's current sequence, which no text uses.
Result<RoutingMass> Scheduler::run_probe(const std::vector<int64_t>& tokens) {
  RoutingMass mass;
  observe([&](int64_t layer, int64_t, const Rows& weights) { mass.add(layer, weights); });
  session_.reset();
  const auto fed = session_.feed(tokens, {}, LogitsOf::none);
  log_gates();
  if (!fed) return fail(fed.error());
  if (!mass.empty()) return mass;
  return fail("serve.no_routing", "the export has no separate routers",
              "export the model with --routing host, or with --expert-groups for nodes");
}

// Observes what routers choose without a mask. With peers, they have none.
void Scheduler::observe(RoutingObserver observer) {
  session_.peer_counts() ? session_.observe_routing(std::move(observer))
                         : session_.observe_wanted(std::move(observer));
}

// Observes the routers of texts if a mask hides what they want.
void Scheduler::log_gates() {
  if (own_experts_.layers.empty()) return observe({});
  const int64_t first = expert_grid(manifest()).layers.front();
  observe([this, first](int64_t layer, int64_t, const Rows& weights) {
    // One NaN would make all later sums NaN.
    if (!is_finite(weights)) return;
    const std::lock_guard lock(mutex_);
    // Once for the tokens of a chunk, whose first router runs first.
    if (layer == first) {
      logs_.gates.decay(std::exp2(-static_cast<double>(weights.count()) / kGateHalfLife));
      logs_.choices.advance(weights.count());
    }
    logs_.gates.add(layer, weights);
    logs_.choices.add(layer, weights);
  });
}

void Scheduler::run() {
  log_gates();
  while (admit()) {
    run_calls();
    answer_all(replacements_, [this](Session& next) { return use_session(next); });
    answer_all(probes_, [this](const auto& tokens) { return run_probe(tokens); });
    // The count is fixed before the loop, so each text runs one step per round.
    const size_t count = active_.size();
    for (size_t i = 0; i < count; ++i) {
      Job job = std::move(active_.front());
      active_.pop_front();
      if (step(job)) active_.push_back(std::move(job));
      // Another node waits for each call with all of its texts.
      run_calls();
    }
  }
}

void Scheduler::drop_cancelled() {
  std::erase_if(waiting_, [](const Job& job) {
    const bool cancelled = job.ticket->cancelled();
    // Tells the client thread, which may still wait, that no more tokens follow.
    if (cancelled) job.ticket->tell({{}, {}, StoppedBy::max_tokens, {}});
    return cancelled;
  });
}

bool Scheduler::idle() const {
  return active_.empty() && waiting_.empty() && probes_.empty() && replacements_.empty() &&
         calls_.empty();
}

// Assigns free sequences to waiting texts. Blocks while there is nothing to do.
bool Scheduler::admit() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return stopping_ || !idle(); });
  drop_cancelled();
  while (!stopping_ && !waiting_.empty()) {
    auto taken = kept_.take(waiting_.front().prompt, session_);
    // If all sequences are in use, the text waits for the next round.
    if (!taken) return true;
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    start(active_.back(), std::move(*taken));
  }
  if (!stopping_) return true;
  for (std::deque<Job>* jobs : {&active_, &waiting_})
    for (Job& job : *jobs) job.ticket->tell({{}, {}, {}, stopping().value()});
  const auto refuse = [](auto& requests) {
    for (auto& request : requests) request.answer.set_value(stopping());
    requests.clear();
  };
  refuse(probes_);
  refuse(calls_);
  refuse(replacements_);
  return false;
}

void Scheduler::start(Job& job, KeptSequences::Taken taken) {
  // Called with the scheduler's mutex held; the ticket's mutex is always the inner one.
  job.slot = taken.slot;
  job.sequence = std::move(taken.sequence);
  job.writer.emplace(std::vector(job.prompt.begin() + taken.reused, job.prompt.end()), taken.reused,
                     manifest_, job.options);
  const std::lock_guard lock(job.ticket->mutex_);
  job.ticket->reused_ = taken.reused;
}

bool Scheduler::step(Job& job) {
  if (job.ticket->cancelled()) {
    finish(job, {{}, {}, StoppedBy::max_tokens, {}});
    return false;
  }
  Sequence own = session_.exchange(std::move(job.sequence));
  const auto token = job.writer->step(session_);
  job.sequence = session_.exchange(std::move(own));
  if (!token) {
    finish(job, {{}, {}, {}, token.error()});
    return false;
  }
  Ticket::News news;
  if (*token) news.tokens = {**token};
  // The writer keeps the log probabilities of all tokens; the last one belongs to this token.
  if (*token && job.options.top_logprobs) news.logprobs = {job.writer->text().logprobs.back()};
  if (job.writer->done()) news.stopped_by = job.writer->text().stopped_by;
  // A step of a prompt's chunk yields no token and no news.
  if (job.writer->done())
    finish(job, news);
  else if (*token)
    job.ticket->tell(news);
  return !job.writer->done();
}

// Releases the job's sequence. After a failed step, its cache rows may be incomplete, so the
// sequence is dropped.
void Scheduler::finish(Job& job, const Ticket::News& news) {
  if (const PeerCounts* counts = session_.peer_counts()) {
    const std::lock_guard lock(mutex_);
    logs_.peers = *counts;
  }
  std::vector<int64_t> tokens = std::move(job.prompt);
  const auto& written = job.writer->text().tokens;
  // Keeps generated tokens, too, because a later turn of a chat contains them.
  tokens.insert(tokens.end(), written.begin(), written.end());
  if (news.error)
    kept_.drop(job.slot);
  else
    kept_.give_back(job.slot, std::move(job.sequence), std::move(tokens));
  job.ticket->tell(news);
}

}  // namespace moec
