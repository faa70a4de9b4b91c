// Adding a common offset to a layer's correction biases does not change the selection, even in f16.
#include <gtest/gtest.h>

#include "ir/graph/scalar.h"
#include "tests/frontends/cli/checkpoint_tensors.h"

namespace moec {
namespace {

bool is_choice_bias(const std::string& name) {
  return name.ends_with("e_score_correction_bias") || name.ends_with("balancing_biases");
}

// Returns the tensor in f32 with `offset` added to each element.
DiskTensor shifted(const DiskTensor& tensor, float offset) {
  const bool wide = tensor.dtype == "F32";
  std::vector<float> values(tensor.bytes.size() / (wide ? 4 : 2));
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = 0;
    if (wide) {
      std::memcpy(&values[i], tensor.bytes.data() + 4 * i, 4);
    } else {
      std::memcpy(&half, tensor.bytes.data() + 2 * i, 2);
      values[i] = tensor.dtype == "BF16" ? f32_from_bf16(half) : f32_from_f16(half);
    }
    values[i] += offset;
  }
  return {"F32", tensor.shape, bytes_of(values)};
}

class ChoiceOffset : public testing::TestWithParam<Variant> {};

TEST_P(ChoiceOffset, ChangesNothingInF16) {
  for (const char* golden_case : {"glm4_moe_a", "minimax_m2_a", "ernie4_5_moe_a", "zaya_a"}) {
    const CheckpointCopy copy(golden_case, golden_case);
    DiskTensors tensors = read_tensors(copy);
    size_t biases = 0;
    for (auto& [name, tensor] : tensors)
      if (is_choice_bias(name)) {
        tensor = shifted(tensor, 35);
        ++biases;
      }
    EXPECT_GT(biases, 0u) << golden_case;
    write_tensors(copy.folder(), tensors);
    const std::string out = fresh_folder(std::string("out.") + golden_case);
    Words words = {"export", copy.folder(), "--out", out, "--quiet", "--tokens", "1,16"};
    words.insert(words.end(), GetParam().flags.begin(), GetParam().flags.end());
    expect_fine(run_command(words));
    expect_fine(validate_case(golden_case, out));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ChoiceOffset,
                         testing::Values(Variant{"onnx", {"--dtype", "f16"}},
                                         Variant{"iterate",
                                                 {"--dtype", "f16", "--routing", "iterate"}},
                                         Variant{"ane", {"--target", "ane"}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
