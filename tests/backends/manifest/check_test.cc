#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "backends/files/digest.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "ir/experts/expert_runs.h"
#include "tests/backends/manifest/sample.h"

namespace moec {
namespace {

using testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
constexpr int64_t kTiny = std::numeric_limits<int64_t>::min();

manifest::Shard& shard(Manifest& manifest, std::string_view name) {
  for (manifest::Shard& candidate : manifest.shards)
    if (candidate.name == name) return candidate;
  ADD_FAILURE() << "no shard " << name;
  return manifest.shards.front();
}

manifest::Step& step(Manifest& manifest, std::string_view name) {
  for (manifest::Step& candidate : manifest.schedule)
    if (candidate.shard == name) return candidate;
  ADD_FAILURE() << "no step " << name;
  return manifest.schedule.front();
}

TEST(ManifestCheck, AcceptsTheSample) {
  Diagnostics findings = check_manifest(SampleManifest::make());
  EXPECT_TRUE(findings.empty()) << render(findings);
}

struct Fault {
  std::string name;
  std::function<void(Manifest&)> make;
  std::string code, cause;  // cause: a substring
};

// Replaces the expert ranges 0 to 2 and 3 to 4 with the sets {0, 2, 4} and {1, 3}.
void interleave_experts(Manifest& manifest) {
  const std::vector<std::vector<int64_t>> sets = {{0, 2, 4}, {1, 3}};
  for (size_t group = 0; group < sets.size(); ++group) {
    manifest::Shard& held = shard(manifest, "L01.moe.g" + std::to_string(group));
    set_experts(held, sets[group]);
    size_t parts = 0;  // three per expert
    for (WeightRecord& weight : held.weights)
      if (weight.role == WeightRole::expert) weight.first_expert = sets[group][parts++ / 3];
  }
}

// Reduces the manifest to the node that owns the first expert group.
void make_node(Manifest& manifest) {
  interleave_experts(manifest);
  manifest.node = manifest::Node{"n", "L1:0,2,4", 0, 1, 0, manifest.model.layers};
  manifest.devices.clear();
  std::erase_if(manifest.shards, [](const auto& s) { return s.name == "L01.moe.g1"; });
  manifest::Step& first = step(manifest, "L01.moe.g0");
  first.outputs.front().edge = step(manifest, "L01.moe.g1").outputs.front().edge;
  std::erase_if(manifest.schedule, [](const auto& s) { return s.shard == "L01.moe.g1"; });
}

TEST(ManifestCheck, AcceptsNoncontiguousExpertSets) {
  Manifest sets = SampleManifest::make(), node = SampleManifest::make();
  interleave_experts(sets);
  EXPECT_TRUE(check_manifest(sets).empty()) << render(check_manifest(sets));
  make_node(node);
  EXPECT_TRUE(check_manifest(node).empty()) << render(check_manifest(node));
  EXPECT_EQ(*from_json(*to_json(node)), node);
  EXPECT_EQ(*from_bytes(*to_bytes(node)), node);
}

class ManifestFault : public testing::TestWithParam<Fault> {};

TEST_P(ManifestFault, YieldsTheExpectedDiagnostic) {
  Manifest manifest = SampleManifest::make();
  GetParam().make(manifest);
  std::string findings = render(check_manifest(manifest));
  EXPECT_THAT(findings, HasSubstr("error[" + GetParam().code + "]"));
  EXPECT_THAT(findings, HasSubstr(GetParam().cause));
}

WeightRange& first_range(Manifest& m) { return m.shards[0].weights[0].ranges[0]; }

const Fault kFaults[] = {
    {"eos_outside", [](Manifest& m) { m.model.eos_tokens = {m.model.vocab}; }, "manifest.number",
     "the end-of-text id 10 is outside the vocabulary of 10"},
    {"eos_order",
     [](Manifest& m) {
       m.model.eos_tokens = {2, 2};
     },
     "manifest.number", "the end-of-text ids are not ascending"},
    {"version", [](Manifest& m) { m.schema_version = 99; }, "manifest.version",
     "the manifest has schema version 99, expected 18 to 19"},
    {"carried_outside", [](Manifest& m) { m.carried[0].path = "../tokenizer.json"; },
     "manifest.path", "the path \"../tokenizer.json\" is not inside the folder"},
    {"side_file_twice", [](Manifest& m) { m.side_files.push_back(m.side_files[0]); },
     "manifest.path", "the path \"report.json\" appears twice"},
    {"binary_elsewhere",
     [](Manifest& m) {
       m.binary = m.side_files[0];
       m.binary->path = "other.bin";
     },
     "manifest.path", "the binary form is other.bin"},
    {"mask_of_no_layer", [](Manifest& m) { m.build.expert_mask = "L9:0"; }, "manifest.experts",
     "build.expert_mask is not a valid mask of the experts: L9:0"},
    {"hidden", [](Manifest& m) { m.model.hidden = 0; }, "manifest.number", "model.hidden is 0"},
    {"left_out", [](Manifest& m) { m.model.left_out_layers = -1; }, "manifest.number",
     "model.left_out_layers is -1"},
    {"a_part_twice",
     [](Manifest& m) {
       m.model.mixer_only = {0};
       m.model.feed_forward_only = {0};
     },
     "manifest.layer", "the layers of one part are [0] and [0]"},
    {"a_part_of_no_layer", [](Manifest& m) { m.model.mixer_only = {99}; }, "manifest.layer",
     "the layers of one part are [99] and []"},
    {"a_mixer_too_many", [](Manifest& m) { m.model.feed_forward_only = {0}; }, "manifest.layer",
     "layer 0 has 1 attention shards, but is only a feed-forward part"},
    {"a_feed_forward_too_many", [](Manifest& m) { m.model.mixer_only = {0}; }, "manifest.layer",
     "layer 0 has feed-forward shards, but is only a mixer"},
    {"context", [](Manifest& m) { m.build.context = kHuge; }, "manifest.number", "build.context"},
    {"no_pages", [](Manifest& m) { m.build.cache_pages = 0; }, "manifest.number",
     "build.cache_pages is 0"},
    {"pages_of_appended", [](Manifest& m) { m.build.cache_pages = 2; }, "manifest.number",
     "build.cache_pages is 2"},
    {"ahead", [](Manifest& m) { m.schedule[0].inputs[3].ahead = 2; }, "manifest.number",
     "the port attn_mask sees 2 keys ahead with cache form append"},
    {"caches_of_none", [](Manifest& m) { m.build.cache = CacheForm::none; }, "manifest.number",
     "cache form none must have no caches, found 2"},
    {"no_labels", [](Manifest& m) { m.model.task = Task::token_classification; }, "manifest.task",
     "a model for task token_classification has no labels"},
    {"labels", [](Manifest& m) { m.tagging = manifest::Tagging{}; }, "manifest.task",
     "a model for task text_generation has labels"},
    {"labels_twice",
     [](Manifest& m) {
       m.tagging = manifest::Tagging{.labels = {{"O"}, {"O"}}};
     },
     "manifest.name", "the label \"O\" appears twice"},
    {"labels_missing",
     [](Manifest& m) {
       m.tagging = manifest::Tagging{.labels = {{"O"}, {"S-a"}}};
     },
     "manifest.vocabulary", "10 logits for a list of labels of 2"},
    {"mask", [](Manifest& m) { m.masked_value = 0; }, "manifest.number", "masked_value is 0"},
    {"infinite_mask", [](Manifest& m) { m.build.dtype = DType::f16; }, "manifest.number",
     "masked_value -3.4028234663852886e+38 is not finite in f16"},
    {"no_widths", [](Manifest& m) { m.build.tokens.clear(); }, "manifest.number", "build.tokens"},
    {"descending",
     [](Manifest& m) {
       m.build.tokens = {4, 1};
     },
     "manifest.number", "[4, 1]"},
    {"exact", [](Manifest& m) { m.build.routing = "full_softmax"; }, "manifest.number",
     "routing full_softmax is wrongly marked exact"},
    {"budget_of_nothing",
     [](Manifest& m) {
       m.build.budgets = {{ShardKind::moe, 0}};
     },
     "manifest.number", "build.budgets: 0 bytes for kind moe"},
    {"two_budgets",
     [](Manifest& m) {
       m.build.budgets = {{ShardKind::moe, 5}, {ShardKind::moe, 6}};
     },
     "manifest.number", "build.budgets: 6 bytes for kind moe"},
    {"slice_of_attention", [](Manifest& m) { m.shards[0].slices = 2; }, "manifest.number",
     "the shard cannot be slice 0 of 2"},
    {"slice_beyond", [](Manifest& m) { m.shards[1].slice = 1; }, "manifest.number",
     "the shard cannot be slice 1 of 1"},
    {"mlp_slice_missing", [](Manifest& m) { m.shards[1].slices = 2; }, "manifest.layer",
     "the MLP of layer 0: found slice 0 of 2, expected slice 0 of 1"},
    {"expert_slice_missing", [](Manifest& m) { m.shards[5].slices = 2; }, "manifest.experts",
     "experts of layer 1 starting at 3: found slice 0 of 2, expected slice 0 of 1"},
    {"shared_in_a_dense_layer", [](Manifest& m) { m.shards[1].kind = ShardKind::shared; },
     "manifest.layer", "it has 0 mlp, 0 moe, 0 router, 1 shared-expert and 0 expert-group shards"},
    {"cost", [](Manifest& m) { m.shards[2].cost.macs_dense = -1; }, "manifest.number", "cost"},
    {"file_bytes", [](Manifest& m) { m.shards[0].data[0].bytes = -5; }, "manifest.number",
     "L00.attn.data has the invalid size of -5 bytes"},
    {"port_dims",
     [](Manifest& m) {
       m.shards[0].widths[0].inputs[0].dims = {kHuge, kHuge};
     },
     "manifest.number", "the port x"},
    {"parent", [](Manifest& m) { m.shards[0].data[0].path = "a/../../x"; }, "manifest.path",
     "the path \"a/../../x\" is not inside the folder"},
    {"absolute", [](Manifest& m) { m.shards[0].widths[1].file.path = "/etc/passwd"; },
     "manifest.path", "/etc/passwd"},
    {"backslash", [](Manifest& m) { m.embedding.file.path = "..\\x"; }, "manifest.path", "..\\x"},
    {"drive", [](Manifest& m) { m.embedding.file.path = "c:x"; }, "manifest.path", "c:x"},
    {"empty_path", [](Manifest& m) { m.rope->table.file.path = ""; }, "manifest.path", "\"\""},
    {"dot", [](Manifest& m) { m.rope->table.file.path = "./rope.bin"; }, "manifest.path", "./rope"},
    {"slash_end", [](Manifest& m) { m.rope->table.file.path = "rope/"; }, "manifest.path", "rope/"},
    {"nul", [](Manifest& m) { m.rope->table.file.path.push_back('\0'); }, "manifest.path", "rope"},
    {"same_function",
     [](Manifest& m) {
       for (size_t i = 0; i < 2; ++i) {
         m.shards[i].widths[0].function = "t1";
         m.shards[i].widths[0].file = m.shards[0].widths[0].file;
       }
     },
     "manifest.path", "function t1 of "},
    {"same_path", [](Manifest& m) { m.shards[1].data[0].path = m.shards[0].data[0].path; },
     "manifest.path", "the path \"L00.attn.data\" appears twice"},
    {"digest", [](Manifest& m) { m.embedding.file.digest[3] = 'A'; }, "manifest.digest",
     "of embed.bin is not 32 hex digits"},
    {"sha256", [](Manifest& m) { m.embedding.file.sha256 = "0"; }, "manifest.digest",
     "the SHA-256 \"0\" of "},
    {"digest_short", [](Manifest& m) { m.embedding.file.digest.pop_back(); }, "manifest.digest",
     "embed.bin"},
    {"table_bytes", [](Manifest& m) { m.embedding.file.bytes -= 1; }, "manifest.table",
     "embedding needs 160 bytes for 10 rows by 8 columns of f16, its file has 159"},
    {"table_size", [](Manifest& m) { m.rope->table.rows = kHuge; }, "manifest.table", "rope has an invalid size"},
    {"table_vocab", [](Manifest& m) { m.model.vocab = 11; }, "manifest.table", "embedding is 10"},
    {"rope_columns",
     [](Manifest& m) {
       m.rope->table.columns -= 1;
       m.rope->table.file.bytes -= 64 * 2;
     },
     "manifest.table", "which do not match the cosines and sines of 1 rotations"},
    {"rope_widths", [](Manifest& m) { m.rope->widths = {1, kHuge}; }, "manifest.table",
     "which do not match the cosines and sines of 2 rotations"},
    {"rope_scale", [](Manifest& m) { m.rope->query_scale = true; }, "manifest.table",
     "of 1 rotations and the query scale"},
    {"rope_short", [](Manifest& m) { m.build.context = 65; }, "manifest.table",
     "rope has 64 positions for a context of 65"},
    {"shard_twice", [](Manifest& m) { m.shards[1].name = m.shards[0].name; }, "manifest.name",
     "two shards have this name"},
    {"port_twice", [](Manifest& m) { m.shards[0].widths[0].inputs[1].name = "x"; }, "manifest.name",
     "the port x appears twice"},
    {"golden", [](Manifest& m) { m.golden[0].shard = "L09.attn"; }, "manifest.name", "L09.attn"},
    {"cache_twice", [](Manifest& m) { m.caches[1].layer = 0; }, "manifest.name",
     "layer 0 has two caches"},
    {"width", [](Manifest& m) { m.shards[3].widths.pop_back(); }, "manifest.width",
     "the shard has widths [1], the build has [1, 4]"},
    {"no_attention", [](Manifest& m) { shard(m, "L01.attn").layer = 0; }, "manifest.layer",
     "layer 1 has 0 attention shards"},
    {"no_router", [](Manifest& m) { shard(m, "L01.router").kind = ShardKind::mlp; },
     "manifest.layer", "it has 1 mlp, 0 moe, 0 router, 0 shared-expert and 2 expert-group shards"},
    {"layer_outside", [](Manifest& m) { shard(m, "L00.mlp").layer = 7; }, "manifest.layer",
     "the shard's layer 7 is out of range"},
    {"head_layer", [](Manifest& m) { shard(m, "lm_head.0").layer = 0; }, "manifest.layer",
     "the shard's layer 0 is out of range"},
    {"layers", [](Manifest& m) { m.model.layers = 1000000; }, "manifest.layer",
     "1000000 layers need one cache each, found 2"},
    {"layers_of_a_part", [](Manifest& m) { shard(m, "L00.attn").layers = 2; }, "manifest.layer",
     "the shard cannot have 2 layers starting at 0"},
    {"layers_twice",
     [](Manifest& m) {
       for (const char* name : {"L00.attn", "L00.mlp"}) {
         shard(m, name).kind = ShardKind::layers;
         shard(m, name).layers = 2;
       }
     },
     "manifest.layer", "shards of whole layers hold 4 layers, the model has 2"},
    {"moe_layer_lost", [](Manifest& m) { shard(m, "L01.moe.g0").moe_layers.clear(); },
     "manifest.layer", "the shard's MoE layers [] are invalid"},
    {"moe_layer_outside",
     [](Manifest& m) {
       shard(m, "L01.moe.g0").moe_layers = {kTiny, kHuge};
     },
     "manifest.layer", "the shard's MoE layers ["},
    {"expert_ids_of_a_run",
     [](Manifest& m) {
       shard(m, "L01.moe.g1").expert_ids = {3, 4};
     },
     "manifest.experts", "expert_ids must be 2 ascending experts starting at 3, with a gap"},
    {"expert_ids_descend",
     [](Manifest& m) {
       interleave_experts(m);
       shard(m, "L01.moe.g0").expert_ids = {0, 4, 2};
     },
     "manifest.experts", "expert_ids must be 3 ascending experts starting at 0"},
    {"expert_ids_twice",
     [](Manifest& m) {
       interleave_experts(m);
       shard(m, "L01.moe.g1").expert_ids = {1, 4};
     },
     "manifest.experts", "experts of layer 1: a gap: covered up to 3, the next range begins at 4"},
    {"weight_of_a_gap",
     [](Manifest& m) {
       interleave_experts(m);
       shard(m, "L01.moe.g0").weights.back().first_expert = 3;
     },
     "manifest.weights", "has 1 blocks starting at 3"},
    {"node_of_other_experts",
     [](Manifest& m) {
       make_node(m);
       m.node->experts = "L1:0-2";
     },
     "manifest.experts", "the shards must hold each of the experts 0,1,2 once"},
    {"node_of_too_few",
     [](Manifest& m) {
       make_node(m);
       m.node->experts = "L1:0";
     },
     "manifest.node", "node.experts are not valid expert sets: L1:0"},
    {"node_without_name",
     [](Manifest& m) {
       make_node(m);
       m.node->name.clear();
     },
     "manifest.node", "the node has no name"},
    {"node_of_huge_layers",
     [](Manifest& m) {
       make_node(m);
       m.node->first_layer = kHuge;
     },
     "manifest.node", "exceed the model's 2"},
    {"node_of_another_stage",
     [](Manifest& m) {
       make_node(m);
       m.node->stages = 2;
     },
     "manifest.node", "stage 0 of 2 cannot have layers 0 to 1 of 2"},
    {"node_that_begins_later",
     [](Manifest& m) {
       make_node(m);
       m.node = manifest::Node{"n", "L1:0,2,4", 1, 2, 1, 1};
     },
     "manifest.table", "a node of a later stage must not have an embedding"},
    {"expert_gap", [](Manifest& m) { shard(m, "L01.moe.g0").experts = 2; }, "manifest.experts",
     "experts of layer 1: a gap: covered up to 2, the next range begins at 3"},
    {"expert_overlap", [](Manifest& m) { shard(m, "L01.moe.g0").experts = 4; }, "manifest.experts",
     "experts of layer 1: an overlap: covered up to 4, the next range begins at 3"},
    {"expert_last", [](Manifest& m) { shard(m, "L01.moe.g1").experts = 1; }, "manifest.experts",
     "experts of layer 1: only 4 of 5 are covered"},
    {"expert_huge", [](Manifest& m) { shard(m, "L01.moe.g1").experts = kHuge; }, "manifest.experts",
     "is outside [0, 5)"},
    {"expert_total", [](Manifest& m) { shard(m, "L01.router").routing->experts = kTiny; },
     "manifest.experts", "disagree on the number of experts"},
    {"top_k", [](Manifest& m) { shard(m, "L01.router").routing->router.top_k = 6; },
     "manifest.routing", "each token selects 6 of 5 experts"},
    {"router_groups", [](Manifest& m) { shard(m, "L01.router").routing->router.groups = 2; },
     "manifest.routing", "5 experts cannot be selected from 1 of 2 groups"},
    {"router_groups_kept",
     [](Manifest& m) { shard(m, "L01.router").routing->router.groups_kept = 2; },
     "manifest.routing", "5 experts cannot be selected from 2 of 1 groups"},
    {"group_too_small",
     [](Manifest& m) {
       Router& router = shard(m, "L01.router").routing->router;
       router.groups = 5;
       router.groups_kept = 1;
     },
     "manifest.routing", "each token selects 2 experts, but the kept groups have 1"},
    {"op_without_unit", [](Manifest& m) { m.shards[0].placement[0].ops = 8; }, "manifest.placement",
     "the placement counts 8 of 9 ops"},
    {"placement_huge", [](Manifest& m) { m.shards[0].placement[0].ops = kHuge; },
     "manifest.placement", "of 9 ops"},
    {"graph_digest", [](Manifest& m) { m.shards[0].widths[1].graph = "?"; }, "manifest.digest",
     "the digest \"?\" of a graph"},
    {"weight_digest", [](Manifest& m) { m.shards[0].weights[0].digests += '0'; }, "manifest.digest",
     "the digests of the weight norm.weight"},
    {"weight_expert_lost", [](Manifest& m) { shard(m, "L01.moe.g0").weights.resize(4); },
     "manifest.weights", "found weights of 1 experts, expected 3"},
    {"weight_part_lost", [](Manifest& m) { shard(m, "L01.moe.g1").weights.pop_back(); },
     "manifest.weights", "expert 4 has 2 weights, expert 3 has 3"},
    {"weight_of_another_group",
     [](Manifest& m) { shard(m, "L01.moe.g1").weights.back().first_expert = 2; },
     "manifest.weights", "has 1 blocks starting at 2, expected 3 to 4"},
    {"weight_huge", [](Manifest& m) { shard(m, "L01.moe.g1").weights.back().first_expert = kHuge; },
     "manifest.weights", "expected 3 to 4"},
    {"weight_tiny", [](Manifest& m) { shard(m, "L01.moe.g1").weights.back().first_expert = kTiny; },
     "manifest.weights", "expected 3 to 4"},
    {"weight_of_another_layer",
     [](Manifest& m) { shard(m, "L01.moe.g1").weights.back().moe_layer = 1; }, "manifest.weights",
     "belongs to MoE layer 1 of 1"},
    {"router_row_lost",
     [](Manifest& m) { shard(m, "L01.router").weights.back().digests.resize(128); },
     "manifest.weights", "has 4 blocks starting at 0, expected 0 to 4"},
    {"plain_twice",
     [](Manifest& m) { m.shards[0].weights[0].digests += m.shards[0].weights[0].digests; },
     "manifest.weights", "the weight norm.weight of role plain has 2 blocks"},
    {"range_nowhere", [](Manifest& m) { m.shards[0].weights[0].ranges.clear(); }, "manifest.ranges",
     "the weight norm.weight has no ranges"},
    {"range_past_the_end", [](Manifest& m) { first_range(m).bytes = 3969; }, "manifest.ranges",
     "bytes [128, 128 + 3969) of data file 0 are not a valid range for the values of weight norm.weight"},
    {"range_huge", [](Manifest& m) { first_range(m).offset = kHuge; }, "manifest.ranges",
     "of data file 0 are not a valid range for the values"},
    {"range_of_no_file", [](Manifest& m) { first_range(m).data = 1; }, "manifest.ranges",
     "of data file 1 are not a valid range for the values"},
    {"range_unaligned", [](Manifest& m) { first_range(m).alignment = 256; }, "manifest.ranges",
     "offset 128 of the weight norm.weight is not aligned to 256"},
    {"range_of_scales", [](Manifest& m) { first_range(m).part = StoredAs::scales; },
     "manifest.ranges", "range 0 of the weight norm.weight must not contain its scales"},
    {"range_digest", [](Manifest& m) { first_range(m).digest = "12"; }, "manifest.digest",
     "the digest \"12\" of a range of norm.weight"},
    {"device_twice", [](Manifest& m) { m.devices[1].name = "gpu0"; }, "manifest.devices",
     "the device gpu0 appears twice"},
    {"device_size", [](Manifest& m) { m.devices[0].bytes = 0; }, "manifest.number",
     "device gpu0 has 0 bytes"},
    {"device_shard", [](Manifest& m) { m.devices[0].shards[0].shard = "L09.mlp"; },
     "manifest.devices", "device gpu0 holds an unknown shard"},
    {"device_lists_twice",
     [](Manifest& m) { m.devices[0].shards.push_back(m.devices[0].shards[0]); }, "manifest.devices",
     "device gpu0 lists the shard twice"},
    {"expert_group_without_device", [](Manifest& m) { m.devices[1].shards.pop_back(); },
     "manifest.devices", "no device holds the shard"},
    {"vocab_gap",
     [](Manifest& m) {
       shard(m, "lm_head.1").vocab_begin = m.logits.slices[1].begin = 7;
       shard(m, "lm_head.1").vocab_size = m.logits.slices[1].size = 3;
     },
     "manifest.vocabulary", "logits: a gap: covered up to 6, the next range begins at 7"},
    {"vocab_order", [](Manifest& m) { std::swap(m.logits.slices[0], m.logits.slices[1]); },
     "manifest.vocabulary", "not in vocabulary order"},
    {"vocab_shard", [](Manifest& m) { m.logits.slices[0].shard = "L00.attn"; },
     "manifest.vocabulary", "do not match a head shard"},
    {"vocab_port", [](Manifest& m) { m.logits.slices[0].port = "other"; }, "manifest.vocabulary",
     "the schedule and `logits` name different logit ports"},
    {"vocab_total", [](Manifest& m) { m.logits.vocab = 9; }, "manifest.vocabulary",
     "9 logits for a vocabulary of 10"},
    {"not_run", [](Manifest& m) { m.schedule.pop_back(); }, "manifest.schedule",
     "the schedule runs the shard 0 times, expected once"},
    {"run_twice", [](Manifest& m) { m.schedule.push_back(m.schedule[1]); }, "manifest.schedule",
     "the schedule runs the shard 2 times, expected once"},
    {"unknown_shard", [](Manifest& m) { m.schedule[1].shard = "L00.mlq"; }, "manifest.schedule",
     "a step runs an unknown shard"},
    {"early_read", [](Manifest& m) { std::swap(m.schedule[0], m.schedule[1]); },
     "manifest.schedule", "the port hidden reads the edge L00.hidden before any step writes it"},
    {"written_twice", [](Manifest& m) { step(m, "L00.mlp").outputs[0].edge = "L00.hidden"; },
     "manifest.schedule", "the edge L00.hidden is written twice"},
    {"never_read", [](Manifest& m) { step(m, "L01.moe.g1").inputs[0].edge = "L01.hidden"; },
     "manifest.schedule", "the edge L01.acc is never read"},
    {"unbound", [](Manifest& m) { step(m, "L00.attn").inputs.pop_back(); }, "manifest.schedule",
     "the port v_state is not bound"},
    {"bound_twice", [](Manifest& m) { step(m, "L00.attn").outputs[1].port = "hidden"; },
     "manifest.schedule", "the port hidden is bound twice"},
    {"no_port", [](Manifest& m) { step(m, "L00.attn").inputs[0].port = "y"; }, "manifest.schedule",
     "the step binds y, which is not a port of the shard"},
    {"skip", [](Manifest& m) { step(m, "L01.moe.g0").skip_from = "routing_weights"; },
     "manifest.schedule",
     "the step cannot be skipped by forwarding \"routing_weights\" as \"moe_out\""},
    {"edge_type", [](Manifest& m) { shard(m, "L00.mlp").widths[1].inputs[0].dtype = DType::f16; },
     "manifest.type", "the port hidden f16[4,8]{rows} does not match the edge L00.hidden f32[4,8]{rows}"},
    {"embed_type",
     [](Manifest& m) {
       shard(m, "L00.attn").widths[0].inputs[0].dims = {1, 7};
     },
     "manifest.type", "the port x f32[1,7]{rows} does not match the edge embed of embedding rows"},
    {"rope_type",
     [](Manifest& m) {
       shard(m, "L00.attn").widths[0].inputs[1].dims = {1, 4};
     },
     "manifest.type", "the port rope_cos is [1,4], but rope_cos is [1,2]"},
    {"rope_rotation",
     [](Manifest& m) { m.schedule.front().inputs[1].rotation = 1; }, "manifest.type",
     "the port rope_cos reads rope_cos, which the manifest lacks"},
    {"rope_absent", [](Manifest& m) { m.rope.reset(); }, "manifest.type",
     "the port rope_cos reads rope_cos, which the manifest lacks"},
    {"mask_type", [](Manifest& m) { m.build.cache = CacheForm::blend; }, "manifest.type",
     "the port attn_mask is [1,1,1,17], but attn_mask is [1,1,1,16]"},
    {"states_missing", [](Manifest& m) { m.build.cache = CacheForm::blend; }, "manifest.type",
     "the shard's 0 states do not match the 2 that its cache requires"},
    {"states_unasked",
     [](Manifest& m) { m.shards[0].states.push_back(m.shards[0].widths[0].inputs[0]); },
     "manifest.type",
     "the shard's 1 states do not match the 0 that its cache requires"},
    {"cache_of_another_layer", [](Manifest& m) { step(m, "L00.attn").inputs[4].layer = 1; },
     "manifest.schedule", "the port k_state is bound to the cache of layer 1"},
    {"rows_of_no_layer", [](Manifest& m) { step(m, "L00.attn").outputs[1].layer = -1; },
     "manifest.schedule", "the port k_new is bound to the cache of layer -1"},
    {"cache_type", [](Manifest& m) { m.caches[0].rows = 15; }, "manifest.type",
     "the port k_state is [1,2,16,4], but k_cache is [1,2,15,4]"},
    {"half_a_history", [](Manifest& m) { m.caches[0].history_tokens = 2; }, "manifest.number",
     "the history of layer 0 has invalid sizes: 2 tokens of 0 channels"},
    {"no_history", [](Manifest& m) { step(m, "L00.attn").inputs[4].source = SourceKind::history; },
     "manifest.type", "the port k_state reads history, which the manifest lacks"},
    {"history_type",
     [](Manifest& m) {
       m.caches[0].history_tokens = m.caches[0].history_channels = 3;
       step(m, "L00.attn").outputs[1].sink = SinkKind::history_rows;
     },
     "manifest.type", "the port k_new is f32[1,2,1,4], expected 1 tokens of 3 history channels"},
    {"no_cache", [](Manifest& m) { m.caches.pop_back(); }, "manifest.type",
     "the port k_new writes a cache that layer 1 lacks"},
    {"logit_type",
     [](Manifest& m) {
       shard(m, "lm_head.1").widths[0].outputs[0].dims = {1, 5};
     },
     "manifest.type", "the port logits is f32[1,5]{rows}, expected 1 tokens of 4"},
};

INSTANTIATE_TEST_SUITE_P(All, ManifestFault, testing::ValuesIn(kFaults),
                         [](const auto& info) { return info.param.name; });

std::string write_payload(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// Writes the manifest's files, and records their sizes and digests in the manifest.
std::string write_files(Manifest& manifest, const std::string& name) {
  std::string folder = testing::TempDir() + "/manifest_files_" + name;
  std::filesystem::remove_all(folder);
  auto fill = [&](manifest::FileRef& file) {
    std::string path = write_payload(folder + "/" + file.path, "payload of " + file.path);
    file.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
    file.digest = digest_file(path).value();
  };
  for (manifest::FileRef& file : manifest.carried) fill(file);
  for (manifest::FileRef& file : manifest.side_files) fill(file);
  fill(manifest.embedding.file);
  fill(manifest.rope->table.file);
  for (manifest::Shard& each : manifest.shards) {
    for (manifest::Width& width : each.widths) fill(width.file);
    for (manifest::FileRef& file : each.data) fill(file);
  }
  return folder;
}

TEST(VerifyFiles, AcceptsUnchangedFiles) {
  Manifest manifest = SampleManifest::make();
  std::string folder = write_files(manifest, "fine");
  EXPECT_EQ(render(verify_files(manifest, folder, true)), "");
}

TEST(VerifyFiles, NamesAChangedDigest) {
  Manifest manifest = SampleManifest::make();
  std::string folder = write_files(manifest, "changed");
  std::string path = folder + "/L00.mlp.data";
  std::string before = shard(manifest, "L00.mlp").data[0].digest;
  write_payload(path, "payload of L00.mlp.dat@");
  EXPECT_EQ(render(verify_files(manifest, folder, false)), "");
  EXPECT_EQ(render(verify_files(manifest, folder, true)),
            "error[manifest.digest_changed] " + path + ", shard L00.mlp: the file has the digest " +
                digest_file(path).value() + ", the manifest records " + before +
                "\n  next: export the model again");
}

TEST(VerifyFiles, ComparesARecordedSha256) {
  Manifest manifest = SampleManifest::make();
  const std::string folder = write_files(manifest, "sha256");
  manifest::FileRef& file = shard(manifest, "L00.mlp").data[0];
  file.sha256 = digest_file(folder + "/" + file.path, true).value().sha256;
  EXPECT_EQ(render(verify_files(manifest, folder, true)), "");
  file.sha256 = std::string(64, '0');
  const Diagnostics findings = verify_files(manifest, folder, true);
  ASSERT_EQ(findings.size(), 1u) << render(findings);
  EXPECT_EQ(findings[0].code, "manifest.digest_changed");
  EXPECT_EQ(findings[0].place.file, folder + "/L00.mlp.data");
}

TEST(VerifyFiles, ListsEveryMissingAndResizedFile) {
  Manifest manifest = SampleManifest::make();
  std::string folder = write_files(manifest, "missing");
  std::filesystem::remove(folder + "/embed.bin");
  std::filesystem::remove(folder + "/L00.mlp.t1.onnx");
  std::filesystem::create_directory(folder + "/L00.mlp.t1.onnx");
  write_payload(folder + "/rope.bin", "longer than before, by some");
  Diagnostics findings = verify_files(manifest, folder, false);
  ASSERT_EQ(findings.size(), 3u) << render(findings);
  EXPECT_EQ(findings[0].code, "manifest.file_missing");
  EXPECT_EQ(findings[0].place.file, folder + "/embed.bin");
  EXPECT_EQ(findings[1].code, "manifest.size_changed");
  EXPECT_EQ(findings[1].cause, "the file has 27 bytes, the manifest records 19");
  EXPECT_EQ(findings[2].code, "manifest.file_missing");
  EXPECT_EQ(findings[2].place.shard, "L00.mlp");
}

}  // namespace
}  // namespace moec
