// Runs one op on literal values.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "backends/reference/reference.h"
#include "ir/graph/builder.h"

namespace moec {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Arranges values [T, C] as a token tensor of the layout.
inline Tensor tokens(Layout layout, int64_t token_count, int64_t channels,
                     const std::vector<float>& rows) {
  Tensor tensor{token_type(DType::f32, layout, channels, token_count), rows};
  if (layout == Layout::rows) return tensor;
  for (int64_t t = 0; t < token_count; ++t)
    for (int64_t c = 0; c < channels; ++c)
      tensor.data[static_cast<size_t>(c * token_count + t)] =
          rows[static_cast<size_t>(t * channels + c)];
  return tensor;
}

// Returns the values of a token tensor as [T, C].
inline std::vector<float> rows_in(const Tensor& tensor) {
  if (tensor.type.layout == Layout::rows) return tensor.data;
  const int64_t token_count = tokens_of(tensor.type), channels = channels_of(tensor.type);
  std::vector<float> rows(tensor.data.size());
  for (int64_t t = 0; t < token_count; ++t)
    for (int64_t c = 0; c < channels; ++c)
      rows[static_cast<size_t>(t * channels + c)] =
          tensor.data[static_cast<size_t>(c * token_count + t)];
  return rows;
}

inline Tensor plain(Dims dims, std::vector<float> data, DType dtype = DType::f32) {
  return {{dtype, std::move(dims)}, std::move(data)};
}

inline Shard shard_of(const OpData& op, const std::vector<Tensor>& operands) {
  Builder build("test", Form::model);
  std::vector<ValueId> ids;
  for (const Tensor& operand : operands)
    ids.push_back(build.input("in" + std::to_string(ids.size()), operand.type));
  for (ValueId result : build.emit_all(op, ids))
    build.output("out" + std::to_string(result.index), result);
  return build.finish();
}

inline std::vector<Tensor> run_op(const OpData& op, const std::vector<Tensor>& operands) {
  auto results = evaluate(shard_of(op, operands), operands);
  if (results) return std::move(*results);
  ADD_FAILURE() << render(results.error());
  return {Tensor{}, Tensor{}, Tensor{}};
}

inline void expect_near(const std::vector<float>& found, const std::vector<double>& expected,
                        double tolerance = 1e-6) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
}

// Uniform in [-1, 1).
inline std::vector<float> random_floats(uint64_t seed, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = seeded_element(seed << 32, i);
  return values;
}

}  // namespace moec
