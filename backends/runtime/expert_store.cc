#include "backends/runtime/expert_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "backends/manifest/expert_grid.h"
#include "ir/base/at.h"

namespace moec {
namespace {

constexpr uint64_t kBlock = PayloadFile::kBlockBytes;
// One read waits for the disk while another is set up.
constexpr size_t kReaders = 4;

// What a stretch takes of a slot: the blocks that hold it.
uint64_t slot_bytes(const ExpertStretch& stretch) {
  return (stretch.end + kBlock - 1) / kBlock * kBlock - stretch.begin / kBlock * kBlock;
}

uint64_t slot_bytes(const PlacedExpert& expert) {
  uint64_t bytes = 0;
  for (const ExpertStretch& stretch : expert.stretches) bytes += slot_bytes(stretch);
  return bytes;
}

bool normalises(const Manifest& manifest) {
  for (const manifest::Shard& shard : manifest.shards)
    if (shard.routing)
      return shard.routing->router.renorm != Renorm::none ||
             shard.routing->router.score == Score::softmax_selected;
  return false;
}

double waited_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

float weight_of(const Rows& weights, int64_t token, int64_t expert) {
  return at(weights.row(token), expert);
}

// Sets the weights of these experts for a token to 0. With `normalises`, its other weights grow so
// that their sum stays. Returns what the experts had.
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

enum class Residence : uint8_t { absent, reading, resident };

struct ExpertStore::Expert {
  ExpertKey key;
  size_t layer = 0;  // index into layers_
  Residence is = Residence::absent;
  size_t slot = 0;
  bool chosen = false, done = false, in_use = false;  // in the step of its layer
  bool foreseen = false;                              // since the last step
  Status failure;
  std::vector<std::pair<size_t, HeldBytes>> held;  // by unit
};

struct ExpertStore::Layer {
  int64_t layer = 0;
  std::vector<size_t> experts;  // indices into experts_, in the order in which a step asks
  uint64_t slot_bytes = 0;
  std::byte* slots = nullptr;
  std::vector<size_t> free;
  std::unique_ptr<ExpertPolicy> policy;
};

double ExpertStoreCounts::hit_rate() const {
  const auto all = static_cast<double>(hits + misses);
  return all > 0 ? static_cast<double>(hits) / all : 0;
}

double ExpertStoreCounts::dropped_share() const { return routed > 0 ? dropped / routed : 0; }

ExpertStore::ExpertStore() = default;
ExpertStore::~ExpertStore() = default;

Result<std::unique_ptr<ExpertStore>> ExpertStore::open(const Manifest& manifest,
                                                       const std::string& folder,
                                                       const ExpertStoreOptions& options) {
  std::unique_ptr<ExpertStore> store(new ExpertStore());
  store->options_ = options;
  store->normalises_ = normalises(manifest);
  MOEC_TRY(store->place_experts(manifest, folder));
  MOEC_TRY(store->allot(manifest));
  store->loader_ =
      std::make_unique<ExpertLoader>(options.reads == ExpertReads::serial ? 1 : kReaders);
  if (store->loader_->threads() == 0)
    return fail(Diagnostics{refused_resource(
        std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)))});
  return store;
}

Status ExpertStore::place_experts(const Manifest& manifest, const std::string& folder) {
  MOEC_ASSIGN(places_, ExpertPlaces::find(manifest, folder));
  for (const WeightFile& file : places_.files()) {
    MOEC_ASSIGN(PayloadFile opened, PayloadFile::open(file));
    files_.push_back(std::move(opened));
  }
  for (const PlacedExpert& placed : places_.experts()) add_expert(placed);
  return {};
}

