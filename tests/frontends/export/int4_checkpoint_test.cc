// Experts as 4-bit integers with one factor per group, the format of Kimi-K2-Thinking: exports
// contain the decoded values.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "backends/formats/onnx/read_onnx.h"
#include "backends/weights/views/weight_reader.h"
#include "tests/frontends/cli/checkpoint_tensors.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = CheckpointCopy::Json;

constexpr int64_t kGroup = 32;  // partial last group per row

void widen_to_ragged_groups(const CheckpointCopy& copy) {
  copy.edit_config([](Json& config) { config["moe_intermediate_size"] = 40; });
}

void declare_int4(const CheckpointCopy& copy) {
  copy.edit_config([](Json& config) {
    config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                     {"format", "pack-quantized"},
                                     {"ignore", {"lm_head", "re:.*self_attn.*"}},
                                     {"config_groups",
                                      {{"group_0",
                                        {{"targets", {"Linear"}},
                                         {"weights",
                                          {{"num_bits", 4},
                                           {"type", "int"},
                                           {"strategy", "group"},
                                           {"group_size", kGroup},
                                           {"symmetric", true}}}}}}}};
  });
}

// Encodes a matrix as random integers and factors; the decoded values are their products.
CodedTensor int4_code(const DiskTensor& tensor, std::mt19937& random) {
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  std::vector<uint32_t> packed(static_cast<size_t>(rows * columns / 8));
  std::vector<uint16_t> factors;
  std::vector<float> decoded;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < columns; ++i) {
      if (i % kGroup == 0)
        factors.push_back(bf16_from_f32(static_cast<float>(1 + random() % 99) / 9000));
      const auto integer = static_cast<int>(random() % 16) - 8;
      packed[static_cast<size_t>((row * columns + i) / 8)] |= static_cast<uint32_t>(integer + 8)
                                                              << (4 * (i % 8));
      decoded.push_back(static_cast<float>(integer) * f32_from_bf16(factors.back()));
    }
  return {{{"_packed", {"I32", {rows, columns / 8}, bytes_of(packed)}},
           {"_scale", {"BF16", {rows, (columns - 1) / kGroup + 1}, bytes_of(factors)}},
           {"_shape", {"I64", {2}, bytes_of(std::vector<int64_t>{rows, columns})}}},
          {"F32", tensor.shape, bytes_of(decoded)}};
}

// Writes a checkpoint twice: with encoded experts and with their decoded values.
void write_int4_pair(const CheckpointCopy& coded, const CheckpointCopy& decoded) {
  widen_to_ragged_groups(coded);
  widen_to_ragged_groups(decoded);
  std::mt19937 random(5);
  write_coded_and_decoded(coded, decoded, random_tensors(coded.read("config.json")),
                          [&](const std::string& name, const DiskTensor& tensor) {
                            return name.find(".mlp.experts.") != std::string::npos
                                       ? std::optional(int4_code(tensor, random))
                                       : std::nullopt;
                          });
  declare_int4(coded);
}

Words with_words(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class Int4Checkpoint : public testing::TestWithParam<Variant> {};

TEST_P(Int4Checkpoint, EqualsTheExportOfDecodedValues) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_int4_pair(coded, decoded);
  expect_equal_exports(coded, decoded, GetParam().flags);
}

