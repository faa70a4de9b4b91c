// Checkpoints with FP8 matrices and one factor per block: exports contain the decoded values.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/frontends/cli/checkpoint_tensors.h"

namespace moec {
namespace {

using testing::HasSubstr;
using Json = CheckpointCopy::Json;

constexpr int64_t kFp8Block[] = {16, 24};  // most matrices have partial last blocks

uint8_t nearest_code(float value) {
  uint8_t best = 0;
  for (int code = 0; code < 256; ++code)
    if (std::fabs(f32_from_f8_e4m3(static_cast<uint8_t>(code)) - value) <
        std::fabs(f32_from_f8_e4m3(best) - value))
      best = static_cast<uint8_t>(code);
  return best;
}

bool is_matrix_of_a_projection(const std::string& name, const DiskTensor& tensor) {
  return tensor.shape.size() == 2 && tensor.dtype == "BF16" &&
         (name.ends_with("_proj.weight") || name.ends_with("_with_mqa.weight"));
}

// Encodes a matrix with factors that are not powers of two, so that the products are rounded.
CodedTensor fp8_code(const DiskTensor& tensor) {
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  const int64_t down = (rows - 1) / kFp8Block[0] + 1, across = (columns - 1) / kFp8Block[1] + 1;
  std::vector<float> factors, decoded;
  for (int64_t i = 0; i < down * across; ++i)
    factors.push_back(0.0123F * static_cast<float>(1 + i % 7));
  std::string codes;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t block = i / columns / kFp8Block[0] * across + i % columns / kFp8Block[1];
    const float factor = factors[static_cast<size_t>(block)];
    uint16_t stored = 0;
    std::memcpy(&stored, tensor.bytes.data() + 2 * i, sizeof stored);
    const uint8_t nearest = nearest_code(f32_from_bf16(stored) / factor);
    codes += static_cast<char>(nearest);
    decoded.push_back(f32_from_f8_e4m3(nearest) * factor);
  }
  return {{{"", {"F8_E4M3", tensor.shape, codes}},
           {"_scale_inv", {"F32", {down, across}, bytes_of(factors)}}},
          {"F32", tensor.shape, bytes_of(decoded)}};
}

void declare_blocks(const CheckpointCopy& copy) {
  copy.edit_config([](Json& config) {
    config["quantization_config"] = {
        {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", kFp8Block}};
  });
}

// Writes a golden checkpoint twice: with encoded matrices and with their decoded values.
void write_fp8_pair(const CheckpointCopy& coded, const CheckpointCopy& decoded) {
  write_coded_and_decoded(
      coded, decoded, read_tensors(coded), [](const std::string& name, const DiskTensor& tensor) {
        return is_matrix_of_a_projection(name, tensor) ? std::optional(fp8_code(tensor))
                                                       : std::nullopt;
      });
  declare_blocks(coded);
}

class Fp8Checkpoint : public testing::TestWithParam<Variant> {};

TEST_P(Fp8Checkpoint, EqualsTheExportOfDecodedValues) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_fp8_pair(coded, decoded);
  expect_equal_exports(coded, decoded, GetParam().flags);
}

INSTANTIATE_TEST_SUITE_P(Forms, Fp8Checkpoint, testing::ValuesIn(forms_of_exports()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Fp8Checkpoints, RejectCopyingCodes) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_fp8_pair(coded, decoded);
  const Outcome outcome = run_command(
      {"export", coded.folder(), "--out", fresh_folder("out"), "--quiet", "--weights", "copy"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("weights.copy"));
  EXPECT_THAT(outcome.err, HasSubstr("8-bit floats with one factor per block"));
}

TEST(Fp8Checkpoints, RejectMissingOrMisshapenFactors) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_fp8_pair(coded, decoded);
  DiskTensors tensors = read_tensors(coded);
  const std::string name = "model.layers.1.mlp.experts.2.down_proj.weight_scale_inv";
  const DiskTensor factors = tensors.at(name);
  tensors.at(name).shape = {factors.shape[1], factors.shape[0]};
  write_tensors(coded.folder(), tensors);
  Outcome outcome = run_command({"inspect", coded.folder()});
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.shape"));
  EXPECT_THAT(outcome.err, HasSubstr("the expert_down factors of this model must be [3,1]"));
  tensors.erase(name);
  write_tensors(coded.folder(), tensors);
  outcome = run_command({"inspect", coded.folder()});
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.missing"));
  EXPECT_THAT(outcome.err, HasSubstr("(expert_down factors) is missing"));
}

TEST(Fp8Checkpoints, RequireAQuantizationConfig) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_fp8_pair(coded, decoded);
  coded.edit_config([](Json& config) { config.erase("quantization_config"); });
  const Outcome outcome = run_command({"inspect", coded.folder()});
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.dtype"));
  EXPECT_THAT(outcome.err, HasSubstr("the tensor is stored as f8_e4m3"));
}

}  // namespace
}  // namespace moec
