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

// Returns all breaches of rules about ops, ordered by op, then in the target's rule order. The
// result borrows rules of `target`, which must outlive it.
std::vector<OpBreach> find_breaches(const Target& target, const Shard& shard);

// The unit on which an op is predicted to run. `rule` is the reason: the first error that the op
// breaks, else the first broken rule that names another unit. Null if the op stays on the target's
// unit.
struct PredictedUnit {
  std::string_view unit;  // kNoUnit: no unit runs it
  const TargetRule* rule = nullptr;
};
inline constexpr std::string_view kNoUnit = "nothing";

// Predicts the unit of each op. The result borrows names of `target`, which must outlive it.
IdMap<OpId, PredictedUnit> predict_units(const Target& target, const Shard& shard);

// Facts about a whole shard that rules need and that the shard's body does not contain.
struct ShardFacts {
  ShardKind kind = ShardKind::attention;
  int64_t tokens = 1;                   // maximum number per run
  int64_t functions = 1;                // in the shard's file
  bool ranged = false;                  // the file accepts a range of widths
  std::optional<int64_t> weight_bytes;  // in the file; absent: counted from the shard
};

// True if the rule is about whole shards and applies to this kind.
bool concerns(const TargetRule& rule, ShardKind kind);

struct ShardBreach {
  const TargetRule* rule = nullptr;
  std::string what;  // the finding: "weights of 300 bytes are above 200"
};

// Returns all breaches of rules about whole shards, in the target's rule order.
std::vector<ShardBreach> find_shard_breaches(const Target& target, const Shard& shard,
                                             const ShardFacts& facts);

}  // namespace moec
