// A rejected split leaves the folder unchanged.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "backends/formats/gguf/block_name.h"
#include "backends/output/folder_lock.h"
#include "frontends/jobs/split/split_folder.h"
#include "frontends/jobs/split/split_report.h"
#include "tests/frontends/jobs/split/split_cases.h"

namespace moec {
namespace {

struct RefusedCut {
  const char* code;
  std::function<void(CutModel& model, SplitOptions& options)> break_it;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const RefusedCut& refused, std::ostream* out) { *out << refused.code; }

std::string place_file(const std::string& text) {
  const std::string path = testing::TempDir() + "/" + running_test() + ".place.json";
  write_file(path, text);
  return path;
}

std::function<void(CutModel&, SplitOptions&)> listing(const std::string& experts) {
  return [experts](CutModel&, SplitOptions& options) { options.expert_list = experts; };
}

std::function<void(CutModel&, SplitOptions&)> placing(const std::string& text) {
  return [text](CutModel&, SplitOptions& options) { options.place_file = place_file(text); };
}

class Refusals : public testing::TestWithParam<RefusedCut> {};

TEST_P(Refusals, WriteNothing) {
  CutModel model;
  SplitOptions options{.out = no_folder("out")};
  GetParam().break_it(model, options);
  if (options.source.empty()) options.source = model.write();
  if (options.place_file.empty() && options.expert_list.empty() && options.groups == 0 &&
      std::string(GetParam().code) != "split.selection")
    options.groups = 2;
  const auto report = split_model(options);
  EXPECT_EQ(code_of(report), GetParam().code) << (report ? "" : render(report.error()));
  EXPECT_FALSE(std::filesystem::exists(options.out));
}

INSTANTIATE_TEST_SUITE_P(
    Split, Refusals,
    testing::Values(
        RefusedCut{"split.selection", [](auto&, auto&) {}},
        RefusedCut{"split.selection", [](auto&, auto& o) { o.groups = 9; }},
        RefusedCut{"split.selection", [](auto&, auto& o) { o.groups = -1; }},
        RefusedCut{"split.selection",
                   [](auto&, auto& o) {
                     o.groups = 2;
                     o.expert_list = "*:0-3";
                   }},
        RefusedCut{"experts.too_few", [](auto&, auto& o) { o.groups = 5; }},
        RefusedCut{"experts.expert", listing("*:0-8")},
        RefusedCut{"experts.layer", listing("L0:0-3")},
        RefusedCut{"split.counts", listing("L1:0-3;L2:0-4")},
        RefusedCut{"split.counts", listing("L1:0-3")},
        RefusedCut{"experts.uncovered",
                   placing(R"({"groups": [{"name": "a", "experts": "*:0-3"}]})")},
        RefusedCut{"split.name", placing(R"({"groups": [{"name": "../a", "experts": "*:0-7"}]})")},
        RefusedCut{"split.name",
                   placing(R"({"groups": [{"name": "split.json", "experts": "*:0-7"}]})")},
        RefusedCut{
            "split.stages",
            placing(
                R"({"stages": ["0-1", "2-2"], "groups": [{"name": "a", "experts": "*:0-7"}]})")},
        RefusedCut{"groups.syntax", placing("{")},
        RefusedCut{"groups.bad_value", placing(R"({"groups": []})")},
        RefusedCut{"groups.file", [](auto&, auto& o) { o.place_file = "/nonexistent"; }},
        RefusedCut{"split.source", [](auto&, auto& o) { o.source = "/etc/hostname"; }},
        RefusedCut{"gguf.missing_key", [](auto& m, auto&) { m.dropped = "expert_used_count"; }},
        RefusedCut{"split.counts", [](auto& m, auto&) { m.used = 9; }},
        RefusedCut{"split.counts", [](auto& m, auto&) { m.experts = 0, m.used = 0; }},
        RefusedCut{"split.counts", [](auto& m, auto&) { m.experts = 0xffffffff; }},
        RefusedCut{"split.counts",
                   [](auto& m, auto&) {
                     m.more = {{"expert_group_count", uint32_t{3}}};
                   }},
        RefusedCut{"gguf.key_type",
                   [](auto& m, auto&) {
                     m.more = {{"expert_group_count", int32_t{2}}};
                   }},
        RefusedCut{"split.tensor_dims",
                   [](auto& m, auto&) { m.tensor("blk.2.exp_probs_b.bias").dims = {4}; }},
        RefusedCut{"split.tensor_dims",
                   [](auto& m, auto&) {
                     m.tensor("blk.1.ffn_up_exps.weight").dims = {7, 1, 256};
                   }},
        RefusedCut{"split.unknown_tensor",
                   [](auto& m, auto&) {
                     m.add("blk.1.ffn_up_chexps.weight", {4, 32});
                   }},
        RefusedCut{"split.unknown_tensor",
                   [](auto& m, auto&) { m.add("blk.1.ffn_gate_inp.scale", {32}); }},
        RefusedCut{"split.router",
                   [](auto& m, auto&) {
                     m.remove("blk.1.ffn_gate_inp.weight"), m.remove("blk.1.exp_probs_b.bias");
                   }},
        RefusedCut{"split.router",
                   [](auto& m, auto&) {
                     m.add("blk.0.ffn_gate_inp.weight", {8, 32});
                   }},
        RefusedCut{"split.no_experts",
                   [](auto& m, auto&) {
                     std::erase_if(m.tensors, [](const auto& tensor) {
                       return tensor.name.find("exp") != std::string::npos ||
                              tensor.name.find("gate_inp") != std::string::npos;
                     });
                   }},
        RefusedCut{"split.no_experts", [](auto& m, auto&) { m.layers = 1; }},
        RefusedCut{"split.scale_type",
                   [](auto& m, auto& o) {
                     m.tensor("blk.1.ffn_down_exps.bias").type = BlockType::i32;
                     o.profile = place_file(
                         R"({"format": "moec.expert_profile", "version": 1, "model": "olmoe",
                             "checkpoint": "", "source": "checkpoint", "text": "", "experts": 8,
                             "top_k": 2, "categories": [], "layers": [
                             {"layer": 1, "tokens": 8, "selections": [2,2,2,2,2,2,2,2],
                              "mass": [1,1,1,1,1,1,1,1], "categories": []},
                             {"layer": 2, "tokens": 8, "selections": [2,2,2,2,2,2,2,2],
                              "mass": [1,1,1,1,1,1,1,1], "categories": []}]})");
                   }},
        RefusedCut{"profile.file", [](auto&, auto& o) { o.profile = "/nonexistent"; }}));

TEST(SplitRefusals, RecognizesLlama4ByItsExperts) {
  CutModel model;
  model.arch = "llama4";
  model.experts = 128;
  for (GgufTensorInfo& tensor : model.tensors)
    if (const auto name = parse_block_name(tensor.name))
      if (name->layer > 0 && name->name.find("shexp") == std::string::npos)
        for (int64_t& size : tensor.dims) size = size == 8 ? 128 : size;
  SplitOptions options{.source = model.write(), .out = no_folder("out"), .groups = 2};
  EXPECT_EQ(code_of(split_model(options)), "split.llama4");
  options.groups = 1;
  EXPECT_EQ(code_of(split_model(options)), "");
}

TEST(SplitRefusals, AcceptsAPlacementOfOneStage) {
  SplitOptions options{.source = CutModel().write(), .out = no_folder("out")};
  options.place_file = place_file(R"({"format": "moec.placement", "version": 1, "stages": ["0-2"],
      "groups": [{"name": "a", "experts": "*:0-3"}, {"name": "b", "experts": "*:4-7"}],
      "nodes": [{"name": "a", "stage": 0}]})");
  const auto report = split_model(options);
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(report->plan.nodes.at(1).node.name, "b");
}

