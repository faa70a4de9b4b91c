// Matrix products and convolutions with Eigen.
#include <Eigen/Core>
#include <algorithm>
#include <memory>
#include <optional>

#include "backends/reference/broadcast.h"
#include "backends/reference/eval.h"
#include "backends/reference/tensor_pool.h"
#include "backends/reference/tokens.h"
#include "ir/base/at.h"

namespace moec {

namespace {

// An operand of a convolution or a matrix product: values in memory, or a weight in its stored
// form. Only one stored operand may exist at a time (see MappedRead).
class Operand {
 public:
  Operand(const Call& call, size_t index)
      : stored_(call.stored.empty() ? nullptr : call.stored[index]) {
    // Kernels protect their own reads, on each thread.
    const bool reads = stored_ != nullptr && call.products == nullptr;
    if (const auto range = reads ? stored_->range() : std::nullopt) read_.emplace(*range);
    whole_ = stored_ ? stored_->whole() : call[index].data.data();
  }

  // The operand, starting at element `begin`, for kernels.
  Factor from(int64_t begin) const {
    if (stored_) return {nullptr, stored_, begin};
    return {whole_ + begin, nullptr, 0};
  }
  // All elements as f32; null if they must be widened.
  const float* whole() const { return whole_; }
  // Kernels for products of the operand's 16-bit floats with a vector; null if the elements must be
  // widened.
  const HalfProducts* halves() const { return stored_->halves(); }
  const std::byte* half_at(int64_t element) const { return stored_->data() + 2 * element; }
  // Converts elements [begin, begin + count) to f32.
  void widen(int64_t begin, int64_t count, float* to) const { stored_->widen(begin, count, to); }

