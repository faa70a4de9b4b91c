// Damaged, hostile and foreign files: read_tflite() reports an error or a shard that verifies.
#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "backends/formats/tflite/read_tflite.h"
#include "backends/formats/tflite/tflite_contents.h"
#include "ir/verify/verify.h"
#include "tests/backends/formats/tflite/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// An emitted file, whose tables may be edited in place.
class TfliteFile : public testing::Test {
 protected:
  void SetUp() override {
    const Shard shard = every_tflite_op(DType::f32, 2);
    ASSERT_TRUE(emit_widths({{2, &shard}}, folder_));
    bytes_ = read_file(path());
  }

  std::string path() const { return folder_ / "shard.tflite"; }
  tflite::Model& model() { return *tflite::GetMutableModel(bytes_.data()); }
  tflite::SubGraph& graph() { return *model().mutable_subgraphs()->GetMutableObject(0); }
  Result<LoadedShard> read(const std::string& function = {}) const {
    return parse_tflite(std::as_bytes(std::span(bytes_)), path(), bytes_.size(), function);
  }
  std::string code() const {
    const auto result = read();
    return result ? std::string() : result.error().front().code;
  }

  const TestFolder folder_;
  std::string bytes_;
};

// The first table of a vector for which `matches` is true.
template <class Table, class Matches>
Table* find_table(flatbuffers::Vector<flatbuffers::Offset<Table>>* tables, Matches matches) {
  for (uint32_t i = 0; i < tables->size(); ++i)
    if (matches(*tables->Get(i))) return tables->GetMutableObject(i);
  return nullptr;
}

template <class T>
void set_field(flatbuffers::Table& table, flatbuffers::voffset_t field, T value) {
  ASSERT_TRUE(table.SetField<T>(field, value, value + 1));
}

flatbuffers::Table& as_table(void* table) { return *reinterpret_cast<flatbuffers::Table*>(table); }

TEST_F(TfliteFile, ReadsItself) {
  const auto result = read("t2");
  ASSERT_TRUE(result) << render(result.error());
  EXPECT_EQ(result->shard.name, "L00.moe");
  EXPECT_EQ(result->weights.files.front().path, path());
}

TEST_F(TfliteFile, RejectsUnknownSignatures) {
  const auto result = read("t3");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().front().code, "tflite.signature");
  EXPECT_EQ(result.error().front().place.file, path());
}

TEST_F(TfliteFile, RejectsOtherFiles) {
  const auto error = [&](const std::string& name, const std::string& text) {
    write_file(folder_ / name, text);
    return read_tflite(folder_ / name).error().front().code;
  };
  EXPECT_EQ(read_tflite(folder_ / "absent.tflite").error().front().code, "tflite.open");
  EXPECT_EQ(read_tflite(folder_.string()).error().front().code, "tflite.open");
  EXPECT_EQ(error("empty.tflite", ""), "tflite.parse");
  EXPECT_EQ(error("text.tflite", "this is a text"), "tflite.parse");
  EXPECT_EQ(error("cut.tflite", bytes_.substr(0, 5000)), "tflite.parse");
}

TEST_F(TfliteFile, RejectsOtherSchemaVersions) {
  set_field<uint32_t>(as_table(&model()), tflite::Model::VT_VERSION, 2);
  EXPECT_EQ(code(), "tflite.version");
}

TEST_F(TfliteFile, RejectsBuffersBeyondTheFile) {
  tflite::Buffer* buffer =
      find_table(model().mutable_buffers(), [](const auto& each) { return each.offset() > 1; });
  for (const uint64_t offset : {uint64_t{1} << 40, UINT64_MAX, bytes_.size()}) {
    set_field<uint64_t>(as_table(buffer), tflite::Buffer::VT_OFFSET, offset);
    EXPECT_EQ(code(), "tflite.buffer") << offset;
  }
}

TEST_F(TfliteFile, RejectsBuffersOfAnotherSize) {
  tflite::Buffer* buffer =
      find_table(model().mutable_buffers(), [](const auto& each) { return each.offset() > 1; });
  set_field<uint64_t>(as_table(buffer), tflite::Buffer::VT_SIZE, UINT64_MAX);
  const auto result = read();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().front().code, "tflite.buffer");
  EXPECT_FALSE(result.error().front().place.tensor.empty());
}