TEST(SplitRefusals, AllowsUncoveredExperts) {
  SplitOptions options{.source = CutModel().write(), .out = no_folder("out")};
  options.place_file = place_file(R"({"groups": [{"name": "a", "experts": "*:0-3"}]})");
  options.allow_uncovered = true;
  EXPECT_EQ(code_of(split_model(options)), "");
}

TEST(SplitRefusals, ForceReplacesOnlySplits) {
  SplitOptions options{.source = CutModel().write(), .out = no_folder("out"), .groups = 4};
  ASSERT_EQ(code_of(split_model(options)), "");
  EXPECT_TRUE(read_split_index(options.out)->finished);
  EXPECT_EQ(code_of(split_model(options)), "split.out_not_empty");
  write_file(options.out + "/node3/mine.txt", "mine");
  options.groups = 2;
  options.force = true;
  EXPECT_EQ(code_of(split_model(options)), "");
  EXPECT_TRUE(std::filesystem::exists(options.out + "/node1/model-00001-of-00003.gguf"));
  EXPECT_FALSE(std::filesystem::exists(options.out + "/node2"));
  EXPECT_EQ(read_file(options.out + "/node3/mine.txt"), "mine");
  EXPECT_FALSE(std::filesystem::exists(options.out + "/node3/model-00001-of-00003.gguf"));
  EXPECT_EQ(read_split_index(options.out)->files.size(), 7u);
}

