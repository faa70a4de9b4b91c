// The ways to store a matrix in several tensors (stored_view.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "models/tensors/stored_tensor.h"

namespace moec {

class MatrixCoding {
 public:
  MatrixCoding(const WeightTable& weights, const StoredWeights& stored)
      : weights_(weights), stored_(stored) {}
  virtual ~MatrixCoding() = default;

  // Names, besides that of the matrix, of tensors that only this coding has.
  virtual std::vector<std::string> names(const std::string&) const { return {}; }
  // True if the table stores the matrix in this coding.
  virtual bool stores(const std::string& name) const;
  // The parts of a needed tensor; empty if this coding cannot store its shape.
  virtual std::vector<StoredTensor> parts(const NeededTensor& tensor) const = 0;
  // The decoded matrix; stores() must be true.
  virtual WeightView view(const std::string& name) const = 0;

 protected:
  const TensorRange* find(const std::string& name) const { return weights_.find(name); }
  const StoredWeights& stored() const { return stored_; }
  // The view of a tensor that must be in the table.
  WeightView tensor(const std::string& name) const;
  // A derived tensor that must be in the table.
  const WeightView& derived(const std::string& name) const;
  // The block of a matrix, in which 0 is replaced by the size of the axis.
  Dims block_of(const Dims& matrix) const;
  // The number of blocks along each axis; the last block may be partial.
  Dims factor_dims(const Dims& matrix) const;

 private:
  const WeightTable& weights_;
  const StoredWeights& stored_;
};

// Null for plain weights and the blocks of GGUF files, which are stored under their names.
std::unique_ptr<MatrixCoding> float_coding(const WeightTable& weights, const StoredWeights& stored);
std::unique_ptr<MatrixCoding> integer_coding(const WeightTable& weights,
                                             const StoredWeights& stored);
std::unique_ptr<MatrixCoding> bitsandbytes_coding(const WeightTable& weights,
                                                  const StoredWeights& stored);
std::unique_ptr<MatrixCoding> matrix_coding(const WeightTable& weights,
                                            const StoredWeights& stored);

inline constexpr std::string_view kWeight = "weight";

// "a.weight" → "a." + part, for a name that ends in kWeight.
std::string sibling(const std::string& name, std::string_view part);

// The part `part` of a needed tensor, under its name in the checkpoint.
NeededTensor tensor_part(const NeededTensor& tensor, std::string_view part, std::string name,
                         Dims dims);

}  // namespace moec
