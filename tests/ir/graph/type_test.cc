#include "ir/graph/type.h"

#include <gtest/gtest.h>

#include "ir/graph/ops.h"
#include "ir/text/text.h"

namespace moec {
namespace {

TEST(Type, RoundTripsText) {
  for (const Type& type :
       {Type{DType::f32, {}}, Type{DType::f16, {1, 64, 8, 1}, Layout::channels},
        Type{DType::f32, {1, 64, 1, 8}, Layout::bc1s}, Type{DType::boolean, {3, 4}, Layout::rows},
        Type{DType::f8_e4m3, {1, 2, 3, 4, 5}}})
    EXPECT_EQ(parse_type(to_string(type)).value(), type);
  EXPECT_EQ(to_string(Type{DType::f16, {1, 64, 8, 1}, Layout::channels}),
            "f16[1,64,8,1]{channels}");
  EXPECT_EQ(to_string(Type{DType::f16, {1, 64, 1, 8}, Layout::bc1s}), "f16[1,64,1,8]{bc1s}");
  EXPECT_EQ(to_string(Type{DType::i64, {}}), "i64[]");
}

TEST(Type, NamesElementTypesAndLayouts) {
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(parse_dtype(dtype_name(static_cast<DType>(i))), static_cast<DType>(i));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(parse_layout(layout_name(static_cast<Layout>(i))), static_cast<Layout>(i));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(parse_form(form_name(static_cast<Form>(i))), static_cast<Form>(i));
  EXPECT_EQ(parse_dtype("f64"), std::nullopt);
  EXPECT_EQ(parse_layout(""), std::nullopt);
  EXPECT_EQ(parse_form("Model"), std::nullopt);
}

TEST(Type, CountsElementsWithoutOverflow) {
  EXPECT_EQ(checked_elements({}), 1);
  EXPECT_EQ(checked_elements({3, 4}), 12);
  EXPECT_EQ(checked_elements({3, 0}), std::nullopt);
  EXPECT_EQ(checked_elements({-3, -4}), std::nullopt);
  EXPECT_EQ(checked_elements({kMaxElements}), kMaxElements);
  EXPECT_EQ(checked_elements({kMaxElements, 2}), std::nullopt);
  EXPECT_EQ(checked_elements({INT64_MAX, INT64_MAX, INT64_MAX}), std::nullopt);
  EXPECT_EQ((Type{DType::bf16, {3, 4}}.bytes()), 24);
  EXPECT_EQ((Type{DType::f8_e4m3, {3, 4}}.bytes()), 12);
}

TEST(Type, BuildsTokenTensors) {
  const Type rows = token_type(DType::f32, Layout::rows, 64, 8);
  const Type channels = token_type(DType::f32, Layout::channels, 64, 8);
  const Type bc1s = token_type(DType::f32, Layout::bc1s, 64, 8);
  EXPECT_EQ(rows, (Type{DType::f32, {8, 64}, Layout::rows}));
  EXPECT_EQ(channels, (Type{DType::f32, {1, 64, 8, 1}, Layout::channels}));
  EXPECT_EQ(bc1s, (Type{DType::f32, {1, 64, 1, 8}, Layout::bc1s}));
  for (const Type& type : {rows, channels, bc1s}) {
    EXPECT_EQ(channels_of(type), 64);
    EXPECT_EQ(tokens_of(type), 8);
    EXPECT_TRUE(fits_layout(type.dims, type.layout));
    EXPECT_EQ(is_channel_major(type.layout), type.layout != Layout::rows);
  }
  EXPECT_FALSE(fits_layout(channels.dims, Layout::bc1s));
  EXPECT_FALSE(fits_layout(bc1s.dims, Layout::channels));
  EXPECT_EQ(channel_vector_dims(Layout::rows, 64), (Dims{1, 64}));
  EXPECT_EQ(channel_vector_dims(Layout::channels, 64), (Dims{1, 64, 1, 1}));
  EXPECT_EQ(channel_vector_dims(Layout::bc1s, 64), (Dims{1, 64, 1, 1}));
}

TEST(Type, TreatsThreeTypesAsFloat) {
  int floats = 0;
  for (int i = 0; i < 8; ++i) floats += is_float(static_cast<DType>(i)) ? 1 : 0;
  EXPECT_EQ(floats, 3);
  EXPECT_TRUE(is_float(DType::f32) && is_float(DType::f16) && is_float(DType::bf16));
}

}  // namespace
}  // namespace moec
