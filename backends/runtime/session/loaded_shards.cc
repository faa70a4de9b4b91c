#include "backends/runtime/session/loaded_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace moec {
namespace {

// Peak bytes of a shard that frees its weights after use. Two weights are counted because the
// read-ahead of the system can already load the next one.
uint64_t bytes_passing(const Executable& executable) {
  const ExecutorMemory& memory = executable.memory();
  return memory.held + memory.run + 2 * memory.largest;
}

uint64_t mebibytes(uint64_t bytes) { return (bytes + (uint64_t{1} << 20) - 1) >> 20; }

}  // namespace

Executable* LoadedShards::find(const std::string& name, size_t width) {
  if (const auto found = kept_.find({name, width}); found != kept_.end())
    return found->second.executable.get();
  if (passing_ && passing_->name == name && passing_->width == width)
    return passing_->executable.get();
  return nullptr;
}

// The most bytes that a kept width of the shard holds, and the most that one maps.
ExecutorMemory LoadedShards::largest_width(const std::string& name) const {
  ExecutorMemory largest;
  for (auto kept = kept_.lower_bound({name, 0}); kept != kept_.end() && kept->first.first == name;
       ++kept) {
    const ExecutorMemory& memory = kept->second.executable->memory();
    largest.held = std::max(largest.held, memory.held);
    largest.mapped = std::max(largest.mapped, memory.mapped);
  }
  return largest;
}

void LoadedShards::drop(Kept::iterator kept) {
  const std::string name = kept->first.first;
  const uint64_t mapped = largest_width(name).mapped;
  kept_bytes_ -= kept->second.executable->memory().held;
  kept_.erase(kept);
  kept_bytes_ -= mapped - largest_width(name).mapped;
}

void LoadedShards::drop_widths(const std::string& name) {
  for (auto kept = kept_.lower_bound({name, 0}); kept != kept_.end() && kept->first.first == name;)
    // drop() erases the element, so the iterator must advance first.
    drop(kept++);
}

// The schedule is cyclic, so the shard that was loaded last is needed again last.
void LoadedShards::drop_latest() {
  drop(std::max_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
    return a.second.order < b.second.order;
  }));
}

Status LoadedShards::make_room(const Loaded& shard) {
  const uint64_t needed = bytes_passing(*shard.executable);
  if (needed > budget_)
    return fail("session.memory",
                fmt::format("a step of the shard needs {} MiB, the limit is {} MiB",
                            mebibytes(needed), budget_ >> 20),
                fmt::format("raise --memory by {} MiB or more, or export smaller shards or a "
                            "shorter context",
                            mebibytes(needed - budget_)),
                {.shard = shard.name});
  while (kept_bytes_ + needed > budget_) drop_latest();
  reserve_ = std::max(reserve_, needed);
  return {};
}

uint64_t LoadedShards::kept_mapped() const {
  uint64_t bytes = 0;
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const std::string& name = kept->first.first;
    bytes += largest_width(name).mapped;
    kept = kept_.upper_bound({name, std::numeric_limits<size_t>::max()});
  }
  return bytes;
}

std::map<std::string, uint64_t> LoadedShards::widened() const {
  std::map<std::string, uint64_t> all;
  for (const auto& [shard, forms] : widened_)
    for (const auto& [form, bytes] : forms) all[form] += bytes;
  return all;
}

Result<Executable*> LoadedShards::get(const std::string& name, size_t width, const Loader& load) {
  if (Executable* found = find(name, width)) return found;
  // Frees the memory of the previous passing shard before the next load.
  passing_.reset();
  // The new width is likely to hold as much as the others of the shard.
  if (kept_bytes_ + largest_width(name).held + reserve_ > budget_) drop_widths(name);
  MOEC_ASSIGN(std::unique_ptr<Executable> executable, load(budget_));
  Loaded loaded{name, width, std::move(executable), ++loads_};
  const ExecutorMemory& memory = loaded.executable->memory();
  reserve_ = std::max(reserve_, memory.run);
  if (!memory.widened.empty()) widened_.emplace(name, memory.widened);
  // A shard stays loaded only if the budget also has room for `reserve_`, the largest step so far.
  const uint64_t mapped = largest_width(name).mapped;
  const uint64_t added = memory.held + memory.mapped - std::min(memory.mapped, mapped);
  if (kept_bytes_ + added + reserve_ <= budget_) {
    kept_bytes_ += added;
    return kept_.emplace(std::pair(name, width), std::move(loaded)).first->second.executable.get();
  }
  MOEC_TRY(make_room(loaded));
  loaded.executable->release_weights_after_use();
  return passing_.emplace(std::move(loaded)).executable.get();
}

}  // namespace moec
