// Fills the slots of a layer while the layer runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <utility>

#include "backends/residency/pinned_experts.h"
#include "backends/runtime/experts/expert_store_impl.h"
#include "ir/base/at.h"

namespace moec {
namespace {

float weight_of(const Rows& weights, int64_t token, int64_t expert) {
  return at(weights.row(token), expert);
}

// Sets the weights of `experts` to 0 in a token's row. If `normalises`, rescales the other weights
// to preserve the sum. Returns the sum of the removed weights.
double leave_out(std::span<float> row, const std::vector<int64_t>& experts, bool normalises) {
  const double sum = std::accumulate(row.begin(), row.end(), 0.0);
  double dropped = 0;
  for (const int64_t expert : experts) dropped += std::exchange(at(row, expert), 0.0F);
  const double left = sum - dropped;
  if (normalises && dropped > 0 && left > 0)
    for (float& weight : row) weight = static_cast<float>(weight * (sum / left));
  return dropped;
}

}  // namespace

bool ExpertStore::is_reading(const Layer& layer) const {
  return std::any_of(layer.experts.begin(), layer.experts.end(),
                     [&](size_t i) { return experts_[i].is == Residence::reading; });
}

Status ExpertStore::begin_layer(int64_t layer, Rows& weights) {
  std::unique_lock lock(mutex_);
  Layer* slots = find_layer(layer);
  if (!slots) return {};
  // Waits for pending reads, so that the set of skipped experts does not depend on read speed.
  if (options_.on_miss != OnMiss::load) changed_.wait(lock, [&] { return !is_reading(*slots); });
  // The steps of the policy count tokens, so that lcp ages experts independently of the chunk size.
  slots->policy->begin_step(slots->policy->step() + weights.count());
  begin_turn(*slots);
  run_.counts.routed += choose(*slots, weights);
  const int64_t hits = run_.counts.hits;
  count(*slots);
  watch(*slots, weights.count(), run_.counts.hits - hits);
  const Status resolved = resolve_misses(*slots, weights);
  if (resolved && options_.reads != ExpertReads::serial) read_ahead(*slots);
  // Also after an error, because a queued expert counts as being read.
  submit(*slots);
  return resolved;
}

size_t ExpertStore::prefetch_depth() const {
  if (options_.reads != ExpertReads::prefetch || options_.on_miss != OnMiss::load) return 0;
  const std::lock_guard lock(mutex_);
  return run_.depth.depth();
}

void ExpertStore::prefetch(int64_t layer, const Rows& weights, size_t distance) {
  const std::lock_guard lock(mutex_);
  Layer* slots = find_layer(layer);
  if (!slots) return;
  choose(*slots, weights);
  std::vector<size_t> absent;
  for (const size_t i : slots->experts)
    if (experts_[i].is == Residence::absent) absent.push_back(i);
  read_ahead(*slots);
  for (const size_t i : absent)
    if (experts_[i].is != Residence::absent) experts_[i].prefetched = distance;
  submit(*slots);
}

// A layer that is not after the current one begins a new pass.
void ExpertStore::begin_turn(const Layer& layer) {
  const int64_t index = &layer - layers_.data();
  if (index <= run_.layer) {
    ++run_.passes;
    run_.depth.end_step();
  }
  run_.layer = index;
}

// Passes the queued reads of a layer to the loader. Reads of the layers that run next come first,
// so a missing expert does not wait for experts that were prefetched for later layers.
void ExpertStore::submit(const Layer& layer) {
  if (run_.queued.empty()) return;
  const int64_t index = &layer - layers_.data();
  const int64_t passes = run_.passes + (index < run_.layer ? 1 : 0);
  const auto turn = static_cast<uint64_t>(passes * std::ssize(layers_) + index);
  run_.counts.read_calls +=
      static_cast<int64_t>(loader_->load(std::exchange(run_.queued, {}), turn));
}

// Marks the experts with a nonzero weight in any row as chosen. Returns the sum of all weights.
double ExpertStore::choose(Layer& layer, const Rows& weights) {
  double routed = 0;
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    expert.chosen = expert.done = false;
    expert.tokens = 0;
    for (int64_t token = 0; token < weights.count(); ++token) {
      const float weight = weight_of(weights, token, expert.key.expert);
      expert.tokens += weight != 0 ? 1 : 0;
      routed += weight;
    }
    expert.chosen = expert.tokens > 0;
  }
  return routed;
}

