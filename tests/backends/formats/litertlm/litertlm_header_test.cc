#include "backends/formats/litertlm/litertlm_header.h"

#include <gtest/gtest.h>
#include <litertlm_generated.h>

#include <cstring>

namespace moec {
namespace {

TEST(LitertlmHeader, NamesEverySection) {
  const std::string bytes = litertlm_header({{LitertlmContent::metadata, 16384, 16500},
                                             {LitertlmContent::tokenizer, 32768, 40000},
                                             {LitertlmContent::model, 65536, uint64_t{5} << 32}});
  EXPECT_EQ(bytes.substr(0, 8), "LITERTLM");
  uint64_t end = 0;
  std::memcpy(&end, bytes.data() + 24, sizeof end);
  EXPECT_EQ(end, bytes.size());
  const auto* flatbuffer = reinterpret_cast<const uint8_t*>(bytes.data()) + 32;
  flatbuffers::Verifier verifier(flatbuffer, bytes.size() - 32);
  ASSERT_TRUE(litertlm::VerifyHeaderBuffer(verifier));
  const auto& sections = *litertlm::GetHeader(flatbuffer)->section_metadata()->objects();
  ASSERT_EQ(sections.size(), 3u);
  EXPECT_EQ(sections.Get(0)->content(), litertlm::Content::LlmMetadataProto);
  EXPECT_EQ(sections.Get(1)->content(), litertlm::Content::HF_Tokenizer_Zlib);
  EXPECT_EQ(sections.Get(2)->content(), litertlm::Content::TFLiteModel);
  EXPECT_EQ(sections.Get(1)->begin_offset(), 32768u);
  EXPECT_EQ(sections.Get(2)->end_offset(), uint64_t{5} << 32);
}

}  // namespace
}  // namespace moec
