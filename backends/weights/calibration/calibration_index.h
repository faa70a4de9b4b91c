// What `moec calibrate` writes: the second moments of the inputs of every matrix of a model.
//
//   STATS/calibration.json   this index: of which checkpoint and text, and what lies in the files
//   STATS/L00.hessians       one file for each layer, and head.hessians
//   STATS/state2.bin         while it is unfinished: the values behind the second layer
//
// A .hessians file has one triangle after the other, in the order of the index, for inputs that at
// least one token reached: rows 0 … I − 1 of Σ x·xᵀ, row i with its first i + 1 elements, f32 in
// little-endian order. Inputs of no token have no triangle. Where their sums were too large, inputs
// have one triangle after the other for blocks of `together` of them, the last maybe smaller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/weights/calibration/run_state.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kCalibrationIndex = "calibration.json";

// A matrix that is applied to some inputs: a WeightRequest's role, and the expert or −1.
struct CalibratedMatrix {
  std::string role;
  int64_t expert = -1;
  bool operator==(const CalibratedMatrix&) const = default;
};

struct CalibratedInput {
  std::string name;  // "attn_norm", "experts.3", "experts.3.down", …; once a layer
  int64_t inputs = 0, tokens = 0;
  std::string pool;      // the name of those of all experts together, with which few tokens of an
                         // expert are pooled; may be empty
  int64_t together = 0;  // inputs of a block; 0: all of them
  std::string digest;    // of the bytes of all triangles; empty without tokens
  std::vector<CalibratedMatrix> matrices;
  bool operator==(const CalibratedInput&) const = default;
};

struct CalibratedLayer {
  int64_t layer = -1;  // -1: the head
  std::string file;
  std::vector<CalibratedInput> inputs;
  bool operator==(const CalibratedLayer&) const = default;
};

struct CalibrationIndex {
  std::string checkpoint;  // checkpoint_identity()
  std::string text;        // digest of the token ids
  int64_t window = 0, tokens = 0;
  bool finished = false;
  RunState state;  // of an unfinished one
  std::vector<CalibratedLayer> layers;
  bool operator==(const CalibrationIndex&) const = default;
};

// The bytes of a triangle.
constexpr uint64_t triangle_bytes(int64_t inputs) {
  return static_cast<uint64_t>(inputs) * static_cast<uint64_t>(inputs + 1) / 2 * sizeof(float);
}

// Of all blocks.
uint64_t triangle_bytes(const CalibratedInput& input);

std::string index_text(const CalibrationIndex& index);
// Reads calibration.json of a folder. Errors: calibrate.no_statistics where there is none,
// calibrate.malformed.
Result<CalibrationIndex> read_calibration_index(const std::string& folder);

}  // namespace moec
