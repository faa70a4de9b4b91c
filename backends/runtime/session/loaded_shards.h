// The shards of a session that are loaded, within a budget of memory.
//
// A shard is loaded when its first step runs. As many as fit stay loaded; from then on each further
// shard is loaded for its step alone, and gives the memory of a weight back after each op. A
// schedule runs the same shards over and over in the same order, so that dropping the one that was
// not used for the longest time would always drop the one that is needed next.
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
  // Loads the shard that get() was asked for; its values may take `limit` bytes at a time.
  using Loader = std::function<Result<std::unique_ptr<Executable>>(uint64_t limit)>;

  // With `keeps_widths` a shard may be loaded in several widths at a time.
  explicit LoadedShards(uint64_t budget, bool keeps_widths = false)
      : budget_(budget), keeps_widths_(keeps_widths) {}

  // The shard in this width. The pointer is valid until the next call. Errors: those of `load`;
  // session.memory if the shard alone exceeds the budget.
  Result<Executable*> get(const std::string& name, size_t width, const Loader& load);

  // How many shards stay loaded, and their bytes.
  size_t kept() const { return kept_.size(); }
  uint64_t kept_bytes() const { return kept_bytes_; }
  // What they have in mapped files of these.
  uint64_t kept_mapped() const;
  // The most that a step took so far besides what is kept.
  uint64_t reserve() const { return reserve_; }

 private:
  struct Loaded {
    std::string name;
    size_t width = 0;
    std::unique_ptr<Executable> executable;
    uint64_t order = 0;  // of loading
  };

  using Kept = std::map<std::pair<std::string, size_t>, Loaded>;  // by name and width

  Executable* find(const std::string& name, size_t width);
  void drop(Kept::iterator kept);
  void drop_other_widths(const std::string& name);
  void drop_latest();
  Status make_room(const Loaded& shard);

  uint64_t budget_;
  bool keeps_widths_;
  Kept kept_;
  std::optional<Loaded> passing_;  // loaded for its step alone
  uint64_t kept_bytes_ = 0, loads_ = 0;
  uint64_t reserve_ = 0;
};

}  // namespace moec
