// Reads the output of `moec calibrate`.
#pragma once

#include <map>
#include <span>

#include "backends/weights/calibration/calibration_index.h"
#include "backends/weights/encode/hessian.h"
#include "ir/experts/expert_id.h"

namespace moec {

// Inputs [begin, begin + size) of a matrix.
struct InputRange {
  int64_t begin = 0, size = 0;
  bool operator==(const InputRange&) const = default;
};

// An expert that few tokens chose: at least half of the moments of its gate and up come from all
// experts of its layer.
struct ExpertFallback {
  ExpertId id;
  int64_t tokens = 0;
  double weight = 0;  // weight of the layer's moments; 1 for an expert without tokens
};

class CalibrationStats {
 public:
  // Opens the folder of a finished calibration. Errors: those of read_calibration_index();
  // calibrate.unfinished; calibrate.no_input (the calibration has no inputs).
  static Result<CalibrationStats> open(const std::string& folder);

  // Fails with calibrate.other_checkpoint if the calibration was made with a checkpoint of another
  // checkpoint_identity().
  Status check_checkpoint(const std::string& identity) const;

  // Returns the inputs of a matrix; null if there are none. The layer and the role are those of the
  // builder's WeightRequest. An expert's matrix has its number, even if the checkpoint stores all
  // experts in one tensor. Matrices that share their inputs return the same object.
  const CalibratedInput* inputs_of(const RoleTensor& matrix) const;
  // tokens(): number of tokens that reached the inputs. borrowed(): tokens that an expert with
  // shared inputs (gate and up) borrows from all experts of its layer, as borrowed_tokens()
  // computes them.
  int64_t tokens(const RoleTensor& matrix) const;
  int64_t borrowed(const RoleTensor& matrix) const;

  // Returns the experts that few tokens chose, ordered by layer, then expert.
  std::vector<ExpertFallback> fallbacks() const;

  // Returns the Hessian of a range of a matrix's inputs, including borrowed moments. Reads each
  // triangle once, in chunks. Errors: calibrate.no_input, calibrate.damaged, calibrate.hessian_size
  // (the range exceeds the inputs), those of RegularFile and check_hessian().
  Result<Hessian> find(const RoleTensor& matrix) const;
  Result<Hessian> find(const RoleTensor& matrix, const InputRange& range) const;
  // Returns the Hessians of several ranges, ascending and disjoint. Products of inputs that were
  // not summed together (CalibratedInput::together) are 0.
  Result<std::vector<Hessian>> find(const RoleTensor& matrix,
                                    std::span<const InputRange> ranges) const;

  // Returns the narrowness of the text, computed from the loads of all layers (load_variation.h).
  // Every Hessian has this value.
  double narrowness() const { return narrowness_; }

  const CalibrationIndex& index() const { return index_; }

 private:
  struct Stored {
    size_t layer, input;  // indices into the index
    uint64_t offset;      // of the triangle in the layer's file
  };

  const Stored* stored(const RoleTensor& matrix) const;
  const CalibratedInput& input(const Stored& stored) const {
    return index_.layers[stored.layer].inputs[stored.input];
  }
  // Returns the inputs of all experts, from which `own` borrows; null if it does not borrow.
  const Stored* pool_of(const Stored& own) const;
  Status add_triangle(const Stored& stored, std::span<const InputRange> ranges, double share,
                      std::vector<Hessian>& to) const;

  std::string folder_;
  CalibrationIndex index_;
  double narrowness_ = 0;
  std::map<RoleTensor, Stored> by_matrix_;
  std::map<std::pair<size_t, std::string>, Stored> by_name_;  // key: (index of the layer, name)
};

}  // namespace moec