 private:
  const float* whole_ = nullptr;
  const StoredWeight* stored_ = nullptr;
  std::optional<MappedRead> read_;
};

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Columns = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;  // outer, inner
template <class M>
using In = Eigen::Map<const M>;
template <class M>
using Out = Eigen::Map<M>;

void add_bias(Tensor& result, const Tensor& bias, int64_t channels, int64_t step) {
  for (size_t i = 0; i < result.data.size(); ++i)
    result.data[i] += bias.data[i / static_cast<size_t>(step) % static_cast<size_t>(channels)];
}

// An operand, starting at element `begin`.
struct Part {
  const Operand& operand;
  int64_t begin = 0;
  const float* whole() const { return operand.whole() ? operand.whole() + begin : nullptr; }
};

// A stored matrix is widened in parts. Parts for a product with a vector stay in the innermost
// caches. Parts for a product with a matrix are larger, because each is reused. Eigen sums the
// products of an element in the same order as for the whole matrix only under three conditions.
// Rows and columns are cut at multiples of Eigen's block sizes (8 for a vector; 48 is a multiple of
// all block sizes for matrices). No part is a single row or column. `inner` exceeds the limit of
// Eigen's loops for small matrices.
constexpr int64_t kVectorElements = int64_t{16} << 10;
constexpr int64_t kMatrixElements = int64_t{1} << 20;
constexpr int64_t kVectorBlock = 8, kMatrixBlock = 48;
constexpr int64_t kShortInner = 64;

// Length of the parts of an axis of `size`; the last part includes the remainder.
int64_t part_of(int64_t size, int64_t inner, bool is_vector) {
  if (inner < kShortInner) return size;
  const int64_t block = is_vector ? kVectorBlock : kMatrixBlock;
  const int64_t wanted = (is_vector ? kVectorElements : kMatrixElements) / inner;
  return std::max(block, wanted / block * block);
}

// Calls visit(begin, count) for each part of an axis.
template <class Visit>
void for_each_part(int64_t size, int64_t part, Visit visit) {
  for (int64_t begin = 0; begin < size;) {
    const int64_t count = size - begin < 2 * part ? size - begin : part;
    visit(begin, count);
    begin += count;
  }
}

// Rows and columns of a matrix with `stride` columns.
struct Tile {
  int64_t first_row = 0, rows = 0, first_column = 0, columns = 0, stride = 0;
};

// Widens a part of a stored matrix.
void widen_part(Part matrix, const Tile& part, float* to) {
  const int64_t from = matrix.begin + part.first_row * part.stride + part.first_column;
  if (part.columns == part.stride) return matrix.operand.widen(from, part.rows * part.columns, to);
  for (int64_t row = 0; row < part.rows; ++row)
    matrix.operand.widen(from + row * part.stride, part.columns, to + row * part.columns);
}

// Kernels that sum 16-bit floats in Eigen's order; null if there are none.
const HalfProducts* halves_of(Part matrix) {
  constexpr bool kSumsFours = Eigen::internal::packet_traits<float>::size == 4;
  return kSumsFours ? matrix.operand.halves() : nullptr;
}

// Stored matrix on the left: computes the result in blocks of rows.
void multiply_stored(Part a, const float* b, const ProductSizes& sizes, Out<Matrix> out) {
  const HalfProducts* halves = sizes.columns == 1 ? halves_of(a) : nullptr;
  if (halves != nullptr && sizes.inner >= kShortInner)
    return halves->dot_rows(a.operand.half_at(a.begin), sizes.rows, sizes.inner, b, out.data());
  const int64_t part = part_of(sizes.rows, sizes.inner, sizes.columns == 1);
  const auto rows = std::make_unique_for_overwrite<float[]>(
      static_cast<size_t>(std::min(2 * part, sizes.rows) * sizes.inner));
  for_each_part(sizes.rows, part, [&](int64_t begin, int64_t count) {
    widen_part(a, {begin, count, 0, sizes.inner, sizes.inner}, rows.get());
    out.middleRows(begin, count).noalias() =
        In<Matrix>(rows.get(), count, sizes.inner) * In<Matrix>(b, sizes.inner, sizes.columns);
  });
}

// Stored matrix on the right: computes the result in blocks of columns.
void multiply_stored(const float* a, Part b, const ProductSizes& sizes, Out<Matrix> out) {
  const int64_t part = part_of(sizes.columns, sizes.inner, false);
  const auto columns = std::make_unique_for_overwrite<float[]>(
      static_cast<size_t>(std::min(2 * part, sizes.columns) * sizes.inner));
  for_each_part(sizes.columns, part, [&](int64_t begin, int64_t count) {
    widen_part(b, {0, sizes.inner, begin, count, sizes.columns}, columns.get());
    out.middleCols(begin, count).noalias() =
        In<Matrix>(a, sizes.rows, sizes.inner) * In<Matrix>(columns.get(), sizes.inner, count);
  });
}

// Number of rows of b that Eigen sums before it adds them to a result of one row.
int64_t summed_rows(const ProductSizes& sizes) {
  if (sizes.inner < 128) return sizes.inner;
  return sizes.columns * static_cast<int64_t>(sizeof(float)) < 32000 ? 16 : 4;
}

// One row times a stored matrix: processes a few rows of the matrix at a time, in parts of their
// columns.
void multiply_row_stored(const float* a, Part b, const ProductSizes& sizes, float* out) {
  const int64_t summed = summed_rows(sizes);
  if (const HalfProducts* halves = halves_of(b)) {
    for (int64_t i = 0; i < sizes.inner; i += summed)
      halves->add_rows(b.operand.half_at(b.begin + i * sizes.columns),
                       std::min(summed, sizes.inner - i), sizes.columns, sizes.columns, a + i, out);
    return;
  }
  const int64_t part = std::max<int64_t>(kVectorElements / summed, kMatrixBlock);
  const auto rows = std::make_unique_for_overwrite<float[]>(
      static_cast<size_t>(std::min(2 * part, sizes.columns) * summed));
  for_each_part(sizes.columns, part, [&](int64_t begin, int64_t count) {
    Out<Matrix> sums(out + begin, 1, count);
    for (int64_t i = 0; i < sizes.inner; i += summed) {
      const int64_t taken = std::min(summed, sizes.inner - i);
      widen_part(b, {i, taken, begin, count, sizes.columns}, rows.get());
      sums.noalias() += In<Matrix>(a + i, 1, taken) * In<Matrix>(rows.get(), taken, count);
    }
  });
}

// A few rows times the transpose of a matrix [columns, inner]: computed row by row, because Eigen's
// matrix product would first pack a copy of the matrix.
constexpr int64_t kFewRows = 4;

void multiply_turned(const float* a, const float* b, const ProductSizes& sizes, float* out) {
  const In<Matrix> turned(b, sizes.columns, sizes.inner);
  if (sizes.rows > kFewRows) {
    Out<Matrix>(out, sizes.rows, sizes.columns).noalias() =
        In<Matrix>(a, sizes.rows, sizes.inner) * turned.transpose();
    return;
  }
  for (int64_t row = 0; row < sizes.rows; ++row)
    Out<Columns>(out + row * sizes.columns, sizes.columns, 1).noalias() =
        turned * In<Columns>(a + row * sizes.inner, sizes.inner, 1);
}

// The result of an op: zeros if products are added to it. Kernels write each element.
Tensor empty_product(const Call& call, bool is_sum) {
  Tensor result = make_tensor(call.type());
  if (is_sum) std::fill(result.data.begin(), result.data.end(), 0.0f);
  return result;
}

// out [rows, columns] = a · b; without kernels, `out` must be zero initially. At most one operand
// is stored.
void multiply(const Call& call, Part a, Part b, const ProductSizes& sizes, float* out) {
  if (call.products != nullptr)
    return call.products->multiply(a.operand.from(a.begin), b.operand.from(b.begin),
                                   call.right_is_turned, sizes, out);
  if (call.right_is_turned) return multiply_turned(a.whole(), b.whole(), sizes, out);
  Out<Matrix> result(out, sizes.rows, sizes.columns);
  if (a.whole() == nullptr)
    multiply_stored(a, b.whole(), sizes, result);
  else if (b.whole() == nullptr && sizes.rows == 1)
    multiply_row_stored(a.whole(), b, sizes, out);
  else if (b.whole() == nullptr)
    multiply_stored(a.whole(), b, sizes, result);
  else
    result.noalias() = In<Matrix>(a.whole(), sizes.rows, sizes.inner) *
                       In<Matrix>(b.whole(), sizes.inner, sizes.columns);
}

// out [N, T'] += w_k [N, C] · x[:, k : k + T'] for one group and one kernel position k.
void add_position(const float* x, int64_t tokens, const float* w, int64_t kernel, int64_t channels,
                  Out<Matrix> out) {
  Eigen::Map<const Matrix, 0, Strides> wk(w, out.rows(), channels,
                                          Strides(channels * kernel, kernel));
  Eigen::Map<const Matrix, 0, Eigen::OuterStride<>> xk(x, channels, out.cols(),
                                                       Eigen::OuterStride<>(tokens));
  out.noalias() += wk * xk;
}

}  // namespace

// Computes on the transposes, whose columns are tokens, so that a single token is a matrix-vector
// product.
TokenRows project(const Products* products, const Tensor& w, const TokenRows& x) {
  const int64_t outputs = w.type.dims[0];
  TokenRows result = zero_rows(x.tokens, outputs);
  if (products != nullptr) {
    products->multiply({x.data.data()}, {w.data.data()}, true, {x.tokens, x.channels, outputs},
                       result.data.data());
    return result;
  }
  In<Matrix> weight(w.data.data(), outputs, x.channels);
  In<Columns> in(x.data.data(), x.channels, x.tokens);
  Out<Columns>(result.data.data(), outputs, x.tokens).noalias() = weight * in;
  return result;
}

TokenRows project(const Call& call, const MatrixRows& rows, const TokenRows& x) {
  const Operand w(call, rows.operand);
  const int64_t begin = rows.first * x.channels, elements = rows.count * x.channels;
  const ProductSizes sizes{x.tokens, x.channels, rows.count};
  TokenRows result = zero_rows(x.tokens, rows.count);
  if (call.products != nullptr) {
    call.products->multiply({x.data.data()}, w.from(begin), true, sizes, result.data.data());
    return result;
  }
  std::vector<float> widened;
  if (w.whole() == nullptr) {
    widened.resize(static_cast<size_t>(elements));
    w.widen(begin, elements, widened.data());
  }
  const float* from = w.whole() ? w.whole() + begin : widened.data();
  multiply_turned(x.data.data(), from, sizes, result.data.data());
  return result;
}

Tensor eval(const Linear&, const Call& call) {
  const TokenRows x = rows_of(call[0]);
  if (call.applied) call.applied(1, x.channels, x.data);
  TokenRows rows = project(call.products, call[1], x);
  if (call.operands.size() == 3)
    for (int64_t t = 0; t < rows.tokens; ++t)
      for (int64_t c = 0; c < rows.channels; ++c) at(rows.row(t), c) += at(call[2].data, c);
  return tensor_of(rows, call.type());
}

Tensor eval(const Conv& op, const Call& call) {
  const int64_t tokens = tokens_of(call[0].type), new_tokens = tokens_of(call.type());
  const int64_t outputs = channels_of(call.type()) / op.groups;  // per group
  const int64_t channels = channels_of(call[0].type) / op.groups;
  const int64_t kernel = call[1].type.dims[2] * call[1].type.dims[3];  // one of them is 1
  Tensor result = empty_product(call, call.products == nullptr || kernel != 1);
  const Operand x(call, 0), w(call, 1);
  for (int64_t group = 0; group < op.groups; ++group) {
    const Part in{x, group * channels * tokens};
    const Part weight{w, group * outputs * channels * kernel};
    float* to = result.data.data() + group * outputs * new_tokens;
    if (kernel == 1)
      multiply(call, weight, in, {outputs, channels, tokens}, to);
    else
      for (int64_t k = 0; k < kernel; ++k)
        add_position(in.whole() + k, tokens, weight.whole() + k, kernel, channels,
                     Out<Matrix>(to, outputs, new_tokens));
  }
  if (call.operands.size() == 3) add_bias(result, call[2], outputs * op.groups, new_tokens);
  return result;
}

Tensor eval(const MatMul&, const Call& call) {
  const Dims& dims = call.type().dims;
  const ProductSizes sizes{dims[dims.size() - 2], call[0].type.dims.back(), dims[dims.size() - 1]};
  Tensor result = empty_product(call, call.products == nullptr);
  const auto leading = [](const Dims& all) {
    return PerAxis(std::span<const int64_t>(all).first(all.size() - 2));
  };
  const PerAxis batch = leading(dims);
  const Operand a(call, 0), b(call, 1);
  walk<2>(batch,
          {broadcast_strides(leading(call[0].type.dims), batch),
           broadcast_strides(leading(call[1].type.dims), batch)},
          [&](const StridedRun<2>& run) {
            for (int64_t i = 0; i < run.count; ++i) {
              const int64_t at_a = run.offset[0] + i * run.step[0];
              const int64_t at_b = run.offset[1] + i * run.step[1];
              const int64_t at = static_cast<int64_t>(run.index) + i;
              const Part left{a, at_a * sizes.rows * sizes.inner};
              const Part right{b, at_b * sizes.inner * sizes.columns};
              float* to = result.data.data() + at * sizes.rows * sizes.columns;
              multiply(call, left, right, sizes, to);
            }
          });
  return result;
}

}  // namespace moec
