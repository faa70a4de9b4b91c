// The output of a split: expert bytes, keys, and the shared trunk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <set>

#include "backends/formats/gguf/block_name.h"
#include "backends/weights/views/scale_blocks.h"
#include "frontends/jobs/split/split_folder.h"
#include "frontends/jobs/split/split_model.h"
#include "tests/frontends/jobs/split/split_cases.h"

namespace moec {
namespace {

using testing::ElementsAre;

SplitOptions split_options(const std::string& source) {
  return {.source = source, .out = no_folder("out")};
}

// Returns the first file of a node.
std::string first_file(const SplitReport& report, size_t node) {
  const NodePlan& plan = report.plan.nodes.at(node);
  return report.out + "/" + plan.node.name + "/" + plan.header.name;
}

std::map<std::string, GgufEntry> keys_of(const Gguf& gguf) {
  std::map<std::string, GgufEntry> keys;
  for (const auto& [key, value] : gguf.values.keys())
    keys[key] = {key, GgufBytesValue{value.type, value.is_array, value.count,
                                     std::string(gguf.values.bytes(value))}};
  return keys;
}

// Returns the bytes of the selected experts of a tensor, concatenated.
std::string gathered(const std::string& bytes, const std::vector<int64_t>& experts) {
  std::string kept;
  const size_t each = bytes.size() / 8;
  for (const int64_t expert : experts)
    kept += bytes.substr(static_cast<size_t>(expert) * each, each);
  return kept;
}

TEST(Split, PredictsTheWrittenBytes) {
  const std::string source = CutModel().write();
  SplitOptions options = split_options(source);
  options.groups = 3;
  options.dry_run = true;
  const auto planned = split_model(options);
  ASSERT_TRUE(planned) << render(planned.error());
  EXPECT_FALSE(std::filesystem::exists(options.out));
  options.dry_run = false;
  const auto report = split_model(options);
  ASSERT_TRUE(report) << render(report.error());
  std::map<ino_t, uint64_t> files;
  for (size_t i = 0; i < 3; ++i) {
    uint64_t bytes = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(report->out + "/node" + std::to_string(i))) {
      struct stat info {};
      ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
      bytes += static_cast<uint64_t>(info.st_size);
      files[info.st_ino] = static_cast<uint64_t>(info.st_size);
    }
    EXPECT_EQ(bytes, planned->plan.bytes_of(planned->plan.nodes[i]));
  }
  uint64_t unique = 0;
  for (const auto& [inode, bytes] : files) unique += bytes;
  EXPECT_EQ(files.size(), 7u);  // one trunk, three headers, three files of experts
  EXPECT_EQ(unique, planned->plan.unique_bytes());
  EXPECT_TRUE(report->written.trunk_linked);
  EXPECT_THAT(
      (std::vector<int64_t>{report->plan.nodes[0].node.count, report->plan.nodes[1].node.count,
                            report->plan.nodes[2].node.count}),
      ElementsAre(2, 3, 3));
}

TEST(Split, SplitsEachLayerSeparately) {
  CutModel model;
  model.add("blk.2.ffn_up_exps.scale", {8});
  const std::string source = model.write();
  SplitOptions options = split_options(source);
  options.expert_list = "L1:0,3,4;L2:5-7";
  const auto report = split_model(options);
  ASSERT_TRUE(report) << render(report.error());
  const Gguf whole = read_gguf(source).value();
  const auto node = read_gguf(first_file(*report, 0));
  ASSERT_TRUE(node) << render(node.error());
  ASSERT_EQ(node->tensors.size(), whole.tensors.size());
  const std::set<std::string> cut = {
      "ffn_gate_inp.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
      "ffn_down_exps.bias",  "exp_probs_b.bias",     "ffn_up_exps.scale"};
  for (const GgufTensor& tensor : whole.tensors) {
    const auto name = parse_block_name(tensor.name);
    const std::string bytes = bytes_of(whole, tensor.name);
    const bool is_cut = name && cut.contains(std::string(name->name));
    const std::vector<int64_t> kept =
        name && name->layer == 1 ? std::vector<int64_t>{0, 3, 4} : std::vector<int64_t>{5, 6, 7};
    EXPECT_EQ(bytes_of(*node, tensor.name), is_cut ? gathered(bytes, kept) : bytes) << tensor.name;
  }
}

TEST(Split, RewritesOnlyExpertKeys) {
  CutModel model;
  model.keys = {{"split.no", uint16_t{0}},
                {"split.count", uint16_t{1}},
                {"split.tensors.count", int32_t{99}},
                {"moec.split.node", std::string("earlier")},
                {"general.alignment", uint32_t{64}}};
  const std::string source = model.write();
  SplitOptions options = split_options(source);
  options.groups = 2;
  const auto report = split_model(options);
  ASSERT_TRUE(report) << render(report.error());
  auto wanted = keys_of(read_gguf(source).value());
  const Gguf node = read_gguf(first_file(*report, 1)).value();
  auto found = keys_of(node);
  EXPECT_EQ(node.values.get<uint16_t>("split.no"), 0);
  EXPECT_EQ(node.values.get<uint16_t>("split.count"), 3);
  EXPECT_EQ(node.values.get<int32_t>("split.tensors.count"),
            static_cast<int32_t>(node.tensors.size()));
  EXPECT_EQ(node.values.get<uint32_t>("olmoe.expert_count"), 4u);
  EXPECT_EQ(node.values.get<std::string_view>("moec.split.node"), "node1");
  EXPECT_EQ(node.values.get<std::string_view>("moec.split.experts"), "L1-2:4-7");
  EXPECT_EQ(node.values.get<std::string_view>("moec.split.source"), report->digest);
  for (auto* keys : {&wanted, &found})
    std::erase_if(*keys, [](const auto& key) {
      return is_split_key(key.first) || key.first == "olmoe.expert_count";
    });
  EXPECT_EQ(found, wanted);
  for (const GgufTensor& tensor : node.tensors) EXPECT_EQ(tensor.offset % 64, 0u) << tensor.name;
}

TEST(Split, WritesReproducibleBytes) {
  const std::string source = CutModel().write();
  std::vector<std::map<std::string, std::string>> digests;
  for (const char* name : {"a", "b"}) {
    SplitOptions options = split_options(source);
    options.out = no_folder(name);
    options.groups = 4;
    const auto report = split_model(options);
    ASSERT_TRUE(report) << render(report.error());
    digests.push_back(report->written.digests);
    EXPECT_EQ(digests.back().size(), 12u);
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Split, UsesLastSetForMtpLayers) {
  CutModel model;
  model.layers = 3;
  model.more = {{"nextn_predict_layers", uint32_t{1}}};
  const std::string source = model.write();
  SplitOptions options = split_options(source);
  options.expert_list = "L1:2,5";
  const auto report = split_model(options);
  ASSERT_TRUE(report) << render(report.error());
  const Gguf whole = read_gguf(source).value();
  const Gguf node = read_gguf(first_file(*report, 0)).value();
  for (const char* name : {"blk.1.ffn_up_exps.weight", "blk.2.ffn_up_exps.weight"})
    EXPECT_EQ(bytes_of(node, name), gathered(bytes_of(whole, name), {2, 5}));
  ASSERT_FALSE(report->notes.empty());
  EXPECT_EQ(report->notes.back().code, "split.layers_behind");
}

TEST(Split, AcceptsMultipartFilesAndSplits) {
  const std::string source = CutModel().write();
  SplitOptions options = split_options(source);
  options.groups = 2;
  const auto halves = split_model(options);
  ASSERT_TRUE(halves) << render(halves.error());
  SplitOptions again{.source = first_file(*halves, 1), .out = no_folder("again")};
  again.expert_list = "L1:1,2;L2:0,3";
  const auto report = split_model(again);
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(report->plan.nodes[0].header.name, "model-00001-of-00003.gguf");
  const Gguf whole = read_gguf(source).value();
  const Gguf node = read_gguf(first_file(*report, 0)).value();
  EXPECT_EQ(bytes_of(node, "blk.1.ffn_gate_exps.weight"),
            gathered(bytes_of(whole, "blk.1.ffn_gate_exps.weight"), {5, 6}));
  EXPECT_EQ(bytes_of(node, "blk.2.ffn_down_exps.bias"),
            gathered(bytes_of(whole, "blk.2.ffn_down_exps.bias"), {4, 7}));
}

TEST(Split, KeepsRouterGroupsEquallySized) {
  struct Case {
    const char* experts;
    int64_t groups;  // 0 if rejected
  };
  // Four groups of two experts; a token keeps two groups.
  for (const Case& c : {Case{"*:0-7", 4}, Case{"*:0-5", 3}, Case{"L1:0-5;L2:2-7", 3},
                        Case{"*:0-3", 1}, Case{"*:0,1,6", 1}, Case{"L1:0-3;L2:0,1,6,7", 1},
                        Case{"*:0-4", 0}, Case{"*:0,2,4,6", 0}, Case{"L1:0-3;L2:0,2,4,5", 0}}) {
    CutModel model;
    model.more = {{"expert_group_count", uint32_t{4}}, {"expert_group_used_count", uint32_t{2}}};
    SplitOptions options = split_options(model.write());
    options.expert_list = c.experts;
    const auto report = split_model(options);
    EXPECT_EQ(code_of(report), c.groups == 0 ? "split.group_sizes" : "") << c.experts;
    if (!report) continue;
    EXPECT_EQ(report->plan.nodes[0].node.groups, c.groups) << c.experts;
    const Gguf node = read_gguf(first_file(*report, 0)).value();
    const auto groups = node.values.find<uint32_t>("olmoe.expert_group_count").value();
    EXPECT_EQ(groups.value_or(1), c.groups) << c.experts;
    EXPECT_EQ(node.values.has("olmoe.expert_group_used_count"), c.groups > 1) << c.experts;
  }
}

TEST(Split, DividesEachRouterGroupBetweenNodes) {
  struct Case {
    uint32_t groups;
    int64_t nodes;
    std::vector<std::string> experts;
  };
  for (const Case& c :
       {Case{2, 2, {"L1-2:0-1,4-5", "L1-2:2-3,6-7"}}, Case{4, 2, {"L1-2:0-3", "L1-2:4-7"}},
        Case{1, 2, {"L1-2:0-3", "L1-2:4-7"}}, Case{1, 3, {"L1-2:0-1", "L1-2:2-4", "L1-2:5-7"}}}) {
    CutModel model;
    model.more = {{"expert_group_count", c.groups},
                  {"expert_group_used_count", std::min(c.groups, uint32_t{2})}};
    SplitOptions options = split_options(model.write());
    options.groups = c.nodes;
    options.dry_run = true;
    const auto report = split_model(options);
    ASSERT_TRUE(report) << render(report.error());
    std::vector<std::string> experts;
    for (const NodePlan& node : report->plan.nodes) experts.push_back(to_string(node.node.experts));
    EXPECT_EQ(experts, c.experts);
  }
}

// ---- Routing weights ---------------------------------------------------------------------------

std::string write_profile(const std::vector<double>& mass) {
  ExpertProfile profile{.model = "olmoe", .source = "checkpoint", .experts = 8, .top_k = 2};
  for (const int64_t layer : {1, 2}) {
    LayerProfile measured{.layer = layer, .tokens = 80};
    measured.selections = std::vector<int64_t>(8, 20);
    measured.mass = mass;
    profile.layers.push_back(measured);
  }
  const std::string path = testing::TempDir() + "/" + running_test() + ".json";
  write_file(path, expert_profile_text(profile));
  return path;
}

TEST(Split, CorrectsInflatedSharesWithAProfile) {
  const std::string source = CutModel().write();
  SplitOptions options = split_options(source);
  options.expert_list = "*:0,1,6";
  const auto inflated = split_model(options);
  ASSERT_TRUE(inflated) << render(inflated.error());
  EXPECT_EQ(inflated->routing_of(inflated->plan.nodes[0]), NodeRouting::inflated);
  EXPECT_EQ(inflated->notes.at(0).code, "split.inflated");
  options.force = true;
  options.profile = write_profile({8, 4, 1, 1, 1, 1, 4, 0});
  const auto report = split_model(options);
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(report->routing_of(report->plan.nodes[0]), NodeRouting::compensated);
  EXPECT_EQ(report->notes.at(0).code, "split.compensated");
  const Gguf whole = read_gguf(source).value();
  const Gguf node = read_gguf(first_file(*report, 0)).value();
  for (const GgufTensor& tensor : node.tensors) {
    if (tensor.name.find("_exps") == std::string::npos) continue;
    std::string wanted = gathered(bytes_of(whole, tensor.name), {0, 1, 6});
    if (tensor.name.find("ffn_down_exps") != std::string::npos)
      scale_blocks(tensor.type, std::as_writable_bytes(std::span(wanted)), 0.8f);
    EXPECT_EQ(bytes_of(node, tensor.name), wanted) << tensor.name;
  }
}

TEST(Split, KeepsWholeAndNormalizedNodesUncorrected) {
  SplitOptions options = split_options(CutModel().write());
  options.groups = 1;
  options.profile = write_profile({1, 1, 1, 1, 1, 1, 1, 1});
  const auto whole = split_model(options);
  ASSERT_TRUE(whole) << render(whole.error());
  EXPECT_EQ(whole->routing_of(whole->plan.nodes[0]), NodeRouting::whole);
  EXPECT_TRUE(whole->notes.empty());
  CutModel normalised;
  normalised.arch = "qwen3moe";
  options = split_options(normalised.write());
  options.groups = 2;
  options.profile = write_profile({1, 1, 1, 1, 1, 1, 1, 1});
  const auto masked = split_model(options);
  ASSERT_TRUE(masked) << render(masked.error());
  EXPECT_EQ(masked->routing_of(masked->plan.nodes[0]), NodeRouting::masked);
  EXPECT_EQ(masked->notes.at(0).code, "split.no_correction");
  EXPECT_EQ(read_gguf(first_file(*masked, 0))->tensors.size(), normalised.tensors.size());
}

TEST(Split, WarnsAboutUnknownArchitectures) {
  CutModel model;
  model.arch = "newmoe";
  SplitOptions options = split_options(model.write());
  options.groups = 2;
  const auto report = split_model(options);
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(report->routing_of(report->plan.nodes[0]), NodeRouting::unknown);
  EXPECT_EQ(report->notes.at(0).code, "split.unknown_routing");
}

}  // namespace
}  // namespace moec