TEST_F(TfliteFile, RejectsTensorsThatDoNotExist) {
  for (const int32_t index : {-7, 1 << 30}) {
    auto* node = graph().mutable_operators()->GetMutableObject(0);
    node->mutable_inputs()->Mutate(0, index);
    EXPECT_EQ(code(), "tflite.undefined") << index;
  }
}

TEST_F(TfliteFile, RejectsSizesThatContradictTheOps) {
  auto* node = graph().mutable_operators()->GetMutableObject(0);
  auto* tensor =
      graph().mutable_tensors()->GetMutableObject(static_cast<uint32_t>(node->outputs()->Get(0)));
  tensor->mutable_shape()->Mutate(1, 7);
  EXPECT_EQ(code(), "tflite.type_mismatch");
  tensor->mutable_shape()->Mutate(1, -7);
  EXPECT_EQ(code(), "tflite.shape");
}

TEST_F(TfliteFile, RejectsUnknownOperators) {
  auto* operator_code = model().mutable_operator_codes()->GetMutableObject(0);
  set_field<int8_t>(as_table(operator_code), tflite::OperatorCode::VT_DEPRECATED_BUILTIN_CODE, 100);
  const auto result = read();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().front().code, "tflite.op");
  EXPECT_THAT(result.error().front().cause, HasSubstr("100"));
}

// A file with a scale per row.
class TfliteCodes : public TfliteFile {
 protected:
  void SetUp() override {
    const Shard shard = coded_shard({8, {1, 64}}, 64);
    ASSERT_TRUE(emit_widths({{3, &shard}}, folder_));
    bytes_ = read_file(path());
    ASSERT_EQ(code(), "");
  }
  tflite::QuantizationParameters& quantization() {
    return *find_table(graph().mutable_tensors(), [](const auto& each) {
              return each.type() == tflite::TensorType::INT8;
            })->mutable_quantization();
  }
};

TEST_F(TfliteCodes, RejectsZeroPoints) {
  quantization().mutable_zero_point()->Mutate(5, 1);
  EXPECT_EQ(code(), "tflite.quantized");
}

// The verifier does not check the alignment of a vector's elements.
TEST_F(TfliteCodes, ReadsMisalignedZeroPoints) {
  const uint32_t count = quantization().zero_point()->size();
  char* vector = bytes_.data() + kTfliteDataAlignment - 4096;
  std::memcpy(vector, &count, sizeof count);
  ASSERT_TRUE(as_table(&quantization())
                  .SetPointer(tflite::QuantizationParameters::VT_ZERO_POINT,
                              reinterpret_cast<uint8_t*>(vector)));
  EXPECT_EQ(code(), "");
}

TEST_F(TfliteCodes, RejectsOtherCountsOfScales) {
  // The count of a vector precedes its elements.
  auto* count = reinterpret_cast<uint32_t*>(quantization().mutable_scale()->Data()) - 1;
  *count = 5;
  EXPECT_EQ(code(), "tflite.quantized");
}

// A damaged file yields a finding or a shard that verifies, never a crash.
TEST_F(TfliteFile, SurvivesDamagedBytes) {
  const std::string good = bytes_;
  std::mt19937_64 random(11);
  size_t refused = 0, accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    bytes_ = good;
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      // The flatbuffer precedes the weights.
      const size_t at = random() % std::min<size_t>(bytes_.size(), 24000);
      if (random() % 8 == 0) bytes_.resize(at + 1);
      bytes_[at % bytes_.size()] = static_cast<char>(random());
    }
    const auto result = read();
    ASSERT_FALSE(result && has_error(verify(result->shard)));
    ++(result ? accepted : refused);
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(accepted, 10u);
}

// The flatbuffer is found without reading the weights after it.
TEST_F(TfliteFile, ReadsFilesBeyondFourGiB) {
  tflite::Buffer* buffer =
      find_table(model().mutable_buffers(), [](const auto& each) { return each.offset() > 1; });
  const uint64_t offset = (uint64_t{1} << 32) + 65536;
  set_field<uint64_t>(as_table(buffer), tflite::Buffer::VT_OFFSET, offset);
  write_file(path(), bytes_);
  fs::resize_file(path(), offset + buffer->size());
  const auto result = read_tflite(path());
  ASSERT_TRUE(result) << render(result.error());
  const auto& tensors = result->weights.tensors;
  EXPECT_TRUE(std::any_of(tensors.begin(), tensors.end(),
                          [&](const auto& entry) { return entry.second.offset == offset; }));
}

}  // namespace
}  // namespace moec
