// Reads what `moec calibrate` wrote.
#pragma once

#include <map>
#include <span>

#include "backends/weights/calibration/calibration_index.h"
#include "backends/weights/encode/hessian.h"

namespace moec {

// Inputs begin … begin + size − 1 of a matrix.
struct InputRange {
  int64_t begin = 0, size = 0;
  bool operator==(const InputRange&) const = default;
};

// An expert that few tokens chose: at least half of the moments of its gate and up are those of all
// experts of its layer.
struct ExpertFallback {
  int64_t layer = 0, expert = 0, tokens = 0;
  double weight = 0;  // of the layer's moments, 1 for an expert that no token chose
};

class CalibrationStats {
 public:
  // Opens the folder of a finished calibration. Errors: those of read_calibration_index(),
  // calibrate.unfinished, calibrate.no_input where it is empty.
  static Result<CalibrationStats> open(const std::string& folder);

  // Error calibrate.other_checkpoint where it is of another one than checkpoint_identity() says.
  Status check_checkpoint(const std::string& identity) const;

  // The inputs of a matrix; null where there are none. `layer` and `role` are those of the
  // builder's WeightRequest, −1 for the head; `expert` is −1 unless the matrix is one expert's,
  // also where the checkpoint stores all experts in one tensor. Matrices that share their inputs
  // have the same ones.
  const CalibratedInput* inputs_of(int64_t layer, const std::string& role,
                                   int64_t expert = -1) const;
  // The tokens that reached them, and those that an expert that shares the inputs of its layer
  // (gate and up) borrows from all experts, as borrowed_tokens() says.
  int64_t tokens(int64_t layer, const std::string& role, int64_t expert = -1) const;
  int64_t borrowed(int64_t layer, const std::string& role, int64_t expert = -1) const;

  // In the order of layers and experts.
  std::vector<ExpertFallback> fallbacks() const;

  // The Hessian of a range of the inputs of a matrix, with what it borrows. The bytes of a triangle
  // pass through memory once, a part at a time. Errors: calibrate.no_input, calibrate.damaged,
  // calibrate.hessian_size where the range lies outside, those of RegularFile and check_hessian().
  Result<Hessian> find(int64_t layer, const std::string& role, int64_t expert = -1) const;
  Result<Hessian> find(int64_t layer, const std::string& role, int64_t expert,
                       const InputRange& range) const;
  // Those of several ranges, in rising order, that do not overlap. Products of inputs that were not
  // summed together (CalibratedInput::together) are 0.
  Result<std::vector<Hessian>> find(int64_t layer, const std::string& role, int64_t expert,
                                    std::span<const InputRange> ranges) const;

  // Of the text, by the loads of all layers (expert_loads.h); that of every Hessian.
  double narrowness() const { return narrowness_; }

  const CalibrationIndex& index() const { return index_; }

 private:
  struct Key {
    int64_t layer, expert;
    std::string role;
    auto operator<=>(const Key&) const = default;
  };
  struct Stored {
    size_t layer, input;  // in the index
    uint64_t offset;      // of the triangle in the file of the layer
  };

  const Stored* stored(int64_t layer, const std::string& role, int64_t expert) const;
  const CalibratedInput& input(const Stored& stored) const {
    return index_.layers[stored.layer].inputs[stored.input];
  }
  // Those of all experts; null for inputs that borrow nothing.
  const Stored* pool_of(const Stored& own) const;
  Status add_triangle(const Stored& stored, std::span<const InputRange> ranges, double share,
                      std::vector<Hessian>& to) const;

  std::string folder_;
  CalibrationIndex index_;
  double narrowness_ = 0;
  std::map<Key, Stored> by_matrix_;
  std::map<std::pair<size_t, std::string>, Stored> by_name_;  // by place of the layer, and name
};

}  // namespace moec
