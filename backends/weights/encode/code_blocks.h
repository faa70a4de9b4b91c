// Maps the codes of a weight to their parameters, which each block of rows and columns shares.
#pragma once

#include "backends/weights/encode/error_feedback.h"
#include "ir/graph/encoding.h"

namespace moec {

// A weight viewed as a matrix of outputs and inputs, divided into blocks.
struct CodeBlocks {
  int64_t rows = 0, columns = 0;  // outputs, inputs
  int64_t block_rows = 1;         // divides the rows
  int64_t block_columns = 1;      // the last block of a row may be partial
  bool transposed = false;        // stored column by column

  int64_t across() const { return (columns + block_columns - 1) / block_columns; }
  // Codes per row, including the padding of its last block.
  int64_t stored_columns() const { return across() * block_columns; }
  int64_t down() const { return rows / block_rows; }
  // Returns the index of a block's parameters in their stored part.
  int64_t place(int64_t down_index, int64_t across_index) const {
    return transposed ? across_index * down() + down_index : down_index * across() + across_index;
  }
};

// `input_axis` counts the inputs; all axes before it, or all after it, count the outputs. Error:
// calibrate.shape (the weight or its blocks do not form such a matrix).
Result<CodeBlocks> code_blocks(const Encoding& encoding, const Type& type, int64_t input_axis);

// columns_of() reorders elements from the order of the weight into columns; elements_of() is its
// inverse.
template <class T>
ColumnMatrix<T> columns_of(const CodeBlocks& blocks, std::vector<T> elements) {
  ColumnMatrix<T> matrix;
  matrix.rows = blocks.rows;
  matrix.columns = blocks.columns;
  if (blocks.transposed) {
    matrix.data = std::move(elements);
    return matrix;
  }
  matrix.data.resize(elements.size());
  for (int64_t r = 0; r < blocks.rows; ++r)
    for (int64_t c = 0; c < blocks.columns; ++c)
      matrix.column(c)[r] = elements[static_cast<size_t>(r * blocks.columns + c)];
  return matrix;
}

template <class T>
std::vector<T> elements_of(const CodeBlocks& blocks, ColumnMatrix<T> matrix) {
  if (blocks.transposed) return std::move(matrix.data);
  std::vector<T> elements(matrix.data.size());
  for (int64_t c = 0; c < blocks.columns; ++c)
    for (int64_t r = 0; r < blocks.rows; ++r)
      elements[static_cast<size_t>(r * blocks.columns + c)] = matrix.column(c)[r];
  return elements;
}

}  // namespace moec
