// Where the ops of a shard are predicted to run, and how much of the shard the target's unit
// covers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/target/target_rules.h"

namespace moec {

// An op that computes. Weights and constants are not placed.
struct PlacedOp {
  std::string name;  // its first result, or "state_write STATE"
  // Its name in the file: in a Core ML package its output, or "write_state STATE", in an ONNX graph
  // its node; empty where it has none.
  std::string file_name;
  std::string op;    // mnemonic
  std::string unit;  // predicted
  std::string rule;  // that predicts it; empty where the op runs on the target's unit
  int64_t macs = 0;
  int64_t weight_bytes = 0;  // of its weights, except those that an earlier op reads, too
};

// One measure: the whole, the part that is predicted to run on the target's unit, and the part that
// would be, but for a warning about its shard as a whole.
struct Share {
  int64_t whole = 0, on_unit = 0, disputed = 0;
  void add(int64_t amount, bool is_on_unit) {
    whole += amount;
    if (is_on_unit) on_unit += amount;
  }
  Share& operator+=(const Share& other) {
    whole += other.whole;
    on_unit += other.on_unit;
    disputed += other.disputed;
    return *this;
  }
  void dispute() { disputed += std::exchange(on_unit, 0); }
  // Of `on_unit`. 100 if the whole is 0: nothing runs elsewhere.
  double percent() const { return whole == 0 ? 100.0 : percent_of(on_unit); }
  double percent_disputed() const { return whole == 0 ? 0.0 : percent_of(disputed); }
  // Whether at least this percentage is on the unit, disputed or not. Exact: percent() rounds.
  bool reaches(int64_t percentage) const {
    return (on_unit + disputed) * 100 >= whole * percentage;
  }

 private:
  double percent_of(int64_t part) const {
    return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  }
};

struct Coverage {
  Share ops, macs, weight_bytes;
  Coverage& operator+=(const Coverage& other);
  // A warning about the whole shard: nothing of it counts as predicted on the unit.
  void dispute();
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
