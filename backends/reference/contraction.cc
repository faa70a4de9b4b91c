// Matrix products and convolutions, with Eigen.
#include <Eigen/Core>

#include "backends/reference/broadcast.h"
#include "backends/reference/eval.h"
#include "backends/reference/tokens.h"
#include "ir/base/at.h"

namespace moec {
namespace {

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

// out [N, T'] += w_k [N, C] · x[:, k : k + T'], for one group and one kernel position k.
void add_position(const float* x, int64_t tokens, const float* w, int64_t kernel, int64_t channels,
                  Out<Matrix> out) {
  Eigen::Map<const Matrix, 0, Strides> wk(w, out.rows(), channels,
                                          Strides(channels * kernel, kernel));
  Eigen::Map<const Matrix, 0, Eigen::OuterStride<>> xk(x, channels, out.cols(),
                                                       Eigen::OuterStride<>(tokens));
  out.noalias() += wk * xk;
}

}  // namespace

// Computed on the transposes, whose columns are tokens, so that one token is a matrix-vector
// product.
TokenRows project(const Tensor& w, const TokenRows& x) {
  const int64_t outputs = w.type.dims[0];
  TokenRows result = zero_rows(x.tokens, outputs);
  In<Matrix> weight(w.data.data(), outputs, x.channels);
  In<Columns> in(x.data.data(), x.channels, x.tokens);
  Out<Columns>(result.data.data(), outputs, x.tokens).noalias() = weight * in;
  return result;
}

Tensor eval(const Linear&, const Call& call) {
  TokenRows rows = project(call[1], rows_of(call[0]));
  if (call.operands.size() == 3)
    for (int64_t t = 0; t < rows.tokens; ++t)
      for (int64_t c = 0; c < rows.channels; ++c) at(rows.row(t), c) += at(call[2].data, c);
  return tensor_of(rows, call.type());
}

Tensor eval(const Conv& op, const Call& call) {
  const int64_t tokens = tokens_of(call[0].type), new_tokens = tokens_of(call.type());
  const int64_t outputs = channels_of(call.type()) / op.groups;  // of one group
  const int64_t channels = channels_of(call[0].type) / op.groups;
  const int64_t kernel = call[1].type.dims[2] * call[1].type.dims[3];  // one of them is 1
  Tensor result{call.type(), std::vector<float>(static_cast<size_t>(call.type().elements()))};
  for (int64_t group = 0; group < op.groups; ++group) {
    const float* x = call[0].data.data() + group * channels * tokens;
    const float* w = call[1].data.data() + group * outputs * channels * kernel;
    Out<Matrix> out(result.data.data() + group * outputs * new_tokens, outputs, new_tokens);
    if (kernel == 1)
      out.noalias() = In<Matrix>(w, outputs, channels) * In<Matrix>(x, channels, tokens);
    else
      for (int64_t k = 0; k < kernel; ++k)
        add_position(x + k, tokens, w + k, kernel, channels, out);
  }
  if (call.operands.size() == 3) add_bias(result, call[2], outputs * op.groups, new_tokens);
  return result;
}

Tensor eval(const MatMul&, const Call& call) {
  const Dims& dims = call.type().dims;
  const int64_t rows = dims[dims.size() - 2], columns = dims[dims.size() - 1];
  const int64_t inner = call[0].type.dims.back();
  Tensor result{call.type(), std::vector<float>(static_cast<size_t>(call.type().elements()))};
  const auto leading = [](const Dims& all) { return Dims(all.begin(), all.end() - 2); };
  const Dims batch = leading(dims);
  walk<2>(batch,
          {broadcast_strides(leading(call[0].type.dims), batch),
           broadcast_strides(leading(call[1].type.dims), batch)},
          [&](const Stretch<2>& stretch) {
            for (int64_t i = 0; i < stretch.count; ++i) {
              const int64_t at_a = stretch.offset[0] + i * stretch.step[0];
              const int64_t at_b = stretch.offset[1] + i * stretch.step[1];
              const int64_t at = static_cast<int64_t>(stretch.index) + i;
              In<Matrix> a(call[0].data.data() + at_a * rows * inner, rows, inner);
              In<Matrix> b(call[1].data.data() + at_b * inner * columns, inner, columns);
              Out<Matrix>(result.data.data() + at * rows * columns, rows, columns).noalias() =
                  a * b;
            }
          });
  return result;
}

}  // namespace moec
