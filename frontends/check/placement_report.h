// Where the ops of a shard are predicted to run, and how much of the shard the target's unit
// covers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/target/target_rules.h"

namespace moec {

// An op that computes. Weights and constants are not placed.
struct PlacedOp {
  std::string name;  // its first result, or "state_write STATE"
  // Its name in a Core ML package: its output, or "write_state STATE"; empty for other formats.
  std::string file_name;
  std::string op;    // mnemonic
  std::string unit;  // predicted
  std::string rule;  // that predicts it; empty where the op runs on the target's unit
  int64_t macs = 0;
  int64_t weight_bytes = 0;  // of its weights, except those that an earlier op reads, too
};

// One measure: the whole, and the part that is predicted to run on the target's unit.
struct Share {
  int64_t whole = 0, on_unit = 0;
  void add(int64_t amount, bool is_on_unit) {
    whole += amount;
    if (is_on_unit) on_unit += amount;
  }
  Share& operator+=(const Share& other) {
    whole += other.whole;
    on_unit += other.on_unit;
    return *this;
  }
  // 100 if the whole is 0: nothing runs elsewhere.
  double percent() const {
    return whole == 0 ? 100.0 : 100.0 * static_cast<double>(on_unit) / static_cast<double>(whole);
  }
  // Whether at least this percentage is on the unit. Exact: percent() rounds.
  bool reaches(int64_t percentage) const { return on_unit * 100 >= whole * percentage; }
};

struct Coverage {
  Share ops, macs, weight_bytes;
  Coverage& operator+=(const Coverage& other);
};

struct PlacementReport {
  std::vector<PlacedOp> ops;
  Coverage coverage;
  int64_t transitions = 0;  // between units, along the order of the ops
};

PlacementReport report_placement(const Target& target, const Shard& shard);

// Fills in PlacedOp::file_name. `shard` is the one that was reported; `names` has a name for each
// of its ops.
void name_as_in_file(PlacementReport& report, const Shard& shard,
                     const IdMap<OpId, std::string>& names);

}  // namespace moec
