// Where the ops of a shard file are predicted to run, and how much of the shard that covers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/target/target_rules.h"

namespace moec {

// One op that computes: weights and constants are no part of a placement.
struct PlacedOp {
  std::string name;  // its first result, or "state_write STATE"
  // In a Core ML package: its output, or "write_state STATE"; empty in other formats.
  std::string file_name;
  std::string op;    // mnemonic
  std::string unit;  // predicted
  std::string rule;  // that says so; empty where the op runs on the target's unit
  int64_t macs = 0;
  int64_t weight_bytes = 0;  // of weights that no earlier op reads
};

// Of one measure, the whole and the part that is predicted to run on the target's unit.
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
  // 100 of nothing: nothing runs elsewhere.
  double percent() const {
    return whole == 0 ? 100.0 : 100.0 * static_cast<double>(on_unit) / static_cast<double>(whole);
  }
  // Whether at least so many of a hundred are on the unit, without rounding.
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

// Fills in the names that the ops of the reported shard have in a Core ML package.
void name_as_in_package(PlacementReport& report, const Shard& shard);

}  // namespace moec
