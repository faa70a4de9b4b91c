// Fills the slots from a saved state or a prepacked file before the first step, and saves the state
// for a later run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "backends/files/output_file.h"
#include "backends/runtime/experts/expert_store_impl.h"

namespace moec {

Status ExpertStore::warm_up() {
  if (!options_.prepacked.empty()) return warm_from_pack();
  // A missing state is not an error: the first run creates it in save_state().
  if (!options_.state.empty() && file_exists(options_.state)) return warm_from_state();
  return {};
}

static tl::unexpected<Diagnostics> unfit_start(const char* code, std::string cause,
                                               const std::string& file) {
  return fail(code, std::move(cause), "pass a file made from this export, or omit the flag",
              {.file = file});
}

static tl::unexpected<Diagnostics> of_other_experts(const char* code, const std::string& model,
                                                    const std::string& file) {
  return unfit_start(
      code, fmt::format("the file was made from another export, of a {} model", model), file);
}

Result<CacheState> ExpertStore::read_state() const {
  MOEC_ASSIGN(CacheState state, read_cache_state(options_.state));
  if (state.digest != places_.digest())
    return of_other_experts("session.state", state.model, options_.state);
  return state;
}

// All policies share one format of expert state, so a run can continue with another policy.
Status ExpertStore::warm_from_state() {
  MOEC_ASSIGN(const CacheState state, read_state());
  if (state.policy != options_.policy)
    start_.notes.push_back(
        {Severity::note,
         "session.state_policy",
         fmt::format("the state was saved with --policy {}; this run continues it with "
                     "--policy {}",
                     enum_name(state.policy), enum_name(options_.policy)),
         "",
         {.file = options_.state}});
  return fill_slots(latest_used(state, capacity_), state.step, nullptr);
}

// The order in the pack becomes the order of recency: the policy treats the most wanted expert of a
// layer as the most recently used one.
Status ExpertStore::warm_from_pack() {
  MOEC_ASSIGN(const PrepackedFile pack, PrepackedFile::open(options_.prepacked));
  const PrepackedTable& table = pack.table();
  if (table.digest != places_.digest())
    return of_other_experts("session.prepacked", table.model, options_.prepacked);
  for (const PlacedExpert& placed : places_.experts())
    if (const auto* expert = pack.find(placed.id); expert && expert->bytes != slot_bytes(placed))
      return unfit_start("session.prepacked",
                         "the file's experts differ in size from those of the export",
                         options_.prepacked);
  std::map<int64_t, int64_t> taken;
  std::vector<ResidentExpert> experts;
  for (const PrepackedExpert& expert : table.resident)
    if (const int64_t slot = taken[expert.key.layer]++; slot < capacity_)
      experts.push_back({expert.key, 1, 0, capacity_ - slot});
  return fill_slots(experts, 0, &pack);
}

Result<std::vector<ExpertStore::Expert*>> ExpertStore::find_experts(
    const std::vector<ResidentExpert>& residents, const std::string& file) {
  std::map<ExpertId, Expert*> by_key;
  for (Expert& expert : experts_) by_key[expert.key] = &expert;
  std::vector<Expert*> found;
  for (const ResidentExpert& resident : residents) {
    const auto expert = by_key.find(resident.key);
    if (expert == by_key.end())
      return unfit_start("session.state",
                         fmt::format("the file has expert {} of layer {}, which the export lacks",
                                     resident.key.expert, resident.key.layer),
                         file);
    found.push_back(expert->second);
  }
  return found;
}

// Reads sequentially: the experts of a state in the order of the export's files, those of a pack in
// pack order.
Status ExpertStore::fill_slots(const std::vector<ResidentExpert>& residents, int64_t step,
                               const PrepackedFile* pack) {
  const auto start = std::chrono::steady_clock::now();
  Lock lock(mutex_);
  MOEC_ASSIGN(std::vector<Expert*> order,
              find_experts(residents, pack ? options_.prepacked : options_.state));
  std::map<int64_t, std::vector<ResidentExpert>> layers;
  for (const ResidentExpert& resident : residents) layers[resident.key.layer].push_back(resident);
  // find_layer() cannot return null, because find_experts() has found every expert.
  for (const auto& [layer, of_layer] : layers) find_layer(layer)->policy->restore(of_layer, step);
  // Sorting by address gives the order of `experts_`: by layer, then by file and offset.
  if (!pack) std::sort(order.begin(), order.end());
  for (Expert* expert : order) {
    Layer& layer = layers_[expert->layer];
    // Cannot fail: all slots are free, and callers pass at most `capacity_` experts per layer.
    const size_t slot = *take_slot(layer, false);
    if (pack)
      read_pack(*pack, layer, *expert, slot);
    else
      read(layer, *expert, slot);
  }
  // The whole state at once, so that neighbouring experts share read calls.
  submit(layers_.front());
  // The callbacks refer to `pack`, so all reads must finish before this function returns.
  const auto is_busy = [&](const Layer& layer) { return is_reading(layer); };
  changed_.wait(lock, [&] { return std::none_of(layers_.begin(), layers_.end(), is_busy); });
  for (const Expert* expert : order)
    if (!expert->failure) return fail(expert->failure.error());
  // Moves the bytes of the warm start out of the counts of the run.
  start_.counts = {
      std::ssize(order), std::exchange(run_.counts.bytes_read, 0), seconds_since(start), {}};
  run_.counts.read_calls = 0;
  start_.first.emplace(options_.policy, capacity_, options_.pinned);
  return {};
}

void ExpertStore::read_pack(const PrepackedFile& pack, Layer& layer, Expert& expert, size_t slot) {
  const PrepackedExpert& packed = *pack.find(expert.key);
  place(layer, expert, slot);
  std::byte* to = layer.slots + slot * layer.slot_bytes;
  expert.is = Residence::reading;
  run_.counts.bytes_read += packed.bytes;
  run_.queued.push_back({{{&pack.file(), packed.offset, packed.offset + packed.bytes, to}},
                         [this, &pack, &packed, &expert, to](Status status) {
                           if (status) status = pack.check(packed, to);
                           note_read(expert, std::move(status));
                         }});
}

std::optional<WarmStart> ExpertStore::start() const {
  const std::lock_guard lock(mutex_);
  if (!start_.counts) return std::nullopt;
  WarmStart start = *start_.counts;
  start.first = start_.first->counts();
  return start;
}

std::vector<DomainChange> ExpertStore::changes() const {
  const std::lock_guard lock(mutex_);
  return watch_.changes;
}

CacheState ExpertStore::state() const {
  const std::lock_guard lock(mutex_);
  CacheState state{model_.family, places_.digest(), options_.policy, 0, {}};
  for (const Layer& layer : layers_) {
    state.step = std::max(state.step, layer.policy->step());
    for (const ResidentExpert& expert : layer.policy->experts()) state.experts.push_back(expert);
  }
  return state;
}

Status ExpertStore::save_state() const {
  if (options_.state.empty()) return {};
  // read_state() fails for a file that is not a state of this export, so such a file is kept.
  if (file_exists(options_.state)) MOEC_TRY(read_state());
  return write_user_file(options_.state, cache_state_text(state()));
}

}  // namespace moec
