// A mask of experts is equivalent to removing the experts: in exported files, in a session on files
// without a mask, and in a checkpoint.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/runtime/session/session.h"
#include "ir/graph/scalar.h"
#include "ir/model/model_experts.h"
#include "tests/frontends/cli/checkpoint_tensors.h"
#include "tests/golden_cases.h"
#include "tests/models/router_kinds.h"

namespace moec {
namespace {

using testing::HasSubstr;

std::string masked_export(const std::string& checkpoint, const std::string& name, Words flags,
                          const std::string& widths = "1,8") {
  const std::string out = fresh_folder(name);
  Words words = {"export",   checkpoint, "--out",     out, "--quiet",
                 "--tokens", widths,     "--context", "32"};
  words.insert(words.end(), flags.begin(), flags.end());
  expect_fine(run_command(words));
  return out;
}

Session masked_session(const std::string& out, const std::string& mask = {}) {
  SessionOptions options;
  options.expert_mask = mask;
  auto session = Session::open(out, read_shard, options);
  EXPECT_TRUE(session.has_value()) << render(session.error());
  return std::move(*session);
}

// Returns logits of a step of 8 tokens and of one token, which run in the widths that fit.
std::vector<float> some_logits(Session& session, const StepProbe& probe = {}) {
  const std::vector<int64_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
  auto logits = session.feed(tokens, probe);
  EXPECT_TRUE(logits.has_value()) << render(logits.error());
  if (session.manifest().build.cache == CacheForm::none) return logits->data;
  auto next = session.feed(std::vector<int64_t>{7}, probe);
  EXPECT_TRUE(next.has_value());
  logits->data.insert(logits->data.end(), next->data.begin(), next->data.end());
  return logits->data;
}

// Masks as many experts as allowed, with different experts in each layer.
ExpertSets mask_for(const ExpertGrid& grid) {
  ExpertSets mask;
  for (const int64_t layer : grid.layers) {
    std::vector<int64_t> kept;
    for (int64_t e = 0; e < grid.experts; ++e) kept.push_back(e);
    for (int64_t e = 0; e < grid.experts; ++e) {
      ExpertSets fewer;
      fewer.layers[layer] = kept;
      std::erase(fewer.layers[layer], (e + layer) % grid.experts);
      if (check_enough(fewer, grid, "mask")) kept = fewer.layers[layer];
    }
    if (std::ssize(kept) < grid.experts) mask.layers[layer] = kept;
  }
  return mask;
}

const std::vector<Variant> kMaskForms = {
    {"onnx", {}},
    {"onnx_f16", {"--dtype", "f16"}},
    {"topk", {"--routing", "topk", "--experts", "bank"}},
    {"iterate", {"--routing", "iterate", "--form", "matmul"}},
    {"host", {"--routing", "host"}},
    {"layers", {"--layers-per-shard", "2"}},
    {"ane", {"--target", "ane"}},
    {"ane_host", {"--target", "ane", "--experts-per-shard", "2"}}};

// A test of each form, by its index. Kinds of models are tested in the first form, and in some of
// the others.
class EachForm : public testing::TestWithParam<size_t> {
 protected:
  bool is_first() const { return GetParam() == 0; }
  // One kind of `period` in each other form, in turn.
  bool takes(size_t kind, size_t period) const {
    return is_first() || kind % period == GetParam() % period;
  }
};

class ExpertMask : public EachForm {};

// A case per kind of router is enough. A mask has the same form in each width of a layer, so only
// the first form has both.
TEST_P(ExpertMask, EqualsAMaskInTheFiles) {
  const Words& form = kMaskForms[GetParam()].flags;
  const std::string widths = is_first() ? "1,8" : "8";
  size_t compared = 0, changed = 0, kind = 0;
  for (const std::string& name : cases_of_router_kinds()) {
    if (!takes(kind++, 4)) continue;
    const std::string all = masked_export(checkpoint_of(name), name, form, widths);
    Session plain = masked_session(all);
    const std::string mask = to_string(mask_for(expert_grid(plain.manifest())));
    if (mask.empty()) continue;
    Words flags = form;
    flags.insert(flags.end(), {"--expert-mask", mask});
    const std::string few = masked_export(checkpoint_of(name), name + ".few", flags, widths);
    Session baked = masked_session(few), masked = masked_session(all, mask);
    EXPECT_EQ(baked.manifest().build.expert_mask, mask);
    const std::vector<float> wanted = some_logits(baked);
    EXPECT_EQ(some_logits(masked), wanted) << name << " " << mask;
    ++compared;
    changed += wanted != some_logits(plain);
    expect_fine(run_command({"check", few}));
  }
  EXPECT_GE(compared, is_first() ? 13U : 3U);
  EXPECT_EQ(changed, compared);
}

INSTANTIATE_TEST_SUITE_P(Forms, ExpertMask, testing::Range<size_t>(0, kMaskForms.size()),
                         [](const auto& info) { return std::string(kMaskForms[info.param].name); });

double relative_error(const std::vector<float>& got, const std::vector<float>& wanted) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - wanted[i], 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(difference / norm);
}

// Excludes the experts with a large negative correction bias in the checkpoint.
TEST(ExpertMaskOfCheckpoint, EqualsALargeNegativeBias) {
  for (const char* golden_case : {"glm4_moe_a", "minimax_m2_a"}) {
    const CheckpointCopy copy(golden_case, golden_case);
    const std::string all = masked_export(copy.folder(), std::string(golden_case) + ".all", {});
    Session plain = masked_session(all);
    const ExpertSets mask = mask_for(expert_grid(plain.manifest()));
    DiskTensors tensors = read_tensors(copy);
    size_t barred = 0;
    for (auto& [name, tensor] : tensors) {
      if (!name.ends_with("e_score_correction_bias")) continue;
      const auto layer = std::stoll(name.substr(name.find("layers.") + 7));
      ASSERT_EQ(tensor.dtype, "F32");
      for (int64_t e = 0; e < tensor.shape[0]; ++e) {
        if (mask.has(layer, e)) continue;
        const float low = -1e9F;
        std::memcpy(tensor.bytes.data() + 4 * e, &low, 4);
        ++barred;
      }
    }
    EXPECT_GT(barred, 2u);
    write_tensors(copy.folder(), tensors);
    const std::string biased =
        masked_export(copy.folder(), std::string(golden_case) + ".biased", {});
    Session by_bias = masked_session(biased), by_mask = masked_session(all, to_string(mask));
    EXPECT_EQ(some_logits(by_mask), some_logits(by_bias)) << golden_case;
  }
}

// Builds a checkpoint of fewer experts from the router rows and matrices of the kept experts. Its
// router projection is smaller, so the order of its sums may differ.
TEST(ExpertMaskOfCheckpoint, EqualsACheckpointWithoutTheExperts) {
  const std::vector<int64_t> kept = {0, 2, 3};
  const CheckpointCopy copy("mixtral_a");
  const std::string all = masked_export(copy.folder(), "all", {});
  DiskTensors few;
  for (const auto& [name, tensor] : read_tensors(copy)) {
    const size_t expert = name.find(".experts.");
    if (name.ends_with("block_sparse_moe.gate.weight")) {
      DiskTensor rows = tensor;
      rows.shape[0] = std::ssize(kept);
      const size_t bytes = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
      rows.bytes.clear();
      for (const int64_t e : kept)
        rows.bytes += tensor.bytes.substr(static_cast<size_t>(e) * bytes, bytes);
      few[name] = rows;
    } else if (expert == std::string::npos) {
      few[name] = tensor;
    } else {
      const int64_t e = name[expert + 9] - '0';
      const auto found = std::find(kept.begin(), kept.end(), e);
      if (found == kept.end()) continue;
      few[std::string(name).replace(expert + 9, 1, std::to_string(found - kept.begin()))] = tensor;
    }
  }
  write_tensors(copy.folder(), few);
  copy.edit_config([](CheckpointCopy::Json& config) { config["num_local_experts"] = 3; });
  Session removed = masked_session(masked_export(copy.folder(), "removed", {}));
  Session masked = masked_session(all, "*:0,2,3");
  EXPECT_LT(relative_error(some_logits(masked), some_logits(removed)), 1e-6);
}

// olmoe does not renormalize: the weights are probabilities over all experts.
TEST(ExpertMaskOfCheckpoint, KeepsProbabilitiesWithoutRenormalization) {
  const std::string out = masked_export(checkpoint_of("olmoe_a"), "out", {});
  Session session = masked_session(out, "*:1,3,4");
  std::vector<float> logits;
  size_t tokens = 0;
  some_logits(session, [&](const manifest::Shard&, std::string_view label, const Tensor& value) {
    if (label == "router") logits = value.data;
    if (label != "routing_weights") return;
    const int64_t count = tokens_of({DType::f32, value.type.dims, Layout::channels});
    for (int64_t t = 0; t < count; ++t, ++tokens) {
      std::vector<double> left;
      double total = 0;
      for (int64_t e = 0; e < 5; ++e) {
        const double p = std::exp(static_cast<double>(logits[e * count + t]));
        total += p;
        if (e == 1 || e >= 3) left.push_back(p);
      }
      std::sort(left.begin(), left.end());
      for (int64_t e = 0; e < 5; ++e) {
        const double p = std::exp(static_cast<double>(logits[e * count + t]));
        const bool chosen = (e == 1 || e >= 3) && p > left[0];
        EXPECT_NEAR(value.data[e * count + t], chosen ? p / total : 0, 1e-6) << e;
      }
    }
  });
  EXPECT_GT(tokens, 8u);
}

TEST(ExpertMaskFlag, IsReadFromTextOrFile) {
  const std::string file = fresh_folder("mask") + "/mask.txt";
  write_file(file, "L0:0,1,2  # the first\n*:0-3\n");
  const std::string out =
      masked_export(checkpoint_of("mixtral_a"), "out", {"--expert-mask", "@" + file});
  EXPECT_THAT(run_command({"inspect", out}).out,
              HasSubstr("experts kept by the mask: L0:0-2;L1:0-3"));
  EXPECT_THAT(run_command({"check", out}).out,
              HasSubstr("experts kept by the mask: L0:0-2;L1:0-3"));
  const Outcome run =
      run_command({"run", out, "--prompt-tokens", "1 2", "-n", "2", "--expert-mask", "L0:3,4"});
  EXPECT_EQ(run.exit_code, kExitBadInput);
  EXPECT_THAT(run.err, HasSubstr("[experts.too_few]: --expert-mask: layer 0 has 0 experts"));
}

TEST(ExpertMaskFlag, DropsAMaskOfAllExperts) {
  const std::string out =
      masked_export(checkpoint_of("mixtral_a"), "out", {"--expert-mask", "*:0-4"});
  EXPECT_EQ(masked_session(out).manifest().build.expert_mask, "");
}

TEST(ExpertMaskFlag, IsRejectedWithoutSelection) {
  const Words flags = {"--routing", "full_softmax", "--expert-mask", "L0:0-2"};
  const Outcome refused = export_case("mixtral_a", fresh_folder("refused"), flags);
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("[mask.inexact]"));
  const std::string out = fresh_folder("inexact");
  expect_fine(export_case("mixtral_a", out, {"--routing", "full_softmax"}));
  const Words run = {"run", out, "--prompt-tokens", "1", "-n", "1", "--expert-mask", "L0:0-2"};
  EXPECT_THAT(run_command(run).err, HasSubstr("[session.no_choice]"));
}

