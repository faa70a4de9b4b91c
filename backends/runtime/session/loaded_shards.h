// Shards that a session has loaded within a memory budget.
//
// A shard is loaded when its first step runs, and stays loaded in each width that ran while the
// budget allows. If it does not, the shard gives up its other widths. A shard without room is
// loaded only for its step and frees each weight after the op that uses it.
//
// Least-recently-used eviction would never hit here: a schedule runs the same shards in the same
// cyclic order, so that policy would always evict the shard that is needed next.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backends/runtime/session/engine.h"
#include "ir/base/diagnostics.h"

namespace moec {

class LoadedShards {
 public:
  // Loads the shard that get() requests. Values of a run may use at most `limit` bytes at a time.
  using Loader = std::function<Result<std::unique_ptr<Executable>>(uint64_t limit)>;

  explicit LoadedShards(uint64_t budget) : budget_(budget) {}

  // Returns the shard in this width. The pointer is valid until the next call of get(). Errors:
  // those of `load`; session.memory (the shard alone exceeds the budget).
  Result<Executable*> get(const std::string& name, size_t width, const Loader& load);

  // True if the shard stays loaded in this width.
  bool keeps(const std::string& name, size_t width) const { return kept_.contains({name, width}); }

  // Number of graphs that stay loaded, and their bytes. The bytes that several widths of a shard
  // map are counted once.
  size_t kept() const { return kept_.size(); }
  uint64_t kept_bytes() const { return kept_bytes_; }
  // The part of kept_bytes() that is mapped files.
  uint64_t kept_mapped() const;
  // Bytes of coded weights that the engine holds as f32, by stored form (ExecutorMemory::widened),
  // of all shards that were loaded so far; of each, in the width that was loaded first.
  std::map<std::string, uint64_t> widened() const;
  // Maximum bytes that any step so far has used in addition to kept_bytes().
  uint64_t reserve() const { return reserve_; }

 private:
  struct Loaded {
    std::string name;
    size_t width = 0;
    std::unique_ptr<Executable> executable;
    uint64_t order = 0;  // sequence number of the load
  };

  using Kept = std::map<std::pair<std::string, size_t>, Loaded>;  // by name and width

  Executable* find(const std::string& name, size_t width);
  ExecutorMemory largest_width(const std::string& name) const;
  void drop(Kept::iterator kept);
  void drop_widths(const std::string& name);
  void drop_latest();
  Status make_room(const Loaded& shard);

  uint64_t budget_;
  Kept kept_;
  std::optional<Loaded> passing_;  // loaded for one step only
  uint64_t kept_bytes_ = 0, loads_ = 0;
  uint64_t reserve_ = 0;
  std::map<std::string, std::map<std::string, uint64_t>> widened_;  // by shard
};

}  // namespace moec
