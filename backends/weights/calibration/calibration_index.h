// Output of `moec calibrate`: second moments of the inputs of every matrix of a model.
//
//   STATS/calibration.json   this index: checkpoint, text, and the contents of the other files
//   STATS/L00.hessians       one file per layer, and head.hessians
//   STATS/state2.bin         only while unfinished: the values after the second layer
//
// A .hessians file has consecutive triangles of Σ x·xᵀ (triangle.h), in the order of the index, for
// inputs that at least one token reached. Inputs without tokens have no triangle. Inputs whose sums
// exceeded the memory limit have one triangle per block of `together` inputs; the last block may be
// smaller.
//
// Processes that divide a calibration write such folders to STATS/.parts/0, STATS/.parts/1, …,
// whose indexes stay unfinished.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/weights/calibration/run_state.h"
#include "backends/weights/calibration/triangle.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kCalibrationIndex = "calibration.json";

// A matrix applied to some inputs: the role of its WeightRequest, and its expert or −1.
struct CalibratedMatrix {
  std::string role;
  int64_t expert = -1;
  bool operator==(const CalibratedMatrix&) const = default;
};

struct CalibratedInput {
  std::string name;  // "attn_norm", "experts.3", "experts.3.down", …; unique within a layer
  int64_t inputs = 0, tokens = 0;
  std::string pool;      // name of the inputs of all experts, which supply moments if an expert has
                         // few tokens; may be empty
  int64_t together = 0;  // inputs per block; 0: one block
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
  TriangleForm triangles = TriangleForm::correlations;  // sums in versions before 4
  RunState state;                                       // if not finished
  std::vector<CalibratedLayer> layers;                  // in the order of the model, the head last
  // Digest of the flags that the bytes of layers depend on, while the calibration is divided among
  // processes. Layers may then be missing between others. Otherwise empty.
  std::string inputs;
  bool operator==(const CalibrationIndex&) const = default;
};

// Returns the name of a layer's file.
std::string hessians_file(int64_t layer);

// Returns true if the index lists the layer.
bool has_layer(const CalibrationIndex& index, int64_t layer);
// Adds a layer that the index does not list.
void add_layer(CalibrationIndex& index, CalibratedLayer layer);

// Returns the bytes of the triangles of all blocks.
uint64_t triangle_bytes(const CalibratedInput& input, TriangleForm form);

std::string index_text(const CalibrationIndex& index);
// Reads calibration.json of a folder. Errors: calibrate.no_statistics (no such file),
// calibrate.malformed.
Result<CalibrationIndex> read_calibration_index(const std::string& folder);

}  // namespace moec
