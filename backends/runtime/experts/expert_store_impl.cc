#include "backends/runtime/experts/expert_store_impl.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/manifest/expert_grid.h"

namespace moec {
namespace {

bool normalises(const Manifest& manifest) {
  for (const manifest::Shard& shard : manifest.shards)
    if (shard.routing)
      return shard.routing->router.renorm != Renorm::none ||
             normalises_chosen(shard.routing->router.score);
  return false;
}

}  // namespace

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
  store->model_ = {manifest.model.family,
                   options.top_k > 0 ? options.top_k : expert_grid(manifest).top_k,
                   normalises(manifest)};
  // The order matters: allot() needs the sizes of the placed experts, and warm_up() needs slots and
  // a loader.
  MOEC_TRY(store->place_experts(manifest, folder));
  MOEC_TRY(store->allot(manifest));
  store->loader_ =
      std::make_unique<ExpertLoader>(options.reads == ExpertReads::serial ? 1 : kExpertReaders);
  // Without a thread, no queued read would ever complete.
  if (store->loader_->threads() == 0)
    return fail(Diagnostics{refused_resource(
        std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)))});
  MOEC_TRY(store->warm_up());
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
  // The experts arrive ordered by layer, so those of a layer are consecutive.
  if (layers_.empty() || layers_.back().layer != placed.id.layer)
    layers_.emplace_back().layer = placed.id.layer;
  Layer& layer = layers_.back();
  // Each slot of a layer must have room for any expert of the layer.
  layer.slot_bytes = std::max(layer.slot_bytes, slot_bytes(placed));
  layer.experts.push_back(experts_.size());
  units_.add(placed);
  Expert& expert = experts_.emplace_back();
  expert.key = placed.id;
  expert.layer = layers_.size() - 1;
}

// Maximum number of experts per layer that can be pinned. Unless all experts fit, a token's other
// experts need slots too.
int64_t ExpertStore::room_for_pins() const {
  const bool holds_all = capacity_ >= std::ssize(layers_.front().experts);
  return holds_all ? capacity_ : std::max<int64_t>(capacity_ - model_.top_k, 0);
}

Status ExpertStore::check_pins() const {
  if (options_.pin_top_k <= room_for_pins()) return {};
  return fail(
      "session.pin_top_k",
      fmt::format("cannot pin {} of {} slots per layer: a token needs {} slots for its experts",
                  options_.pin_top_k, capacity_, model_.top_k),
      "pass a larger --capacity or a smaller --pin-top-k");
}

// Pins the first experts of each layer in `wanted`, up to the limit, and unpins all others.
void ExpertStore::pin(const std::vector<ExpertId>& wanted) {
  const int64_t most = options_.pin_top_k > 0 ? options_.pin_top_k : room_for_pins();
  std::vector<ExpertId> all;
  for (Layer& layer : layers_) {
    std::vector<ExpertId> pinned;
    for (const ExpertId& key : wanted)
      if (key.layer == layer.layer && std::ssize(pinned) < most) pinned.push_back(key);
    layer.policy->pin(pinned);
    all.insert(all.end(), pinned.begin(), pinned.end());
  }
  // fill_slots() passes the pins to FirstSteps, which simulates a cache that starts empty.
  options_.pinned = std::move(all);
}

Status ExpertStore::allot(const Manifest& manifest) {
  uint64_t row = 0;  // bytes of one slot per layer
  for (const Layer& layer : layers_) row += layer.slot_bytes;
  capacity_ =
      options_.capacity > 0 ? options_.capacity : static_cast<int64_t>(options_.memory_bytes / row);
  if (capacity_ < 1)
    return fail("session.capacity",
                fmt::format("one expert for each of {} layers needs {} MiB, --expert-memory is {} "
                            "MiB",
                            layers_.size(), (row >> 20) + 1, options_.memory_bytes >> 20),
                "pass a larger --expert-memory");
  // More slots than experts per layer would stay empty.
  capacity_ = std::min(capacity_, expert_grid(manifest).experts);
  MOEC_ASSIGN(arena_, SlotArena::create(row * static_cast<uint64_t>(capacity_)));
  std::byte* next = arena_.data();
  for (Layer& layer : layers_) {
    layer.slots = next;
    next += layer.slot_bytes * static_cast<uint64_t>(capacity_);
    // Descending, because take_slot() takes the last element: slots are then filled in ascending
    // order.
    for (int64_t slot = capacity_; slot-- > 0;) layer.free.push_back(static_cast<size_t>(slot));
    layer.policy = make_policy(options_.policy);
  }
  MOEC_TRY(check_pins());
  pin(options_.pinned);
  return {};
}

uint64_t ExpertStore::used_bytes() const {
  const std::lock_guard lock(mutex_);
  // A slot never becomes free again: the victim's slot goes to the expert that replaces it.
  uint64_t bytes = 0;
  for (const Layer& layer : layers_)
    bytes += layer.slot_bytes * (static_cast<uint64_t>(capacity_) - layer.free.size());
  return bytes;
}

bool ExpertStore::holds(ExpertId key) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(layers_.begin(), layers_.end(), [&](const Layer& layer) {
    return layer.layer == key.layer && layer.policy->resident(key);
  });
}

ExpertStoreCounts ExpertStore::counts() const {
  const std::lock_guard lock(mutex_);
  return run_.counts;
}

ExpertStore::Layer* ExpertStore::find_layer(int64_t number) {
  for (Layer& layer : layers_)
    if (layer.layer == number) return &layer;
  return nullptr;
}

std::optional<size_t> ExpertStore::unit_of(const std::string& path, uint64_t offset,
                                           uint64_t bytes) const {
  const auto file = places_.find_file(path);
  return file ? units_.find(*file, offset, bytes) : std::nullopt;
}

}  // namespace moec