// Counts hits and misses among the chosen experts, and reports hits to the policy.
void ExpertStore::count(Layer& layer) {
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    const bool prefetched = expert.prefetched > 0;
    end_prefetch(expert, expert.chosen);
    if (!expert.chosen) continue;
    // `failure` is a Status, which is true on success. An expert whose read failed keeps its slot
    // and is read again.
    const bool is_resident = expert.is == Residence::resident, is_whole = bool(expert.failure);
    ++(is_resident && is_whole && !prefetched ? run_.counts.hits : run_.counts.misses);
    layer.policy->protect(expert.key);
    if (is_resident) layer.policy->hit(expert.key);
    if (is_resident && !is_whole) read(layer, expert, expert.slot);
  }
}

// Records the outcome of a prefetch of the expert, if there was one.
void ExpertStore::end_prefetch(Expert& expert, bool chosen) {
  const size_t distance = std::exchange(expert.prefetched, 0);
  if (distance == 0) return;
  ++(chosen ? run_.counts.prefetched : run_.counts.in_vain);
  run_.depth.note(distance, chosen);
}

// Reports the chosen experts of a step to the observers. After a change of domain, the pinning
// policy pins the experts that were chosen most often in the window that ended.
void ExpertStore::watch(const Layer& layer, int64_t tokens, int64_t hits) {
  ChosenStep step{layer.layer, tokens, {}, hits};
  for (const size_t i : layer.experts)
    if (experts_[i].chosen) step.chosen.push_back({experts_[i].key.expert, experts_[i].tokens});
  // The observers require ascending experts, but a layer lists them in the order of use.
  std::sort(step.chosen.begin(), step.chosen.end(),
            [](const auto& a, const auto& b) { return a.expert < b.expert; });
  if (start_.first) start_.first->note(step);
  const auto change = watch_.window.note(step);
  if (!change) return;
  watch_.changes.push_back(*change);
  if (options_.policy == PolicyKind::pinned)
    pin(most_chosen(watch_.window.ended(), std::ssize(layer.experts)));
  if (options_.on_change) options_.on_change(*change);
}

// Applies OnMiss to the missing experts that exceed the number of free slots.
Status ExpertStore::resolve_misses(Layer& layer, Rows& weights) {
  if (options_.on_miss == OnMiss::load) return {};
  auto free = std::ssize(layer.free);
  std::vector<size_t> skipped;
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    // Short-circuit evaluation decrements `free` only for chosen experts that are absent.
    if (!expert.chosen || expert.is != Residence::absent || free-- > 0) continue;
    if (options_.on_miss == OnMiss::stop)
      return fail("session.expert_missing",
                  fmt::format("expert {} of layer {} is not in any of the layer's {} slots",
                              expert.key.expert, expert.key.layer, capacity_),
                  "pass a larger --capacity or --expert-memory, or --on-miss load");
    skipped.push_back(i);
  }
  // Fill the free slots with experts that this step uses before reading any skipped expert.
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    const bool is_skipped = std::find(skipped.begin(), skipped.end(), i) != skipped.end();
    if (expert.chosen && expert.is == Residence::absent && !is_skipped)
      start_read(layer, expert, false);
  }
  skip(layer, skipped, weights);
  return {};
}

// Removes the skipped experts from this step, and reads them for later steps if a slot is
// available.
void ExpertStore::skip(Layer& layer, const std::vector<size_t>& skipped, Rows& weights) {
  std::vector<int64_t> experts;
  for (const size_t i : skipped) {
    experts.push_back(experts_[i].key.expert);
    experts_[i].chosen = false;
  }
  run_.counts.skipped += std::ssize(skipped);
  const auto columns = static_cast<size_t>(weights.columns);
  for (size_t begin = 0; begin < weights.data.size() && !skipped.empty(); begin += columns)
    run_.counts.dropped +=
        leave_out(std::span(weights.data).subspan(begin, columns), experts, model_.normalises);
  for (const size_t i : skipped) start_read(layer, experts_[i], false);
}

// Starts reads of chosen experts, in order of use, until no slot is available.
void ExpertStore::read_ahead(Layer& layer) {
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    const bool waits = expert.chosen && !expert.done && expert.is == Residence::absent;
    if (waits && !start_read(layer, expert, false)) return;
  }
}

// Returns false if no slot is available now. `needed`: the step waits for this expert, so experts
// of later use can be evicted.
bool ExpertStore::start_read(Layer& layer, Expert& expert, bool needed) {
  const auto slot = take_slot(layer, needed);
  if (!slot) return false;
  layer.policy->insert(expert.key);
  read(layer, expert, *slot);
  return true;
}

// Queues the read of an expert. Callers must call submit() before they release the lock.
void ExpertStore::read(Layer& layer, Expert& expert, size_t slot) {
  std::vector<ExtentRead> reads = place(layer, expert, slot);
  expert.is = Residence::reading;
  for (const ExtentRead& read : reads) run_.counts.bytes_read += read.end - read.begin;
  run_.queued.push_back(
      {std::move(reads), [this, &expert](Status status) { note_read(expert, std::move(status)); }});
}

