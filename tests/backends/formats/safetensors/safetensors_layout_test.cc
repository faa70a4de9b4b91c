// Plans and writes safetensors files, then reads them back with the checkpoint reader.
#include <gtest/gtest.h>

#include "backends/formats/safetensors/safetensors.h"
#include "backends/formats/safetensors/safetensors_file.h"
#include "frontends/sources/hf/index.h"
#include "tests/files.h"

namespace moec {
namespace {

const std::vector<SafetensorsTensor> kPlanned = {{"b.weight", {DType::bf16, {3, 5}}},
                                                 {"a\"quoted", {DType::f32, {7}}},
                                                 {"c", {DType::f16, {2, 2, 2}}}};

std::vector<SafetensorsPart> planned(uint64_t max_bytes) {
  auto parts = plan_safetensors(kPlanned, max_bytes);
  EXPECT_TRUE(parts) << render(parts.error());
  return std::move(*parts);
}

TEST(SafetensorsLayout, ReadsBackTensorsAtPlannedOffsets) {
  for (const SafetensorsPart& part : planned(1000)) {
    EXPECT_EQ(part.header.size() % 8, 0u);
    const auto header = parse_safetensors(part.header, part.file_bytes(), part.name);
    ASSERT_TRUE(header) << render(header.error());
    ASSERT_EQ(header->tensors.size(), part.tensors.size());
    uint64_t at = part.header.size();
    for (size_t i = 0; i < part.tensors.size(); ++i) {
      EXPECT_EQ(header->tensors[i].name, part.tensors[i].name);
      EXPECT_EQ(*ir_type(header->tensors[i]), part.tensors[i].type);
      EXPECT_EQ(header->tensors[i].begin, at);
      at = header->tensors[i].end;
    }
    EXPECT_EQ(header->metadata.at("format"), "pt");
  }
}

// 30 bytes of bf16 would misalign a following f32.
TEST(SafetensorsLayout, PutsWiderElementsFirst) {
  const auto parts = planned(1000);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].tensors.front().name, "a\"quoted");
  EXPECT_EQ(parts[0].payload_bytes, 74u);
}

TEST(SafetensorsLayout, SplitsFilesAtTheLimit) {
  const auto parts = planned(29);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "model-00001-of-00003.safetensors");
  EXPECT_EQ(parts[0].payload_bytes, 30u);
  EXPECT_EQ(parts[1].payload_bytes, 28u);
  EXPECT_EQ(parts[2].payload_bytes, 16u);
  EXPECT_EQ(planned(58).size(), 2u);
}

TEST(SafetensorsLayout, OmitsTheIndexOfOneFile) {
  auto parts = plan_safetensors({{"only", {DType::f32, {4}}}}, 1);
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 1u);
  EXPECT_EQ(parts->front().name, "model.safetensors");
}

TEST(SafetensorsLayout, ReadsBackTheIndex) {
  const auto index = parse_index(safetensors_index_text(planned(29)), "index.json");
  ASSERT_TRUE(index) << render(index.error());
  ASSERT_EQ(index->file_of.size(), 3u);
  EXPECT_EQ(index->file_of.at("a\"quoted"), "model-00002-of-00003.safetensors");
}

TEST(SafetensorsLayout, RejectsDuplicateTensorNames) {
  const auto parts = plan_safetensors({{"x", {DType::f32, {1}}}, {"x", {DType::f32, {1}}}}, 8);
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().front().code, "safetensors.duplicate_tensor");
}

TEST(SafetensorsFile, WritesThePlannedBytes) {
  const std::string folder = testing::TempDir() + "/moec_safetensors_file";
  const auto parts = planned(29);
  auto file = SafetensorsFile::create(folder, parts[1]);
  ASSERT_TRUE(file) << render(file.error());
  const std::string payload(28, 'p');
  ASSERT_TRUE(file->write(std::as_bytes(std::span(payload)).first(3)));
  ASSERT_TRUE(file->write(std::as_bytes(std::span(payload)).subspan(3)));
  OutputFile finished = std::move(*file).finish();
  ASSERT_TRUE(finished.close());
  ASSERT_TRUE(finished.publish());
  EXPECT_EQ(read_file(folder + "/" + parts[1].name), parts[1].header + payload);
}

}  // namespace
}  // namespace moec
