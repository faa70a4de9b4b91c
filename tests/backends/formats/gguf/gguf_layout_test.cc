#include "backends/formats/gguf/gguf_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "frontends/sources/gguf/gguf.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

using testing::ElementsAre;

const GgufTensorInfo kMatrix = {"blk.0.attn_q.weight", BlockType::q8_0, {3, 64}};
const GgufTensorInfo kNorm = {"output_norm.weight", BlockType::f32, {5}};

std::vector<GgufEntry> all_types() {
  return {{"a", uint8_t{1}},
          {"b", int8_t{-2}},
          {"c", uint16_t{3}},
          {"d", int16_t{-4}},
          {"e", uint32_t{5}},
          {"f", int32_t{-6}},
          {"g", 0.5F},
          {"h", true},
          {"i", std::string("text")},
          {"j", uint64_t{1} << 40},
          {"k", -(int64_t{1} << 40)},
          {"l", 0.1},
          {"m", std::vector<int32_t>{1, -1}},
          {"n", std::vector<float>{0.25F}},
          {"o", std::vector<std::string>{"x", "", "yz"}},
          {"p", std::vector<std::string>{}},
          {"q", GgufBytesValue{GgufType::i16, true, 2, std::string("\1\0\2\0", 4)}}};
}

Result<GgufHeader> read_back(const GgufLayout& layout) {
  return parse_gguf(layout.header, layout.file_bytes, "made.gguf");
}

TEST(GgufLayout, ReadsBackEveryValueType) {
  const auto layout = plan_gguf(all_types(), {kNorm});
  ASSERT_TRUE(layout) << render(layout.error());
  const auto header = read_back(*layout);
  ASSERT_TRUE(header) << render(header.error());
  const GgufValues& values = header->values;
  EXPECT_EQ(values.keys().size(), 17u);
  EXPECT_EQ(*values.get<uint8_t>("a"), 1);
  EXPECT_EQ(*values.get<int8_t>("b"), -2);
  EXPECT_EQ(*values.get<uint16_t>("c"), 3);
  EXPECT_EQ(*values.get<int16_t>("d"), -4);
  EXPECT_EQ(*values.get<uint32_t>("e"), 5u);
  EXPECT_EQ(*values.get<int32_t>("f"), -6);
  EXPECT_EQ(*values.get<float>("g"), 0.5F);
  EXPECT_EQ(*values.get<bool>("h"), true);
  EXPECT_EQ(*values.get<std::string_view>("i"), "text");
  EXPECT_EQ(*values.get<uint64_t>("j"), uint64_t{1} << 40);
  EXPECT_EQ(*values.get<int64_t>("k"), -(int64_t{1} << 40));
  EXPECT_EQ(*values.get<double>("l"), 0.1);
  EXPECT_THAT(*values.get_array<int32_t>("m"), ElementsAre(1, -1));
  EXPECT_THAT(*values.get_array<float>("n"), ElementsAre(0.25F));
  EXPECT_THAT(*values.get_array<std::string_view>("o"), ElementsAre("x", "", "yz"));
  EXPECT_TRUE(values.get_array<std::string_view>("p")->empty());
  EXPECT_THAT(*values.get_array<int16_t>("q"), ElementsAre(1, 2));
}

TEST(GgufLayout, ReadsBackTensorsAtPlannedOffsets) {
  for (const uint32_t alignment : {32u, 256u}) {
    const auto layout =
        plan_gguf({{"general.alignment", alignment}}, {kMatrix, kNorm, {"empty", {}, {0, 4}}});
    ASSERT_TRUE(layout) << render(layout.error());
    const auto header = read_back(*layout);
    ASSERT_TRUE(header) << render(header.error());
    ASSERT_EQ(header->tensors.size(), 3u);
    EXPECT_EQ(header->data_start, layout->header.size());
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(header->tensors[i].name, layout->tensors[i].name);
      EXPECT_EQ(header->tensors[i].type, layout->tensors[i].type);
      EXPECT_EQ(header->tensors[i].dims, layout->tensors[i].dims);
      EXPECT_EQ(header->tensors[i].offset, layout->offsets[i]);
      EXPECT_EQ(header->tensors[i].bytes, layout->bytes[i]);
    }
    EXPECT_EQ(layout->bytes[0], 3u * 68);
    EXPECT_EQ(layout->offsets[1] - layout->offsets[0], alignment == 32 ? 224u : 256u);
    EXPECT_EQ(layout->file_bytes, layout->offsets[1] + alignment);
  }
}