std::optional<size_t> ExpertStore::take_slot(Layer& layer, bool needed) {
  if (!layer.free.empty()) {
    const size_t slot = layer.free.back();
    layer.free.pop_back();
    return slot;
  }
  const auto key = victim(layer, needed);
  if (!key) return std::nullopt;
  for (const size_t i : layer.experts)
    if (experts_[i].key == *key) {
      // A later prediction for the same step can evict an expert of an earlier one.
      end_prefetch(experts_[i], false);
      experts_[i].is = Residence::absent;
      return experts_[i].slot;
    }
  return std::nullopt;
}

// Returns the expert to evict, preferably one that this step no longer needs. If there is none,
// returns the one that this step uses last if `needed`, else nothing.
std::optional<ExpertId> ExpertStore::victim(Layer& layer, bool needed) {
  ExpertPolicy& policy = *layer.policy;
  const auto protect_all = [&](auto stays) {
    // begin_step() with the current step clears the protections without advancing the step.
    policy.begin_step(policy.step());
    for (const size_t i : layer.experts)
      if (experts_[i].is != Residence::resident || stays(experts_[i]))
        policy.protect(experts_[i].key);
  };
  const auto still_needed = [](const Expert& expert) {
    return expert.in_use || (expert.chosen && !expert.done);
  };
  protect_all(still_needed);
  if (const auto key = policy.evict()) return key;
  if (!needed) return std::nullopt;
  for (size_t n = layer.experts.size(); n-- > 0;) {
    const Expert& last = experts_[layer.experts[n]];
    if (last.is != Residence::resident || last.in_use) continue;
    protect_all([&](const Expert& expert) { return &expert != &last; });
    if (const auto key = policy.evict()) return key;
  }
  return std::nullopt;
}

// Assigns each extent of the expert a place in the slot.
std::vector<ExtentRead> ExpertStore::place(Layer& layer, Expert& expert, size_t slot) {
  const size_t index = static_cast<size_t>(&expert - experts_.data());
  std::byte* to = layer.slots + slot * layer.slot_bytes;
  std::vector<ExtentRead> reads;
  std::map<size_t, std::vector<HeldPiece>> pieces;  // by unit
  for (const ByteExtent& extent : places_.experts()[index].extents) {
    reads.push_back({&files_[extent.file], extent.begin, extent.end, to});
    const size_t unit = *units_.find(extent.file, extent.begin, 0);
    pieces[unit].push_back(
        {extent.begin, extent.end - extent.begin, to + extent.begin % PayloadFile::kBlockBytes});
    to += slot_bytes(extent);
  }
  expert.slot = slot;
  expert.held.clear();
  for (auto& [unit, list] : pieces) expert.held.emplace_back(unit, HeldBytes(std::move(list)));
  return reads;
}

// Called on a loader thread.
void ExpertStore::note_read(Expert& expert, Status status) {
  {
    const std::lock_guard lock(mutex_);
    expert.failure = std::move(status);
    expert.is = Residence::resident;
  }
  changed_.notify_all();
}

tl::unexpected<Diagnostics> ExpertStore::too_few_slots(const Expert& expert) const {
  return fail("session.capacity",
              fmt::format("layer {} needs more experts at once than its {} slots", expert.key.layer,
                          capacity_),
              "pass a larger --capacity or --expert-memory");
}

Result<const HeldBytes*> ExpertStore::acquire(size_t unit) {
  std::unique_lock lock(mutex_);
  Expert& expert = experts_[units_[unit].expert];
  Layer& layer = layers_[expert.layer];
  // Null means that this run does not use the unit (WeightPager::acquire()).
  if (!expert.chosen) return nullptr;
  const auto start = std::chrono::steady_clock::now();
  while (expert.is != Residence::resident) {
    const bool comes = expert.is == Residence::reading || start_read(layer, expert, true);
    submit(layer);
    if (!comes && !is_reading(layer)) return too_few_slots(expert);
    // A wake-up can be spurious or concern another expert, so the loop checks again.
    changed_.wait(lock);
  }
  run_.counts.wait_seconds += seconds_since(start);
  if (!expert.failure) return fail(expert.failure.error());
  MOEC_TRY(files_[units_[unit].file].check_unchanged());
  expert.in_use = true;
  for (const auto& [held_unit, bytes] : expert.held)
    if (held_unit == unit) return &bytes;
  return nullptr;
}

void ExpertStore::release(size_t unit) {
  const std::lock_guard lock(mutex_);
  Expert& expert = experts_[units_[unit].expert];
  expert.in_use = false;
  expert.done = true;
  if (options_.reads == ExpertReads::serial) return;
  Layer& layer = layers_[expert.layer];
  read_ahead(layer);
  submit(layer);
}

}  // namespace moec
