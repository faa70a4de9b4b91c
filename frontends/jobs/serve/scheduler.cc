#include "frontends/jobs/serve/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/manifest/expert_grid.h"

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
  // Tokens after `position` were not run and are not in the caches.
  tokens.resize(static_cast<size_t>(sequence.position));
  kept_[slot] = {false, ++clock_, std::move(sequence), std::move(tokens)};
}

void KeptSequences::drop(size_t slot) { kept_[slot] = {}; }

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

Scheduler::Scheduler(Session session, const SchedulerLimits& limits)
    : session_(std::move(session)),
      available_(session_.available()),
      limits_(limits),
      kept_(static_cast<size_t>(limits.sequences)),
      thread_([this] { run(); }) {}

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

Result<RoutingMass> Scheduler::probe(std::vector<int64_t> tokens) {
  std::future<Result<RoutingMass>> answer;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return stopping();
    if (std::ssize(probes_) >= limits_.waiting)
      return fail("serve.busy", fmt::format("{} probes are waiting", probes_.size()),
                  "try again later, or start the server with a larger --waiting");
    probes_.push_back({std::move(tokens), {}});
    answer = probes_.back().answer.get_future();
  }
  wake_.notify_all();
  return answer.get();
}

RoutingMass Scheduler::gates() const {
  const std::lock_guard lock(mutex_);
  return gates_;
}

// Runs in the session's current sequence, which no text uses.
Result<RoutingMass> Scheduler::run_probe(const std::vector<int64_t>& tokens) {
  RoutingMass mass;
  session_.observe_wanted(
      [&](int64_t layer, int64_t, const Rows& weights) { mass.add(layer, weights); });
  session_.reset();
  const auto fed = session_.feed(tokens, {}, LogitsOf::none);
  log_gates();
  if (!fed) return fail(fed.error());
  if (!mass.empty()) return mass;
  return fail("serve.no_routing", "the export has no separate routers",
              "export the model with --routing host, or with --expert-groups for nodes");
}

void Scheduler::run_probes() {
  std::unique_lock lock(mutex_);
  while (!probes_.empty()) {
    ProbeJob job = std::move(probes_.front());
    probes_.pop_front();
    // Unlocked while the session runs, so that requests can be queued.
    lock.unlock();
    job.answer.set_value(run_probe(job.tokens));
    lock.lock();
  }
}

// Observes the routers of texts if a mask hides what they want.
void Scheduler::log_gates() {
  if (available_.layers.empty()) return session_.observe_wanted({});
  const int64_t first = expert_grid(manifest()).layers.front();
  session_.observe_wanted([this, first](int64_t layer, int64_t, const Rows& weights) {
    const std::lock_guard lock(mutex_);
    // Once for the tokens of a chunk, whose first router runs first.
    if (layer == first)
      gates_.decay(std::exp2(-static_cast<double>(weights.count()) / kGateHalfLife));
    gates_.add(layer, weights);
  });
}

void Scheduler::run() {
  log_gates();
  while (admit()) {
    run_probes();
    // The count is fixed before the loop, so each text runs one step per round.
    const size_t count = active_.size();
    for (size_t i = 0; i < count; ++i) {
      Job job = std::move(active_.front());
      active_.pop_front();
      if (step(job)) active_.push_back(std::move(job));
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

// Assigns free sequences to waiting texts. Blocks while there is nothing to do.
bool Scheduler::admit() {
  std::unique_lock lock(mutex_);
  if (active_.empty())
    wake_.wait(lock, [&] { return stopping_ || !waiting_.empty() || !probes_.empty(); });
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
  for (ProbeJob& job : probes_) job.answer.set_value(stopping());
  probes_.clear();
  return false;
}

void Scheduler::start(Job& job, KeptSequences::Taken taken) {
  // Called with the scheduler's mutex held; the ticket's mutex is always the inner one.
  job.slot = taken.slot;
  job.sequence = std::move(taken.sequence);
  job.writer.emplace(std::vector(job.prompt.begin() + taken.reused, job.prompt.end()), taken.reused,
                     session_.manifest(), job.options);
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