TEST(ExpertMaskFlag, IsRequiredToValidateMaskedExports) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out, {"--expert-mask", "*:0-3"}));
  EXPECT_THAT(validate_case("mixtral_a", out).err, HasSubstr("[validate.masked]"));
  const Outcome asked = validate_case("mixtral_a", out, {"--expert-mask", "*:0-3"});
  EXPECT_EQ(asked.exit_code, kExitFellShort);
  EXPECT_THAT(asked.err + asked.out, HasSubstr("the golden uses all experts"));
  const std::string all = fresh_folder("all");
  expect_fine(export_case("mixtral_a", all));
  expect_fine(validate_case("mixtral_a", all, {"--expert-mask", "*:0-4"}));
}

const std::vector<Variant> kDropForms = {{"onnx", {}},
                                         {"onnx_f16", {"--dtype", "f16"}},
                                         {"matmul", {"--form", "matmul"}},
                                         {"bank", {"--experts", "bank"}},
                                         {"host", {"--routing", "host"}},
                                         {"groups", {"--experts-per-shard", "2"}}};

class DropMasked : public EachForm {};

// Experts keep their order, so sums have the same rounding.
TEST_P(DropMasked, EqualsAMaskedExport) {
  const Variant& form = kDropForms[GetParam()];
  size_t kind = 0;
  for (const std::string_view name :
       {"tinymoe", "mixtral_a", "qwen3_moe_a", "qwen2_moe_a", "deepseek_v3_a", "deepseek_v3_d",
        "granitemoeshared_a", "llama4_text_b", "nemotron_h_b", "gemma4_a", "zaya_a", "gpt_oss_a"}) {
    if (!takes(kind++, 3)) continue;
    const std::string checkpoint = checkpoint_of(std::string(name));
    const ExpertGrid grid = expert_grid(golden_checkpoint(std::string(name)).config);
    const std::string mask = to_string(mask_for(grid));
    Words flags = form.flags;
    flags.insert(flags.end(), {"--expert-mask", mask});
    Session masked = masked_session(masked_export(checkpoint, "masked", flags, "8"));
    flags.emplace_back("--drop-masked");
    const std::string few = masked_export(checkpoint, "dropped", flags, "8");
    expect_fine(run_command({"check", few}));
    Session dropped = masked_session(few);
    EXPECT_TRUE(dropped.manifest().build.drop_masked);
    const auto bytes = [](const Session& session) {
      int64_t sum = 0;
      for (const manifest::Shard& shard : session.manifest().shards) sum += shard.weight_bytes;
      return sum;
    };
    EXPECT_LT(bytes(dropped), bytes(masked)) << name;
    const std::vector<float> wanted = some_logits(masked), got = some_logits(dropped);
    // Biases of experts have one product per run, banks one per bank. A masked first group passes
    // its shared expert to the next group.
    const std::string_view form_name = form.name;
    if (name == "gpt_oss_a" || form_name == "bank" || form_name == "groups")
      EXPECT_LT(relative_error(got, wanted), form_name == "onnx_f16" ? 2e-3 : 1e-6) << name;
    else
      EXPECT_EQ(got, wanted) << name << " " << mask;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, DropMasked, testing::Range<size_t>(0, kDropForms.size()),
                         [](const auto& info) { return std::string(kDropForms[info.param].name); });

TEST(DropMaskedFlag, ShrinksShardsOfExperts) {
  const auto bytes = [](const Words& flags) {
    const std::string out = masked_export(checkpoint_of("tinymoe"), "out", flags, "8");
    int64_t sum = 0;
    const Session session = masked_session(out);
    for (const manifest::Shard& shard : session.manifest().shards)
      if (is_expert_group(shard.kind)) sum += shard.weight_bytes;
    return sum;
  };
  // Each group also has a norm of 128 numbers.
  constexpr int64_t kNorms = 4 * 128 * sizeof(float);
  const Words masked = {"--routing", "host", "--expert-mask", "L0:0-11;L1:4-15;L2-3:0-5,10-15"};
  Words dropped = masked;
  dropped.emplace_back("--drop-masked");
  EXPECT_EQ((bytes(dropped) - kNorms) * 16, (bytes(masked) - kNorms) * 12);
}

TEST(DropMaskedFlag, LeavesOutShardsOfMaskedExperts) {
  const std::string out = masked_export(
      checkpoint_of("tinymoe"), "out",
      {"--experts-per-shard", "4", "--expert-mask", "L0:0-3,8-15;L1:4-11", "--drop-masked"}, "1,8");
  const Session session = masked_session(out);
  std::map<int64_t, int64_t> groups;
  for (const manifest::Shard& shard : session.manifest().shards)
    if (is_expert_group(shard.kind)) ++groups[shard.layer];
  EXPECT_EQ(groups, (std::map<int64_t, int64_t>{{0, 3}, {1, 2}, {2, 4}, {3, 4}}));
  expect_fine(run_command({"run", out, "--prompt-tokens", "1 2", "-n", "2"}));
  const std::string nodes = fresh_folder("nodes");
  expect_fine(run_command({"split", out, "--groups", "2", "--out", nodes}));
  expect_fine(run_command({"check", nodes}));
}

TEST(DropMaskedFlag, IsRejectedWithANextStep) {
  const auto error = [](const std::string& name, Words flags) {
    flags.emplace_back("--drop-masked");
    const Outcome refused = export_case(name, fresh_folder("refused"), flags);
    EXPECT_EQ(refused.exit_code, kExitBadInput) << refused.out;
    return refused.err;
  };
  EXPECT_THAT(error("mixtral_a", {}), HasSubstr("--expert-mask"));
  EXPECT_THAT(error("mixtral_a", {"--expert-mask", "*:0-3", "--layers-per-shard", "2"}),
              HasSubstr("[plan.options]"));
}

}  // namespace
}  // namespace moec
