// Finds the rules of a target that a shard breaks, and predicts where its ops run.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/target/target.h"

namespace moec {

struct OpBreach {
  OpId op;
  const TargetRule* rule = nullptr;
};

// All breaches of rules about ops: by op, and for each op in the order of the target's rules.
// The rules are those of `target`, which must outlive the result.
std::vector<OpBreach> find_breaches(const Target& target, const Shard& shard);

// The unit on which an op is predicted to run. `rule` is the reason: the first error that the op
// breaks, else the first broken rule that names another unit; null if the op stays on the target's
// own unit.
struct PredictedUnit {
  std::string_view unit;  // kNoUnit: nothing runs it
  const TargetRule* rule = nullptr;
};
inline constexpr std::string_view kNoUnit = "nothing";

// For each op of the shard. The names are those of `target`, which must outlive the result.
IdMap<OpId, PredictedUnit> predict_units(const Target& target, const Shard& shard);

// Facts that rules about whole shards use and that the shard's body does not hold.
struct ShardFacts {
  ShardKind kind = ShardKind::attention;
  int64_t tokens = 1;                   // the largest number that one run takes
  int64_t functions = 1;                // in the shard's file
  bool ranged = false;                  // the file takes a range of widths
  std::optional<int64_t> weight_bytes;  // in its file; none: as the shard stores them
};

// Whether the rule is about whole shards and looks at shards of this kind.
bool concerns(const TargetRule& rule, ShardKind kind);

struct ShardBreach {
  const TargetRule* rule = nullptr;
  std::string what;  // what was found: "weights of 300 bytes are above 200"
};

// All breaches of rules about whole shards, in the order of the target's rules.
std::vector<ShardBreach> find_shard_breaches(const Target& target, const Shard& shard,
                                             const ShardFacts& facts);

// Weights and constants compute nothing; all other ops do.
bool is_compute_op(const OpData& data);

}  // namespace moec
