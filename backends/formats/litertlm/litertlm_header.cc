#include "backends/formats/litertlm/litertlm_header.h"

#include <flatbuffers/flatbuffers.h>
#include <litertlm_generated.h>

#include "ir/base/invariant.h"

namespace moec {
namespace {

using litertlm::Content;
using litertlm::Entry;

constexpr size_t kEndPosition = 24, kFlatbufferPosition = 32;
// Major, minor and patch version of the format that litert-lm-builder 0.18.1 writes.
constexpr uint32_t kVersion[] = {1, 7, 0};

flatbuffers::Offset<Entry> entry(flatbuffers::FlatBufferBuilder& builder, const char* key,
                                 const char* text) {
  const auto value = litertlm::CreateStringValue(builder, builder.CreateString(text));
  return litertlm::CreateEntry(builder, builder.CreateString(key), litertlm::Value::StringValue,
                               value.Union());
}

Content content_of(LitertlmContent content) {
  switch (content) {
    case LitertlmContent::metadata:
      return Content::LlmMetadataProto;
    case LitertlmContent::tokenizer:
      return Content::HF_Tokenizer_Zlib;
    case LitertlmContent::model:
      return Content::TFLiteModel;
  }
  return Content::NONE;
}

void put_number(std::string& bytes, size_t at, uint64_t number, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(number >> (8 * i));
}

}  // namespace

std::string litertlm_header(const std::vector<LitertlmSection>& sections) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<litertlm::Section>> objects;
  for (const LitertlmSection& section : sections) {
    std::vector<flatbuffers::Offset<Entry>> items;
    if (section.content == LitertlmContent::model)
      items.push_back(entry(builder, "model_type", "tf_lite_prefill_decode"));
    objects.push_back(litertlm::CreateSection(builder, builder.CreateVector(items), section.begin,
                                              section.end, content_of(section.content)));
  }
  const auto system = litertlm::CreateEntries(
      builder, builder.CreateVector(std::vector{entry(builder, "Authors", "moec")}));
  const auto all = litertlm::CreateSections(builder, builder.CreateVector(objects));
  litertlm::FinishHeaderBuffer(builder, litertlm::CreateHeader(builder, system, all));

  std::string bytes("LITERTLM");
  bytes.resize(kFlatbufferPosition);
  for (size_t i = 0; i < std::size(kVersion); ++i) put_number(bytes, 8 + 4 * i, kVersion[i], 4);
  put_number(bytes, kEndPosition, kFlatbufferPosition + builder.GetSize(), 8);
  bytes.append(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  MOEC_CHECK(bytes.size() <= kLitertlmBlock, "the header has {} bytes", bytes.size());
  return bytes;
}

}  // namespace moec
