// Experts as MXFP4, the format of gpt-oss: exports contain the decoded values.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/frontends/cli/checkpoint_tensors.h"

namespace moec {
namespace {

using testing::HasSubstr;
using Json = CheckpointCopy::Json;

constexpr int64_t kMxfp4Block = 32;

// Edits a golden case's config so that each row consists of whole blocks.
void widen_to_whole_blocks(const CheckpointCopy& copy) {
  copy.edit_config([](Json& config) {
    config["hidden_size"] = 2 * kMxfp4Block;
    config["intermediate_size"] = kMxfp4Block;
  });
}

void declare_mxfp4(const CheckpointCopy& copy) {
  copy.edit_config([](Json& config) {
    config["quantization_config"] = {{"quant_method", "mxfp4"},
                                     {"modules_to_not_convert", {"lm_head"}}};
  });
}

// Encodes a tensor [E, in, out] of all experts as random blocks and scales. The decoded values keep
// the tensor's element order.
CodedTensor mxfp4_code(const DiskTensor& tensor, std::mt19937& random) {
  const int64_t experts = tensor.shape[0], in = tensor.shape[1], out = tensor.shape[2];
  const float magnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  std::string blocks, scales;
  std::vector<float> decoded(static_cast<size_t>(experts * in * out));
  for (int64_t row = 0; row < experts * out; ++row)
    for (int64_t block = 0; block < in / kMxfp4Block; ++block) {
      const auto scale = static_cast<int>(118 + random() % 8);
      scales += static_cast<char>(scale);
      for (int64_t i = block * kMxfp4Block; i < (block + 1) * kMxfp4Block; ++i) {
        const auto code = static_cast<int>(random() % 16);
        if (i % 2 == 0)
          blocks += static_cast<char>(code);
        else
          blocks.back() = static_cast<char>(static_cast<uint8_t>(blocks.back()) | code << 4);
        const float value = std::ldexp(magnitudes[code % 8], scale - 127);
        decoded[static_cast<size_t>((row / out * in + i) * out + row % out)] =
            code < 8 ? value : -value;
      }
    }
  return {{{"_blocks", {"U8", {experts, out, in / kMxfp4Block, kMxfp4Block / 2}, blocks}},
           {"_scales", {"U8", {experts, out, in / kMxfp4Block}, scales}}},
          {"F32", tensor.shape, bytes_of(decoded)}};
}

// Writes a checkpoint twice: with encoded experts and with their decoded values.
void write_mxfp4_pair(const CheckpointCopy& coded, const CheckpointCopy& decoded) {
  widen_to_whole_blocks(coded);
  widen_to_whole_blocks(decoded);
  std::mt19937 random(5);
  write_coded_and_decoded(coded, decoded, random_tensors(coded.read("config.json")),
                          [&](const std::string& name, const DiskTensor& tensor) {
                            const bool experts = name.ends_with("experts.gate_up_proj") ||
                                                 name.ends_with("experts.down_proj");
                            return experts ? std::optional(mxfp4_code(tensor, random))
                                           : std::nullopt;
                          });
  declare_mxfp4(coded);
}

class Mxfp4Checkpoint : public testing::TestWithParam<std::tuple<const char*, Variant>> {};

TEST_P(Mxfp4Checkpoint, EqualsTheExportOfDecodedValues) {
  const auto& [golden_case, form] = GetParam();
  const CheckpointCopy coded(golden_case, "coded"), decoded(golden_case, "decoded");
  write_mxfp4_pair(coded, decoded);
  expect_equal_exports(coded, decoded, form.flags);
}

INSTANTIATE_TEST_SUITE_P(Forms, Mxfp4Checkpoint,
                         testing::Combine(testing::Values("gpt_oss_a", "gpt_oss_b"),
                                          testing::ValuesIn(forms_of_exports())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param).name;
                         });

// Runs moec inspect on an encoded checkpoint after `edit` changed its tensors.
Outcome inspect_edited(const std::function<void(DiskTensors&)>& edit) {
  const CheckpointCopy coded("gpt_oss_a", "coded"), decoded("gpt_oss_a", "decoded");
  write_mxfp4_pair(coded, decoded);
  DiskTensors tensors = read_tensors(coded);
  edit(tensors);
  write_tensors(coded.folder(), tensors);
  return run_command({"inspect", coded.folder()});
}

std::string down(const std::string& part) { return "model.layers.1.mlp.experts.down_proj_" + part; }

TEST(Mxfp4Checkpoints, PassInspectUnedited) {
  expect_fine(inspect_edited([](DiskTensors&) {}));
}

TEST(Mxfp4Checkpoints, RejectCopyingCodes) {
  const CheckpointCopy coded("gpt_oss_a", "coded"), decoded("gpt_oss_a", "decoded");
  write_mxfp4_pair(coded, decoded);
  const Outcome outcome = run_command(
      {"export", coded.folder(), "--out", fresh_folder("out"), "--quiet", "--weights", "copy"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("weights.copy"));
  EXPECT_THAT(outcome.err, HasSubstr("a power of two per 32 floats, which no weight form"));
  EXPECT_THAT(outcome.err, HasSubstr("target onnx: float, int8"));
}

TEST(Mxfp4Checkpoints, RejectMissingBlocksOrScales) {
  Outcome outcome = inspect_edited([](DiskTensors& all) { all.erase(down("scales")); });
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.missing"));
  EXPECT_THAT(outcome.err, HasSubstr("(experts_down_in_out scales) is missing"));
  outcome = inspect_edited([](DiskTensors& all) { all.erase(down("blocks")); });
  EXPECT_THAT(outcome.err, HasSubstr("(experts_down_in_out blocks) is missing"));
}

TEST(Mxfp4Checkpoints, CheckShapesAndTypes) {
  Outcome outcome = inspect_edited([](DiskTensors& all) {
    all.at(down("blocks")).shape = {5, 64, 16};
  });
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.shape"));
  EXPECT_THAT(outcome.err,
              HasSubstr("the experts_down_in_out blocks of this model must be [5,64,1,16], found "
                        "[5,64,16]"));
  outcome = inspect_edited([](DiskTensors& all) { all.at(down("scales")).dtype = "F8_E4M3"; });
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.dtype"));
  EXPECT_THAT(outcome.err,
              HasSubstr("the tensor is stored as f8_e4m3; the experts_down_in_out scales must "
                        "be u8"));
  outcome = inspect_edited([](DiskTensors& all) { all.at(down("blocks")).dtype = "I8"; });
  EXPECT_THAT(outcome.err, HasSubstr("the experts_down_in_out blocks must be [5,64,1,16] in u8"));
}

TEST(Mxfp4Checkpoints, RequireAQuantizationConfig) {
  const CheckpointCopy coded("gpt_oss_a", "coded"), decoded("gpt_oss_a", "decoded");
  write_mxfp4_pair(coded, decoded);
  coded.edit_config([](Json& config) { config.erase("quantization_config"); });
  const Outcome outcome = run_command({"inspect", coded.folder()});
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.missing"));
  EXPECT_THAT(outcome.err, HasSubstr("(experts_gate_up_in_out) is missing"));
}

TEST(Mxfp4Checkpoints, RequireRowsOfWholeBlocks) {
  const CheckpointCopy copy("gpt_oss_a");
  declare_mxfp4(copy);
  const Outcome outcome = run_command({"plan", copy.folder()});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("model.storage"));
  EXPECT_THAT(outcome.err, HasSubstr("rows have 48 elements, must be a multiple of 32"));
}

TEST(Mxfp4Checkpoints, PlanStatesDequantization) {
  const CheckpointCopy coded("gpt_oss_a", "coded"), decoded("gpt_oss_a", "decoded");
  write_mxfp4_pair(coded, decoded);
  for (const std::string& source : {coded.folder(), std::string("gpt-oss-20b")}) {
    const Outcome planned = run_command({"plan", source});
    expect_fine(planned);
    EXPECT_THAT(planned.out, HasSubstr("stores its experts as mxfp4; an export dequantizes them"));
  }
}

}  // namespace
}  // namespace moec
