#include "backends/formats/gguf/gguf_values.h"

#include <map>

#include "tests/frontends/sources/gguf/gguf_bytes.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

GgufValues values_of(const GgufBytes& bytes) {
  auto header = parse_bytes(bytes.header());
  if (!header) ADD_FAILURE() << render(header.error());
  return header ? header->values : GgufValues();
}

TEST(GgufValues, ReadsEachType) {
  GgufBytes bytes;
  bytes.raw_key("u8", GgufType::u8, number_bytes<uint8_t>(200));
  bytes.raw_key("i8", GgufType::i8, number_bytes<int8_t>(-100));
  bytes.u16("u16", 60'000).raw_key("i16", GgufType::i16, number_bytes<int16_t>(-30'000));
  bytes.u32("u32", 4'000'000'000).i32("i32", -2'000'000'000);
  bytes.raw_key("f32", GgufType::f32, number_bytes(1e-6f));
  bytes.raw_key("yes", GgufType::boolean, "\2").raw_key("no", GgufType::boolean, {'\0'});
  bytes.text("string", "gpt2");
  bytes.raw_key("u64", GgufType::u64, number_bytes(~uint64_t{0}));
  bytes.raw_key("i64", GgufType::i64, number_bytes<int64_t>(INT64_MIN));
  bytes.raw_key("f64", GgufType::f64, number_bytes(0.1));
  const GgufValues values = values_of(bytes);
  EXPECT_EQ(values.get<uint8_t>("u8"), 200);
  EXPECT_EQ(values.get<int8_t>("i8"), -100);
  EXPECT_EQ(values.get<uint16_t>("u16"), 60'000);
  EXPECT_EQ(values.get<int16_t>("i16"), -30'000);
  EXPECT_EQ(values.get<uint32_t>("u32"), 4'000'000'000);
  EXPECT_EQ(values.get<int32_t>("i32"), -2'000'000'000);
  EXPECT_EQ(values.get<float>("f32"), 1e-6f);
  EXPECT_EQ(values.get<bool>("yes"), true);
  EXPECT_EQ(values.get<bool>("no"), false);
  EXPECT_EQ(values.get<std::string_view>("string"), "gpt2");
  EXPECT_EQ(values.get<uint64_t>("u64"), ~uint64_t{0});
  EXPECT_EQ(values.get<int64_t>("i64"), INT64_MIN);
  EXPECT_EQ(values.get<double>("f64"), 0.1);
  const auto number = [&](std::string_view key) {
    return values.as_number(values.keys().find(key)->second);
  };
  for (const auto& [key, wanted] : std::map<std::string, double>{{"u8", 200},
                                                                 {"i8", -100},
                                                                 {"u16", 6e4},
                                                                 {"i16", -3e4},
                                                                 {"u32", 4e9},
                                                                 {"i32", -2e9},
                                                                 {"f32", 1e-6F},
                                                                 {"yes", 1},
                                                                 {"no", 0},
                                                                 {"f64", 0.1},
                                                                 {"i64", -0x1p63},
                                                                 {"u64", 0x1p64}})
    EXPECT_EQ(number(key), wanted) << key;
  EXPECT_EQ(number("string"), std::nullopt);
}

TEST(GgufValues, ReadsArrays) {
  GgufBytes bytes;
  bytes.array("tokens", GgufType::string, 3,
              gguf_string("a") + gguf_string("") + gguf_string("bc"));
  bytes.array("types", GgufType::i32, 2, number_bytes(1) + number_bytes(-3));
  bytes.array("flags", GgufType::boolean, 2, std::string("\1\0", 2));
  bytes.array("none", GgufType::f32, 0, "").u32("after", 7);
  const GgufValues values = values_of(bytes);
  EXPECT_EQ(values.get_array<std::string_view>("tokens"),
            (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(values.get_array<int32_t>("types"), (std::vector<int32_t>{1, -3}));
  EXPECT_EQ(values.get_array<bool>("flags"), (std::vector<bool>{true, false}));
  EXPECT_EQ(values.find_array<float>("none"), std::vector<float>{});
  EXPECT_EQ(values.find_array<float>("absent"), std::nullopt);
  EXPECT_EQ(values.get<uint32_t>("after"), 7u);
}

TEST(GgufValues, RequiresTheExactType) {
  GgufBytes bytes;
  bytes.u16("count", 8).array("counts", GgufType::u32, 1, number_bytes(8));
  const GgufValues values = values_of(bytes);
  expect_error(values.get<uint32_t>("count"), "gguf.key_type",
               "the value of \"count\" has type u16, expected u32");
  expect_error(values.find<int32_t>("count"), "gguf.key_type", "expected i32");
  expect_error(values.get<uint32_t>("counts"), "gguf.key_type",
               "has type array of u32, expected u32");
  expect_error(values.get_array<uint16_t>("count"), "gguf.key_type", "expected array of u16");
  expect_error(values.find_array<int32_t>("counts"), "gguf.key_type", "array of i32");
}

TEST(GgufValues, ReportsAbsentKeys) {
  const GgufValues values = values_of(GgufBytes().u32("a", 1));
  EXPECT_TRUE(values.has("a"));
  EXPECT_FALSE(values.has("b"));
  EXPECT_EQ(values.find<uint32_t>("b"), std::nullopt);
  expect_error(values.get<uint32_t>("b"), "gguf.missing_key",
               "the file has no key \"b\" of type u32");
  expect_error(values.get_array<float>("b"), "gguf.missing_key", "array of f32");
  EXPECT_EQ(values.get<uint32_t>("b").error()[0].place.file, "x.gguf");
}

TEST(GgufValues, KeepsStringsAcrossMoves) {
  GgufValues first = values_of(GgufBytes().text("a", "b"));
  const std::string_view text = *first.get<std::string_view>("a");
  const GgufValues second = std::move(first);
  EXPECT_EQ(text.data(), second.get<std::string_view>("a")->data());
}

}  // namespace
}  // namespace moec
