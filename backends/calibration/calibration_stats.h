// Reads what `moec calibrate` wrote.
#pragma once

#include <map>

#include "backends/calibration/calibration_index.h"
#include "backends/weights/encode/hessian.h"

namespace moec {

class CalibrationStats {
 public:
  // Opens the folder of a finished calibration. Errors: those of read_calibration_index(),
  // calibrate.unfinished.
  static Result<CalibrationStats> open(const std::string& folder);

  // Error calibrate.other_checkpoint where it is of another one than checkpoint_identity() says.
  Status check_checkpoint(const std::string& identity) const;

  // Whether there are inputs of this matrix, and how many tokens reached them. `layer` and `role`
  // are those of the builder's WeightRequest, −1 for the head; `expert` is −1 unless the matrix is
  // one expert's, also where the checkpoint stores all experts in one tensor.
  bool has(int64_t layer, const std::string& role, int64_t expert = -1) const;
  int64_t tokens(int64_t layer, const std::string& role, int64_t expert = -1) const;

  // The Hessian of its inputs: an expert's pooled() with that of its layer, where it shares the
  // inputs of the layer (gate and up). Errors: calibrate.no_input, calibrate.damaged, those of
  // RegularFile and check_hessian().
  Result<Hessian> find(int64_t layer, const std::string& role, int64_t expert = -1) const;

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
  Result<Hessian> read(const Stored& stored) const;

  std::string folder_;
  CalibrationIndex index_;
  std::map<Key, Stored> by_matrix_;
  std::map<std::pair<size_t, std::string>, Stored> by_name_;  // by place of the layer, and name
};

}  // namespace moec