TEST(GgufLayout, WritesTheExactHeaderBytes) {
  const auto layout = plan_gguf({{"k", uint32_t{7}}}, {{"t", BlockType::bf16, {2, 3}}});
  ASSERT_TRUE(layout);
  const std::string expected =
      std::string("GGUF\3\0\0\0", 8) + std::string("\1\0\0\0\0\0\0\0", 8) +
      std::string("\1\0\0\0\0\0\0\0", 8) + std::string("\1\0\0\0\0\0\0\0k", 9) +
      std::string("\4\0\0\0\7\0\0\0", 8) + std::string("\1\0\0\0\0\0\0\0t", 9) +
      std::string("\2\0\0\0", 4) + std::string("\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16) +
      std::string("\x1e\0\0\0", 4) + std::string(8, '\0');
  EXPECT_EQ(layout->header, expected + std::string(96 - expected.size(), '\0'));
}

TEST(GgufLayout, RejectsWhatTheReaderRejects) {
  expect_error(plan_gguf({{"", uint32_t{1}}}, {}), "gguf.key", "0 bytes");
  expect_error(plan_gguf({{"k", uint32_t{1}}, {"k", true}}, {}), "gguf.duplicate_key", "\"k\"");
  expect_error(plan_gguf({{"k", GgufBytesValue{GgufType::u8, true, uint64_t{1} << 30, ""}}}, {}),
               "gguf.array_too_long", "\"k\"");
  expect_error(plan_gguf({{"general.alignment", uint32_t{48}}}, {}), "gguf.alignment", "32");
  expect_error(plan_gguf({{"general.alignment", uint64_t{64}}}, {}), "gguf.alignment", "u32");
  expect_error(plan_gguf({}, {kNorm, kNorm}), "gguf.duplicate_tensor", "two tensors");
  expect_error(plan_gguf({}, {{"", BlockType::f32, {1}}}), "gguf.name", "0 bytes");
  expect_error(plan_gguf({}, {{std::string(64, 'x'), BlockType::f32, {1}}}), "gguf.name", "64");
  expect_error(plan_gguf({}, {{"a\nb", BlockType::f32, {1}}}), "gguf.name", "printable");
  expect_error(plan_gguf({}, {{"t", BlockType::f32, {1, 1, 1, 1, 1}}}), "gguf.rank", "5 sizes");
  expect_error(plan_gguf({}, {{"t", BlockType::f32, {-1}}}), "gguf.dims", "[-1]");
  expect_error(plan_gguf({}, {{"t", BlockType::f32, {int64_t{1} << 62, 4}}}), "gguf.dims",
               "too large");
  expect_error(plan_gguf({}, {{"t", BlockType::q4_k, {2, 128}}}), "gguf.block", "128");
  std::vector<GgufEntry> many;
  for (int i = 0; i < 4097; ++i) many.push_back({std::to_string(i), true});
  expect_error(plan_gguf(many, {}), "gguf.too_many_keys", "4097");
  expect_error(plan_gguf({}, std::vector<GgufTensorInfo>(65'537)), "gguf.too_many_tensors",
               "65537");
}

// ---- Parts -------------------------------------------------------------------------------------

std::vector<GgufTensorInfo> four_tensors() {
  std::vector<GgufTensorInfo> tensors;
  for (const char* name : {"a", "b", "c", "d"}) tensors.push_back({name, BlockType::f32, {100}});
  return tensors;
}

TEST(GgufParts, OmitSplitKeysFromOneFile) {
  const auto parts = plan_gguf_parts("model", {{"k", true}}, four_tensors());
  ASSERT_TRUE(parts) << render(parts.error());
  ASSERT_EQ(parts->size(), 1u);
  EXPECT_EQ(parts->front().name, "model.gguf");
  const auto plain = plan_gguf({{"k", true}}, four_tensors());
  EXPECT_EQ(parts->front().layout.header, plain->header);
}

TEST(GgufParts, SplitAndNumberFilesByLimit) {
  const std::vector<GgufEntry> entries = {{"k", std::string(300, 'x')}};
  const auto parts = plan_gguf_parts("model", entries, four_tensors(), 1100);
  ASSERT_TRUE(parts) << render(parts.error());
  std::vector<std::string> names, tensors;
  for (size_t i = 0; i < parts->size(); ++i) {
    const GgufPart& part = (*parts)[i];
    names.push_back(part.name);
    EXPECT_LE(part.layout.file_bytes, 1100u);
    const auto header = read_back(part.layout);
    ASSERT_TRUE(header) << render(header.error());
    EXPECT_EQ(*header->values.get<uint16_t>("split.no"), i);
    EXPECT_EQ(*header->values.get<uint16_t>("split.count"), 3u);
    EXPECT_EQ(*header->values.get<int32_t>("split.tensors.count"), 4);
    EXPECT_EQ(header->values.has("k"), i == 0);
    for (const GgufTensor& tensor : header->tensors) tensors.push_back(tensor.name);
  }
  EXPECT_THAT(names, ElementsAre("model-00001-of-00003.gguf", "model-00002-of-00003.gguf",
                                 "model-00003-of-00003.gguf"));
  EXPECT_THAT(tensors, ElementsAre("a", "b", "c", "d"));
}

TEST(GgufParts, RejectATensorAboveTheLimit) {
  std::vector<GgufTensorInfo> tensors = four_tensors();
  tensors[2].dims = {1000};
  expect_error(plan_gguf_parts("model", {}, tensors, 1100), "gguf.part_size", "1100");
}

TEST(GgufLayout, StripsPartAndTypeFromNames) {
  EXPECT_EQ(gguf_model_name("m.gguf"), "m");
  EXPECT_EQ(gguf_model_name(gguf_part_name("m", 0, 3)), "m");
  EXPECT_EQ(gguf_model_name("m-00001-of-y.gguf"), "m-00001-of-y");
  for (const char* name :
       {"Foo-7B.Q4_K_M", "Foo-7B-f16", "Foo-7B.IQ4_XS", "Foo-7B-BF16", "Foo-7B.q8_0"})
    EXPECT_EQ(without_gguf_type(name), "Foo-7B") << name;
  for (const char* name : {"Foo-7B", "Q4_0", "Foo.Q4", "Foo-Q", "Foo-IQ-test", ".Q4_0"})
    EXPECT_EQ(without_gguf_type(name), name);
  EXPECT_EQ(gguf_model_name("m-00001-of-my-tests.gguf"), "m-00001-of-my-tests");
  EXPECT_EQ(gguf_model_name("-00001-of-00003.gguf"), "-00001-of-00003");
}

}  // namespace
}  // namespace moec
