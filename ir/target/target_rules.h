// Which of a target's rules a shard breaks, and where its ops are predicted to run.
#pragma once

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

// Where an op is predicted to run. The rule that says so is the first error that the op breaks,
// else the first of its rules that names another unit; null where the op runs on the target's own.
struct PredictedUnit {
  std::string_view unit;  // kNoUnit: nothing runs it
  const TargetRule* rule = nullptr;
};
inline constexpr std::string_view kNoUnit = "nothing";

// For each op of the shard. The names are those of `target`, which must outlive the result.
IdMap<OpId, PredictedUnit> predict_units(const Target& target, const Shard& shard);

// What rules about shards ask for that the body does not say.
struct ShardFacts {
  ShardKind kind = ShardKind::attention;
  int64_t tokens = 1;     // the most that one run takes
  int64_t functions = 1;  // in the shard's file
  bool ranged = false;    // the file takes a range of widths
};

// Whether the rule is about whole shards and looks at shards of this kind.
bool concerns(const TargetRule& rule, ShardKind kind);

struct ShardBreach {
  const TargetRule* rule = nullptr;
  std::string what;  // what was found, in words: "weights of 300 bytes"
};

// All breaches of rules about whole shards, in the order of the target's rules.
std::vector<ShardBreach> find_shard_breaches(const Target& target, const Shard& shard,
                                             const ShardFacts& facts);

// Weights and constants compute nothing; all other ops do.
bool is_compute_op(const OpData& data);

}  // namespace moec
