// What a cut of the model into shards is asked for, and how its bytes are counted.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/at.h"
#include "ir/base/enum_table.h"
#include "ir/plan/plan.h"

namespace moec {

// The most weight bytes of a shard of one kind; 0: no budget.
struct Budget {
  int64_t bytes = 0;
  bool asked = false;  // by the user: one that no cut can meet is an error, not a finding
  bool operator==(const Budget&) const = default;
};
using Budgets = std::array<Budget, enum_count<ShardKind>>;  // by ShardKind
inline const Budget& budget_of(const Budgets& budgets, ShardKind kind) { return at(budgets, kind); }

// How weights are counted in bytes: as the shards hold them, or as if they were quantised. int4 has
// a scale and an offset of two bytes each for 64 weights; int8 is the bare byte.
enum class WeightStorage : uint8_t { f32, f16, int8, int4 };
constexpr auto enum_names(WeightStorage) {
  return name_table<WeightStorage>({"f32", "f16", "int8", "int4"});
}
WeightStorage storage_of(DType dtype);  // f32 or f16
int64_t stored_bytes(int64_t weights, WeightStorage storage);

struct CutOptions {
  int64_t experts_per_shard = 0, head_slices = 0;  // as the user asks; 0: as the budgets do
  int64_t layers_per_shard = 0;  // whole layers; 0: their parts have shards of their own
  bool fit_layers = false;       // as many whole layers as the budget of kind layers holds
  Budgets budgets = {};
  std::optional<WeightStorage> count_as;  // for the budgets; none: BuildOptions::dtype
};

// Why the experts of a layer, the head, or all layers are in that many shards.
struct ShardCut {
  ShardKind kind = ShardKind::moe;
  int64_t parts = 1;
  std::string reason;
  bool operator==(const ShardCut&) const = default;
};

// `parts` sizes that sum to `whole` and differ by at most one, the larger ones first.
std::vector<int64_t> balanced_parts(int64_t whole, int64_t parts);

}  // namespace moec
