// Checkpoints that store matrices as FP8 with block factors: what is exported are their values.
#include <gmock/gmock.h>

#include <cmath>

#include "ir/scalar.h"
#include "tests/cli/checkpoint_copy.h"
#include "tests/cli/golden_case.h"

namespace moec {
namespace {

using testing::HasSubstr;
using Json = CheckpointCopy::Json;

constexpr int64_t kBlock[] = {16, 24};  // the last blocks of most matrices are partial

struct StoredTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using StoredTensors = std::map<std::string, StoredTensor>;

StoredTensors read_tensors(const CheckpointCopy& copy) {
  const std::string file = copy.read("model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const Json header = Json::parse(file.substr(8, length));
  StoredTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = {entry["dtype"], entry["shape"], file.substr(8 + length + begin, end - begin)};
  }
  return tensors;
}

void write_tensors(const CheckpointCopy& copy, const StoredTensors& tensors) {
  Json header = Json::object();
  std::string payload;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = payload.size();
    payload += tensor.bytes;
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, payload.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  copy.write("model.safetensors", bytes + text + payload);
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

uint8_t nearest_code(float value) {
  uint8_t best = 0;
  for (int code = 0; code < 256; ++code)
    if (std::fabs(f32_from_f8_e4m3(static_cast<uint8_t>(code)) - value) <
        std::fabs(f32_from_f8_e4m3(best) - value))
      best = static_cast<uint8_t>(code);
  return best;
}

bool is_matrix_of_a_projection(const std::string& name, const StoredTensor& tensor) {
  return tensor.shape.size() == 2 && tensor.dtype == "BF16" &&
         (name.ends_with("_proj.weight") || name.ends_with("_with_mqa.weight"));
}

struct Coded {
  StoredTensor codes, factors, decoded;
};

// Factors that are no powers of two, so that the products are rounded.
Coded code(const StoredTensor& tensor) {
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  const int64_t down = (rows - 1) / kBlock[0] + 1, across = (columns - 1) / kBlock[1] + 1;
  std::vector<float> factors, decoded;
  for (int64_t i = 0; i < down * across; ++i)
    factors.push_back(0.0123F * static_cast<float>(1 + i % 7));
  std::string codes;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t block = i / columns / kBlock[0] * across + i % columns / kBlock[1];
    const float factor = factors[static_cast<size_t>(block)];
    uint16_t stored = 0;
    std::memcpy(&stored, tensor.bytes.data() + 2 * i, sizeof stored);
    const uint8_t nearest = nearest_code(f32_from_bf16(stored) / factor);
    codes += static_cast<char>(nearest);
    decoded.push_back(f32_from_f8_e4m3(nearest) * factor);
  }
  return {{"F8_E4M3", tensor.shape, codes},
          {"F32", {down, across}, bytes_of(factors)},
          {"F32", tensor.shape, bytes_of(decoded)}};
}

void declare_blocks(const CheckpointCopy& copy) {
  copy.edit_config([](Json& config) {
    config["quantization_config"] = {
        {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", kBlock}};
  });
}

// The golden checkpoint twice: with coded matrices, and with the values that they stand for.
void write_both(const CheckpointCopy& coded, const CheckpointCopy& decoded) {
  StoredTensors with_codes = read_tensors(coded), with_values = with_codes;
  for (const auto& [name, tensor] : read_tensors(coded)) {
    if (!is_matrix_of_a_projection(name, tensor)) continue;
    const Coded all = code(tensor);
    with_codes[name] = all.codes;
    with_codes[name + "_scale_inv"] = all.factors;
    with_values[name] = all.decoded;
  }
  write_tensors(coded, with_codes);
  write_tensors(decoded, with_values);
  declare_blocks(coded);
}

// Shards and tables; the manifest and the report tell of the checkpoint itself.
std::map<std::string, std::string> payload_of(const std::string& folder) {
  std::map<std::string, std::string> files = all_bytes(folder);
  std::erase_if(files, [](const auto& file) { return file.first.ends_with(".json"); });
  files.erase("manifest.bin");
  return files;
}

class Fp8Checkpoint : public testing::TestWithParam<Variant> {};

TEST_P(Fp8Checkpoint, ExportsTheBytesOfItsValues) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_both(coded, decoded);
  std::map<std::string, std::string> files[2];
  for (const CheckpointCopy* copy : {&coded, &decoded}) {
    const std::string out = fresh_folder(copy == &coded ? "out_coded" : "out_decoded");
    Words words = {"export", copy->folder(), "--out", out, "--quiet", "--tokens", "1,8"};
    words.insert(words.end(), GetParam().flags.begin(), GetParam().flags.end());
    expect_fine(run_command(words));
    expect_fine(run_command({"check", out}));
    files[copy == &coded ? 0 : 1] = payload_of(out);
  }
  EXPECT_GT(files[0].size(), 7u);
  EXPECT_EQ(files[0], files[1]);
}

INSTANTIATE_TEST_SUITE_P(Forms, Fp8Checkpoint,
                         testing::Values(Variant{"conv", {}},
                                         Variant{"matmul", {"--form", "matmul"}},
                                         Variant{"bank", {"--experts", "bank"}},
                                         Variant{"coreml", {"--target", "ane"}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Fp8Checkpoints, FactorsMustBeThere) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_both(coded, decoded);
  StoredTensors tensors = read_tensors(coded);
  const std::string name = "model.layers.1.mlp.experts.2.down_proj.weight_scale_inv";
  const StoredTensor factors = tensors.at(name);
  tensors.at(name).shape = {factors.shape[1], factors.shape[0]};
  write_tensors(coded, tensors);
  Outcome outcome = run_command({"inspect", coded.folder()});
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.shape"));
  EXPECT_THAT(outcome.err, HasSubstr("the expert_down factors of this model must be [3,1]"));
  tensors.erase(name);
  write_tensors(coded, tensors);
  outcome = run_command({"inspect", coded.folder()});
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.missing"));
  EXPECT_THAT(outcome.err, HasSubstr("(expert_down factors) is not in the checkpoint"));
}

TEST(Fp8Checkpoints, AreRefusedWhereTheConfigSaysNothing) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), decoded("deepseek_v3_a", "decoded");
  write_both(coded, decoded);
  coded.edit_config([](Json& config) { config.erase("quantization_config"); });
  const Outcome outcome = run_command({"inspect", coded.folder()});
  EXPECT_THAT(outcome.err, HasSubstr("hf.tensor.dtype"));
  EXPECT_THAT(outcome.err, HasSubstr("it is stored as f8_e4m3"));
}

TEST(Mxfp4Checkpoints, ArePlannedAndRefusedByName) {
  const CheckpointCopy copy("gpt_oss_a");
  copy.edit_config([](Json& config) {
    config["quantization_config"] = {{"quant_method", "mxfp4"},
                                     {"modules_to_not_convert", {"lm_head"}}};
  });
  const Outcome planned = run_command({"plan", copy.folder()});
  EXPECT_EQ(planned.exit_code, kExitFine) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("stores its experts as mxfp4"));
  const Outcome refused =
      run_command({"export", copy.folder(), "--out", fresh_folder("out"), "--quiet"});
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("hf.storage.unreadable"));
  EXPECT_THAT(refused.err, HasSubstr("mxfp4"));
}

}  // namespace
}  // namespace moec