void ExpertStore::add_expert(const PlacedExpert& placed) {
  if (layers_.empty() || layers_.back().layer != placed.layer)
    layers_.emplace_back().layer = placed.layer;
  Layer& layer = layers_.back();
  layer.slot_bytes = std::max(layer.slot_bytes, slot_bytes(placed));
  layer.experts.push_back(experts_.size());
  for (const ExpertStretch& stretch : placed.stretches) {
    if (units_.empty() || units_.back().expert != experts_.size() ||
        units_.back().file != stretch.file)
      units_.push_back({experts_.size(), stretch.file});
    stretches_[{stretch.file, stretch.begin}] = {stretch.end, units_.size() - 1};
  }
  Expert& expert = experts_.emplace_back();
  expert.key = {placed.layer, placed.expert};
  expert.layer = layers_.size() - 1;
}

// The pinned experts leave room for those that a token chooses beside them.
static std::vector<ExpertKey> pinned_of(int64_t layer, int64_t most,
                                        const std::vector<ExpertKey>& wanted) {
  std::vector<ExpertKey> pinned;
  for (const ExpertKey& key : wanted)
    if (key.layer == layer && std::ssize(pinned) < most) pinned.push_back(key);
  return pinned;
}

Status ExpertStore::allot(const Manifest& manifest) {
  const ExpertGrid grid = expert_grid(manifest);
  uint64_t row = 0;  // one slot of each layer
  for (const Layer& layer : layers_) row += layer.slot_bytes;
  capacity_ =
      options_.capacity > 0 ? options_.capacity : static_cast<int64_t>(options_.memory_bytes / row);
  if (capacity_ < 1)
    return fail("session.capacity",
                fmt::format("one expert of each of the {} layers takes {} MiB, --expert-memory is "
                            "{} MiB",
                            layers_.size(), (row >> 20) + 1, options_.memory_bytes >> 20),
                "give more --expert-memory");
  capacity_ = std::min(capacity_, grid.experts);
  MOEC_ASSIGN(arena_, SlotArena::create(row * static_cast<uint64_t>(capacity_)));
  std::byte* next = arena_.data();
  for (Layer& layer : layers_) {
    layer.slots = next;
    next += layer.slot_bytes * static_cast<uint64_t>(capacity_);
    for (int64_t slot = capacity_; slot-- > 0;) layer.free.push_back(static_cast<size_t>(slot));
    layer.policy = make_policy(options_.policy,
                               pinned_of(layer.layer, capacity_ - grid.top_k, options_.pinned));
  }
  return {};
}

uint64_t ExpertStore::used_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const Layer& layer : layers_)
    bytes += layer.slot_bytes * (static_cast<uint64_t>(capacity_) - layer.free.size());
  return bytes;
}

ExpertStoreCounts ExpertStore::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

ExpertStore::Layer* ExpertStore::find_layer(int64_t number) {
  for (Layer& layer : layers_)
    if (layer.layer == number) return &layer;
  return nullptr;
}

bool ExpertStore::is_reading(const Layer& layer) const {
  return std::any_of(layer.experts.begin(), layer.experts.end(),
                     [&](size_t i) { return experts_[i].is == Residence::reading; });
}

Status ExpertStore::begin_layer(int64_t layer, Rows& weights) {
  std::unique_lock lock(mutex_);
  Layer* slots = find_layer(layer);
  if (!slots) return {};
  // What a step goes without must not depend on the speed of reads.
  if (options_.on_miss != OnMiss::load) changed_.wait(lock, [&] { return !is_reading(*slots); });
  slots->policy->begin_step(slots->policy->step() + weights.count());
  counts_.routed += choose(*slots, weights);
  count(*slots);
  MOEC_TRY(meet_misses(*slots, weights));
  if (options_.reads != ExpertReads::serial) read_ahead(*slots);
  return {};
}

void ExpertStore::foresee(int64_t layer, const Rows& weights) {
  std::unique_lock lock(mutex_);
  Layer* slots = find_layer(layer);
  if (!slots || !foresees()) return;
  // Who leaves for a guess must not depend on the speed of reads either.
  if (options_.on_miss != OnMiss::load) changed_.wait(lock, [&] { return !is_reading(*slots); });
  choose(*slots, weights);
  std::vector<size_t> absent;
  for (const size_t i : slots->experts)
    if (experts_[i].is == Residence::absent) absent.push_back(i);
  read_ahead(*slots);
  for (const size_t i : absent) experts_[i].foreseen = experts_[i].is != Residence::absent;
}

