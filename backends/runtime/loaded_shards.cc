#include "backends/runtime/loaded_shards.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {
namespace {

uint64_t bytes_kept(const Executor& executor) {
  return executor.memory().held + executor.memory().mapped;
}

// Of a shard that gives weights back: the system reads ahead, so two of them may be there.
uint64_t bytes_passing(const Executor& executor) {
  const ExecutorMemory& memory = executor.memory();
  return memory.held + memory.run + 2 * memory.largest;
}

uint64_t mebibytes(uint64_t bytes) { return (bytes + (uint64_t{1} << 20) - 1) >> 20; }

}  // namespace

Executor* LoadedShards::find(const std::string& name, size_t width) {
  if (const auto found = kept_.find(name); found != kept_.end() && found->second.width == width)
    return &found->second.executor;
  if (passing_ && passing_->name == name && passing_->width == width) return &passing_->executor;
  return nullptr;
}

void LoadedShards::drop(std::map<std::string, Loaded>::iterator kept) {
  kept_bytes_ -= bytes_kept(kept->second.executor);
  kept_.erase(kept);
}

void LoadedShards::drop_latest() {
  drop(std::max_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
    return a.second.order < b.second.order;
  }));
}

Status LoadedShards::make_room(const Loaded& shard) {
  const uint64_t needed = bytes_passing(shard.executor);
  if (needed > budget_)
    return fail("session.memory",
                fmt::format("a step of the shard takes {} MiB, {} MiB are left for it",
                            mebibytes(needed), budget_ >> 20),
                "give more --memory, or export smaller shards or a shorter context",
                {.shard = shard.name});
  while (kept_bytes_ + needed > budget_) drop_latest();
  reserve_ = std::max(reserve_, needed);
  return {};
}

uint64_t LoadedShards::kept_mapped() const {
  uint64_t bytes = 0;
  for (const auto& [name, loaded] : kept_) bytes += loaded.executor.memory().mapped;
  return bytes;
}

Result<Executor*> LoadedShards::get(const std::string& name, size_t width, const Loader& load) {
  if (Executor* found = find(name, width)) return found;
  passing_.reset();
  if (const auto other_width = kept_.find(name); other_width != kept_.end()) drop(other_width);
  MOEC_ASSIGN(Executor executor, load(budget_));
  Loaded loaded{name, width, std::move(executor), ++loads_};
  const uint64_t kept = bytes_kept(loaded.executor);
  reserve_ = std::max(reserve_, loaded.executor.memory().run);
  if (kept_bytes_ + kept + reserve_ <= budget_) {
    kept_bytes_ += kept;
    return &kept_.emplace(name, std::move(loaded)).first->second.executor;
  }
  MOEC_TRY(make_room(loaded));
  loaded.executor.release_weights_after_use();
  return &passing_.emplace(std::move(loaded)).executor;
}

}  // namespace moec