// ONNX names initializers after tensors, whose names differ between the two checkpoints, so
// unrolled experts in ONNX are excluded.
INSTANTIATE_TEST_SUITE_P(
    Forms, Int4Checkpoint,
    testing::Values(Variant{"bank", {"--experts", "bank"}},
                    Variant{"matmul_bank", {"--form", "matmul", "--experts", "bank"}},
                    Variant{"slices", {"--target", "ane", "--max-shard-mb", "moe=0.008,mlp=0.008"}},
                    Variant{"coreml", {"--target", "ane"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Int4Checkpoints, ExportUnrolledExperts) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_int4_pair(coded, decoded);
  const std::string out = fresh_folder("out");
  expect_fine(run_command({"export", coded.folder(), "--out", out, "--quiet", "--tokens", "1"}));
  expect_fine(run_command({"check", out}));
}

// Maps the names of a shard's weights to their values, as [K, N].
std::map<std::string, std::vector<float>> matrices_of(const LoadedShard& loaded) {
  std::map<std::string, std::vector<float>> values;
  const auto reader = WeightReader::open(loaded.weights).value();
  for (const Op& op : loaded.shard.ops) {
    const auto* weight = std::get_if<Weight>(&op.data);
    if (!weight) continue;
    const ValueId value = op.results.front();
    WeightView view = weight->view;
    const bool rows =
        std::any_of(loaded.shard.ops.begin(), loaded.shard.ops.end(), [&](const Op& o) {
          return std::holds_alternative<Transpose>(o.data) && o.operands.front() == value;
        });
    if (rows) view = then(std::move(view), PermuteStep{{1, 0}});
    values[loaded.shard.values[value].name] = reader.read_f32(view, 1 << 24).value();
  }
  return values;
}

std::string bytes_at(const WeightTable& table, const TensorRange& range) {
  std::ifstream file(table.files[range.file].path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(range.offset));
  std::string bytes(static_cast<size_t>(range.type.bytes()), '\0');
  file.read(bytes.data(), std::ssize(bytes));
  return bytes;
}

// A MatMulNBits row stores the checkpoint's words, padded with zeros to a whole block.
void expect_stored_words(const std::string& bytes, const DiskTensor& words) {
  const auto rows = static_cast<size_t>(words.shape[0]);
  const size_t row = bytes.size() / rows, stored = words.bytes.size() / rows;
  for (size_t i = 0; i < rows; ++i) {
    EXPECT_EQ(bytes.substr(i * row, stored), words.bytes.substr(i * stored, stored));
    EXPECT_EQ(bytes.substr(i * row + stored, row - stored), std::string(row - stored, '\x88'));
  }
}

TEST(Int4Checkpoints, CopyCodesUnchanged) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_int4_pair(coded, decoded);
  const std::string copied = fresh_folder("copied"), plain = fresh_folder("plain");
  const Words flags{"export", coded.folder(), "--quiet", "--form", "matmul", "--out"};
  expect_fine(run_command(with_words(flags, {copied, "--weights", "copy"})));
  expect_fine(run_command(with_words(flags, {plain})));
  expect_fine(run_command({"check", copied}));
  const LoadedShard found = read_onnx(copied + "/moe/L01.t1.onnx").value();
  EXPECT_EQ(matrices_of(found), matrices_of(read_onnx(plain + "/moe/L01.t1.onnx").value()));
  const DiskTensors tensors = read_tensors(coded);
  for (const char* projection : {"gate", "up", "down"}) {
    const TensorRange* filed = found.weights.find(fmt::format("experts.2.{}.weight", projection));
    ASSERT_TRUE(filed) << projection;
    expect_stored_words(bytes_at(found.weights, *filed),
                        tensors.at(fmt::format("model.layers.1.mlp.experts.2.{}_proj."
                                               "weight_packed",
                                               projection)));
  }
}

// bf16 scales may underflow in f16.
TEST(Int4Checkpoints, RejectScalesThatUnderflowInF16) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_int4_pair(coded, decoded);
  const Words flags{"export", coded.folder(), "--quiet", "--weights", "copy", "--dtype", "f16"};
  expect_fine(run_command(with_words(flags, {"--out", fresh_folder("out")})));
  DiskTensors tensors = read_tensors(coded);
  DiskTensor& scales = tensors.at("model.layers.1.mlp.experts.2.down_proj.weight_scale");
  const uint16_t tiny = bf16_from_f32(1e-9f);
  std::memcpy(scales.bytes.data(), &tiny, sizeof tiny);
  write_tensors(coded.folder(), tensors);
  const Outcome refused = run_command(with_words(flags, {"--out", fresh_folder("out")}));
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("encode.copied_scale"), HasSubstr("--dtype f32")));
}

TEST(Int4Checkpoints, CopyCodesOnlyIntoMatchingForms) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_int4_pair(coded, decoded);
  const auto refusal = [](const CheckpointCopy& copy, const Words& more) {
    const Outcome outcome = run_command(with_words(
        {"export", copy.folder(), "--quiet", "--weights", "copy", "--out", fresh_folder("out")},
        more));
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    return outcome.err;
  };
  EXPECT_THAT(refusal(coded, {"--target", "ane"}),
              AllOf(HasSubstr("weights.form"), HasSubstr("which are for the GPU")));
  EXPECT_THAT(refusal(coded, {"--form", "conv"}), HasSubstr("copy needs --form matmul"));
  EXPECT_THAT(refusal(decoded, {}),
              AllOf(HasSubstr("weights.copy"), HasSubstr("not codes"), HasSubstr("int4:32")));
  EXPECT_THAT(run_command({"plan", coded.path("config.json"), "--weights", "copy"}).err,
              AllOf(HasSubstr("weights.copy"), HasSubstr("pass the checkpoint's folder")));
  EXPECT_THAT(refusal(coded, {"--max-shard-mb", "moe=0.004"}),
              AllOf(HasSubstr("weights.copy"), HasSubstr("cannot be copied")));
}

TEST(Int4Checkpoints, CheckIntegersAndFactors) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_int4_pair(coded, decoded);
  const std::string name = "model.layers.1.mlp.experts.2.down_proj.weight";
  DiskTensors tensors = read_tensors(coded);
  tensors.at(name + "_packed").shape = {10, 24};
  write_tensors(coded.folder(), tensors);
  Outcome outcome = run_command({"inspect", coded.folder()});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("the expert_down integers of this model must be [48,5], found "
                                     "[10,24]"));
  tensors.erase(name + "_scale");
  write_tensors(coded.folder(), tensors);
  outcome = run_command({"inspect", coded.folder()});
  EXPECT_THAT(outcome.err, HasSubstr("(expert_down factors) is missing"));
}

TEST(Int4Checkpoints, RequireRowsOfWholeWords) {
  const CheckpointCopy copy("deepseek_v3_a");
  declare_int4(copy);
  const Outcome outcome = run_command({"plan", copy.folder()});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err,
              HasSubstr("rows have 20 elements, must be a multiple of 8, the block of int_groups"));
}

}  // namespace
}  // namespace moec