// Notes the experts with weights. Returns the sum of these.
double ExpertStore::choose(Layer& layer, const Rows& weights) {
  double routed = 0;
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    expert.chosen = expert.done = false;
    for (int64_t token = 0; token < weights.count(); ++token) {
      const float weight = weight_of(weights, token, expert.key.expert);
      expert.chosen = expert.chosen || weight != 0;
      routed += weight;
    }
  }
  return routed;
}

// Counts which of the chosen experts are there, and tells the policy of them.
void ExpertStore::count(Layer& layer) {
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    const bool foreseen = std::exchange(expert.foreseen, false);
    if (foreseen) ++(expert.chosen ? counts_.foreseen : counts_.in_vain);
    if (!expert.chosen) continue;
    const bool is_resident = expert.is == Residence::resident, is_whole = bool(expert.failure);
    ++(is_resident && is_whole && !foreseen ? counts_.hits : counts_.misses);
    layer.policy->protect(expert.key);
    if (is_resident) layer.policy->hit(expert.key);
    if (is_resident && !is_whole) read(layer, expert, expert.slot);
  }
}

// What OnMiss says of missing experts for which no slot is free.
Status ExpertStore::meet_misses(Layer& layer, Rows& weights) {
  if (options_.on_miss == OnMiss::load) return {};
  auto free = std::ssize(layer.free);
  std::vector<size_t> skipped;
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    if (!expert.chosen || expert.is != Residence::absent || free-- > 0) continue;
    if (options_.on_miss == OnMiss::stop)
      return fail("session.expert_missing",
                  fmt::format("expert {} of layer {} is not in memory, whose {} slots hold others",
                              expert.key.expert, expert.key.layer, capacity_),
                  "give more --capacity or --expert-memory, or --on-miss load");
    skipped.push_back(i);
  }
  // The free slots are theirs that the step needs.
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    const bool is_skipped = std::find(skipped.begin(), skipped.end(), i) != skipped.end();
    if (expert.chosen && expert.is == Residence::absent && !is_skipped)
      start_read(layer, expert, false);
  }
  skip(layer, skipped, weights);
  return {};
}

// Later steps find them, as far as this one needs no other slots.
void ExpertStore::skip(Layer& layer, const std::vector<size_t>& skipped, Rows& weights) {
  std::vector<int64_t> experts;
  for (const size_t i : skipped) {
    experts.push_back(experts_[i].key.expert);
    experts_[i].chosen = false;
  }
  counts_.skipped += std::ssize(skipped);
  const auto columns = static_cast<size_t>(weights.columns);
  for (size_t begin = 0; begin < weights.data.size() && !skipped.empty(); begin += columns)
    counts_.dropped +=
        leave_out(std::span(weights.data).subspan(begin, columns), experts, normalises_);
  for (const size_t i : skipped) start_read(layer, experts_[i], false);
}

// Begins to read chosen experts, as long as there are slots for them.
void ExpertStore::read_ahead(Layer& layer) {
  for (const size_t i : layer.experts) {
    Expert& expert = experts_[i];
    const bool waits = expert.chosen && !expert.done && expert.is == Residence::absent;
    if (waits && !start_read(layer, expert, false)) return;
  }
}

// False where there is no slot for it now. `needed`: the step cannot go on without it.
bool ExpertStore::start_read(Layer& layer, Expert& expert, bool needed) {
  const auto slot = take_slot(layer, needed);
  if (!slot) return false;
  layer.policy->insert(expert.key);
  read(layer, expert, *slot);
  return true;
}

