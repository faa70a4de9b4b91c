// DeepSeek-V3 and GLM-4.5 store multi-token prediction layers after the last layer. The config
// states their number, and exports omit them.
#include <gmock/gmock.h>

#include "backends/manifest/manifest_file.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class MtpLayers : public testing::TestWithParam<const char*> {
 protected:
  // Exports a checkpoint of three layers whose config declares two layers and `mtp` prediction
  // layers.
  Outcome export_with(int mtp, std::vector<std::string> flags = {}) const {
    copy_.edit_config([&](CheckpointCopy::Json& config) {
      config["num_hidden_layers"] = 2;
      config["num_nextn_predict_layers"] = mtp;
    });
    std::vector<std::string> command = {"export", copy_.folder(), "--out", out_};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_command(command);
  }

  const CheckpointCopy copy_{GetParam()};
  const std::string out_ = fresh_folder("out");
};

TEST_P(MtpLayers, AreOmittedAndListed) {
  expect_fine(export_with(1));
  const Manifest manifest = read_manifest(out_).value();
  EXPECT_EQ(manifest.model.layers, 2);
  bool listed = false;
  for (const IgnoredWeight& ignored : manifest.ignored)
    listed |= ignored.tensor == "model.layers.2.self_attn.o_proj.weight";
  EXPECT_TRUE(listed);
  expect_fine(run_command({"check", out_}));
  expect_fine(export_with(1, {"--layers", "1", "--force"}));
}

TEST_P(MtpLayers, RejectUndeclaredLayers) {
  EXPECT_THAT(export_with(0).err,
              AllOf(HasSubstr("error[plan.p4]"), HasSubstr("tensor model.layers.2."),
                    HasSubstr("model.safetensors"), HasSubstr("ignored_tensors")));
}

INSTANTIATE_TEST_SUITE_P(Families, MtpLayers, testing::Values("deepseek_v3_a", "glm4_moe_a"));

}  // namespace
}  // namespace moec