TEST(SplitRefusals, NeverReplacesForeignFolders) {
  SplitOptions options{.source = CutModel().write(), .out = no_folder("out"), .groups = 2};
  options.force = true;
  std::filesystem::create_directories(options.out);
  write_file(options.out + "/mine.txt", "mine");
  EXPECT_EQ(code_of(split_model(options)), "split.out_not_empty");
  write_file(options.out + "/split.json", "{}");
  EXPECT_EQ(code_of(split_model(options)), "split_index.missing_field");
  write_file(options.out + "/split.json",
             R"({"finished": false, "nodes": [{"files": [{"path": "../mine"}]}]})");
  EXPECT_EQ(code_of(split_model(options)), "split_index.bad_value");
  write_file(options.out + "/split.json", R"({"finished": false, "nodes": []})");
  write_file(options.out + "/node1", "a file");
  EXPECT_EQ(code_of(split_model(options)), "export.foreign_file");
  EXPECT_EQ(read_file(options.out + "/mine.txt"), "mine");
  std::filesystem::remove(options.out + "/node1");
  EXPECT_EQ(code_of(split_model(options)), "");
}

TEST(SplitRefusals, NeverReplacesTheSource) {
  SplitOptions options{.source = CutModel().write(), .groups = 2};
  options.out = std::filesystem::path(options.source).parent_path();
  EXPECT_EQ(code_of(split_model(options)), "split.out_has_source");
  options.out = no_folder("out");
  ASSERT_EQ(code_of(split_model(options)), "");
  options.source = options.out + "/node0/model-00001-of-00003.gguf";
  options.force = true;
  options.groups = 1;
  EXPECT_EQ(code_of(split_model(options)), "split.out_has_source");
}

TEST(SplitRefusals, LeavesAStoppedSplitUnfinished) {
  SplitOptions options{.source = CutModel().write(), .out = no_folder("out"), .groups = 2};
  int pieces = 0;
  options.stop = [&] { return ++pieces > 20; };
  EXPECT_EQ(code_of(split_model(options)), kSplitInterrupted);
  EXPECT_FALSE(read_split_index(options.out)->finished);
  EXPECT_FALSE(std::filesystem::exists(options.out + "/node1/model-00001-of-00003.gguf"));
  options.stop = nullptr;
  EXPECT_EQ(code_of(split_model(options)), "");
  EXPECT_TRUE(read_split_index(options.out)->finished);
}

// Changes the file in place without changing its size, so only the modification time differs.
TEST(SplitRefusals, DetectsAChangingSource) {
  const std::string source = CutModel().write();
  size_t pieces = 0;
  SplitOptions options{.source = source, .out = no_folder("counted"), .groups = 2};
  options.progress = [&](uint64_t, uint64_t, const std::string&) { ++pieces; };
  ASSERT_TRUE(split_model(options));
  for (const size_t at : {size_t{1}, pieces / 2, pieces}) {
    size_t seen = 0;
    options.out = no_folder("changed");
    options.progress = [&](uint64_t, uint64_t, const std::string&) {
      if (++seen != at) return;
      std::fstream(source, std::ios::in | std::ios::out | std::ios::binary) << 'G';
      std::filesystem::last_write_time(
          source, std::filesystem::last_write_time(source) + std::chrono::milliseconds(1));
    };
    EXPECT_EQ(code_of(split_model(options)), "split.source_changed") << at << " of " << pieces;
  }
}

TEST(SplitRefusals, RejectsLockedFoldersAndExports) {
  SplitOptions options{.source = CutModel().write(), .out = no_folder("out"), .groups = 2};
  std::filesystem::create_directories(options.out);
  {
    const auto lock = FolderLock::take(options.out);
    EXPECT_EQ(code_of(split_model(options)), "export.locked");
  }
  write_file(options.out + "/manifest.json", "{}");
  options.source = options.out;
  EXPECT_EQ(code_of(split_model(options)), "split.source");
}

}  // namespace
}  // namespace moec