void ExpertStore::read(Layer& layer, Expert& expert, size_t slot) {
  const std::vector<StretchRead> reads = place(layer, expert, slot);
  expert.is = Residence::reading;
  for (const StretchRead& read : reads) counts_.bytes_read += read.end - read.begin;
  loader_->load(reads, [this, &expert](Status status) { note_read(expert, std::move(status)); });
}

std::optional<size_t> ExpertStore::take_slot(Layer& layer, bool needed) {
  if (!layer.free.empty()) {
    const size_t slot = layer.free.back();
    layer.free.pop_back();
    return slot;
  }
  const auto key = leaving(layer, needed);
  if (!key) return std::nullopt;
  for (const size_t i : layer.experts)
    if (experts_[i].key == *key) {
      experts_[i].is = Residence::absent;
      return experts_[i].slot;
    }
  return std::nullopt;
}

// The expert that leaves for another one: of those that the step does not need any more; else,
// if it cannot go on otherwise, the one that it needs last.
std::optional<ExpertKey> ExpertStore::leaving(Layer& layer, bool needed) {
  ExpertPolicy& policy = *layer.policy;
  const auto protect_all = [&](auto stays) {
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

// Where the stretches of the expert go in a slot.
std::vector<StretchRead> ExpertStore::place(Layer& layer, Expert& expert, size_t slot) {
  const size_t index = static_cast<size_t>(&expert - experts_.data());
  std::byte* to = layer.slots + slot * layer.slot_bytes;
  std::vector<StretchRead> reads;
  std::map<size_t, std::vector<HeldPiece>> pieces;  // by unit
  for (const ExpertStretch& stretch : places_.experts()[index].stretches) {
    reads.push_back({&files_[stretch.file], stretch.begin, stretch.end, to});
    const size_t unit = stretches_.at({stretch.file, stretch.begin}).second;
    pieces[unit].push_back(
        {stretch.begin, stretch.end - stretch.begin, to + stretch.begin % kBlock});
    to += slot_bytes(stretch);
  }
  expert.slot = slot;
  expert.held.clear();
  for (auto& [unit, list] : pieces) expert.held.emplace_back(unit, HeldBytes(std::move(list)));
  return reads;
}

// Called on a thread of the loader.
void ExpertStore::note_read(Expert& expert, Status status) {
  {
    const std::lock_guard lock(mutex_);
    expert.failure = std::move(status);
    expert.is = Residence::resident;
  }
  changed_.notify_all();
}

std::optional<size_t> ExpertStore::unit_of(const std::string& path, uint64_t offset,
                                           uint64_t bytes) const {
  const auto file = places_.find_file(path);
  if (!file) return std::nullopt;
  auto after = stretches_.upper_bound({*file, offset});
  if (after == stretches_.begin()) return std::nullopt;
  const auto& [place, stretch] = *--after;
  const auto& [end, unit] = stretch;
  const bool inside = place.first == *file && offset < end && bytes <= end - offset;
  return inside ? std::optional(unit) : std::nullopt;
}

tl::unexpected<Diagnostics> ExpertStore::too_few_slots(const Expert& expert) const {
  return fail("session.capacity",
              fmt::format("layer {} needs more experts at once than its {} slots hold",
                          expert.key.layer, capacity_),
              "give more --capacity or --expert-memory");
}

Result<const HeldBytes*> ExpertStore::acquire(size_t unit) {
  std::unique_lock lock(mutex_);
  Expert& expert = experts_[units_[unit].expert];
  Layer& layer = layers_[expert.layer];
  if (!expert.chosen) return nullptr;
  const auto start = std::chrono::steady_clock::now();
  while (expert.is != Residence::resident) {
    const bool comes = expert.is == Residence::reading || start_read(layer, expert, true);
    if (!comes && !is_reading(layer)) return too_few_slots(expert);
    changed_.wait(lock);
  }
  counts_.wait_seconds += waited_since(start);
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
  if (options_.reads != ExpertReads::serial) read_ahead(layers_[expert.layer]);
}

}  // namespace moec
