// Removes, duplicates, swaps, truncates or permutes experts of an exported folder and updates the
// file digests: moec check finds and names each edit. Permuting experts together with their router
// rows is equivalent and accepted.
#include <gmock/gmock.h>

#include "backends/coverage/check_weights.h"
#include "ir/base/invariant.h"
#include "tests/frontends/jobs/check/edited_export.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = EditedExport::Json;

void expect_found(const Outcome& outcome, const std::vector<std::string>& message) {
  EXPECT_EQ(outcome.exit_code, kExitFellShort) << outcome.out << outcome.err;
  for (const std::string& part : message) EXPECT_THAT(outcome.out, HasSubstr(part));
}

// ---- Every form of experts ---------------------------------------------------------------------

class EveryForm : public testing::TestWithParam<Variant> {
 protected:
  EditedExport edited_ = EditedExport("mixtral_a", GetParam().flags);

  std::vector<int64_t> order(const std::map<int64_t, int64_t>& changes) const {
    return order_with(edited_.experts(), changes);
  }
  void reorder_all(const std::vector<int64_t>& order, bool weights, bool rows) {
    const MoeLayer first{edited_.most_moe_layers(), 0};
    edited_.edit_experts([&](Shard& shard) { reorder(shard, order, weights, rows, first); });
  }
};

TEST_P(EveryForm, AcceptsRewrittenFiles) {
  edited_.edit_experts([](Shard&) {});
  expect_fine(edited_.check());
}

TEST_P(EveryForm, AcceptsAConsistentPermutation) {
  reorder_all(order({{0, 1}, {1, 0}}), true, true);
  expect_fine(edited_.check());
}

TEST_P(EveryForm, FindsSwappedExperts) {
  reorder_all(order({{0, 1}, {1, 0}}), true, false);
  expect_found(edited_.check(), {"error[coverage.swapped_experts]", "shard L00.",
                                 "layer 0: experts 0 and 1 are exchanged"});
}

TEST_P(EveryForm, FindsSwappedRouterRows) {
  reorder_all(order({{0, 1}, {1, 0}}), false, true);
  expect_found(edited_.check(), {"error[coverage.swapped_experts]", "shard L00.",
                                 "layer 0: experts 0 and 1 are exchanged"});
}

TEST_P(EveryForm, FindsADuplicateExpert) {
  reorder_all(order({{1, 0}}), true, false);
  expect_found(edited_.check(), {"error[coverage.duplicate_expert]", "shard L00.",
                                 "layer 0: the weights of expert 0 replace those of expert 1"});
}

TEST_P(EveryForm, FindsADuplicateRouterRow) {
  reorder_all(order({{1, 0}}), false, true);
  expect_found(edited_.check(), {"error[coverage.router_row]", "shard L00.",
                                 "layer 0: router row 1 repeats that of expert 0"});
}

INSTANTIATE_TEST_SUITE_P(
    Forms, EveryForm,
    testing::Values(Variant{"unrolled", {}},
                    Variant{"unrolled_matmul_f16", {"--form", "matmul", "--dtype", "f16"}},
                    Variant{"bank", {"--experts", "bank", "--dtype", "f16"}},
                    Variant{"bank_matmul", {"--experts", "bank", "--form", "matmul"}},
                    Variant{"groups", {"--routing", "host", "--experts-per-shard", "2"}},
                    Variant{"whole_layers", {"--layers-per-shard", "2"}},
                    Variant{"whole_layers_bank",
                            {"--layers-per-shard", "2", "--experts", "bank", "--form", "matmul"}},
                    Variant{"litert", {"--target", "litert"}},
                    Variant{
                        "litert_groups",
                        {"--target", "litert", "--routing", "host", "--experts-per-shard", "2"}},
                    Variant{"coreml_whole_layers",
                            {"--target", "ane", "--layers-per-shard", "2", "--kv", "io"}},
                    Variant{"coreml", {"--target", "ane"}},
                    Variant{"coreml_bank", {"--target", "ane", "--experts", "bank"}},
                    Variant{"coreml_groups",
                            {"--target", "ane", "--routing", "host", "--experts-per-shard", "2"}}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- Edits of an unrolled graph ----------------------------------------------------------------

// Returns the slices that read each expert's routing weight.
std::vector<OpId> routing_slices(const Shard& shard, int64_t experts) {
  const auto roles = find_experts(shard, experts);
  std::vector<OpId> slices;
  for (OpId op : op_ids(shard))
    if (roles[op].narrows_routing) slices.push_back(op);
  return slices;
}

struct GraphEdit {
  const char* name;
  std::function<void(Shard&, int64_t experts)> apply;
  std::vector<std::string> message;  // empty if accepted
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const GraphEdit& edit, std::ostream* out) { *out << edit.name; }

void remove_last_term(Shard& shard) {
  for (OpId id : op_ids(shard))
    if (Op& op = shard.ops[id]; mnemonic(op.data) == "add")
      if (shard.producer_as<Conv>(op.operands[1]) && shard.producer_as<Binary>(op.operands[0]))
        op.operands[1] = op.operands[0];
}

void turn_slices(Shard& shard, int64_t experts) {
  for (OpId id : routing_slices(shard, experts)) {
    auto& slice = std::get<Slice>(shard.ops[id].data);
    slice.begin = (slice.begin + 1) % experts;
  }
}

void turn_slices_and_rows(Shard& shard, int64_t experts) {
  std::vector<int64_t> back;
  for (int64_t e = 0; e < experts; ++e) back.push_back((e + experts - 1) % experts);
  reorder(shard, back, false, true);
  turn_slices(shard, experts);
}

void exchange_gate_and_up(Shard& shard, int64_t) {
  const OpId gate = weight_named(shard, "experts.1.gate.weight");
  const OpId up = weight_named(shard, "experts.1.up.weight");
  std::swap(view_of(shard, gate), view_of(shard, up));
  std::swap(shard.values[shard.ops[gate].results[0]].name,
            shard.values[shard.ops[up].results[0]].name);
}

void turn_sigmoid_into_tanh(Shard& shard, int64_t) {
  for (OpId op : op_ids(shard))
    if (auto* unary = std::get_if<Unary>(&shard.ops[op].data);
        unary && unary->fn == UnaryFn::sigmoid)
      unary->fn = UnaryFn::tanh;
}

std::vector<GraphEdit> graph_edits() {
  return {
      {"removed_from_the_sum",
       [](Shard& s, int64_t) { remove_last_term(s); },
       {"error[coverage.missing_expert]", "shard L00.moe", "has 0 of its 3 weights in the graph",
        "error[coverage.changed_graph]", "shard L00.moe"}},
      {"three_in_a_circle",
       [](Shard& s, int64_t n) {
         reorder(s, order_with(n, {{0, 1}, {1, 2}, {2, 0}}), true, false);
       },
       {"error[coverage.permuted_experts]", "shard L00.moe", "experts 0, 1, 2 are permuted"}},
      {"all_by_the_slices_of_the_routing_weights",
       turn_slices,
       {"error[coverage.permuted_experts]", "shard L00.moe", "experts 0, 1, 2, 3"}},
      {"one_projection_of_another",
       [](Shard& s, int64_t) {
         view_named(s, "experts.2.up.weight") = view_named(s, "experts.1.up.weight");
       },
       {"error[coverage.changed_expert]", "shard L00.moe",
        "layer 0: expert 2: experts.2.up.weight belongs to expert 1"}},
      {"truncated",
       [](Shard& s, int64_t) { cut_short(s, "experts.3.down.weight"); },
       {"error[coverage.truncated_expert]", "shard L00.moe",
        "layer 0: expert 3: experts.3.down.weight ends in"}},
      {"other_values",
       [](Shard& s, int64_t) {
         WeightView& view = view_named(s, "experts.0.gate.weight");
         view = then(view, ScaleStep{2});
       },
       {"error[coverage.changed_expert]", "shard L00.moe",
        "layer 0: expert 0: experts.0.gate.weight differs from the exported one"}},
      {"gate_and_up_exchanged_in_the_graph",
       exchange_gate_and_up,
       {"error[coverage.changed_expert]", "shard L00.moe",
        "layer 0: expert 1: experts.1.up.weight differs from the exported one"}},
      {"another_op", turn_sigmoid_into_tanh, {"error[coverage.changed_graph]", "shard L00.moe"}},
      {"norm",
       [](Shard& s, int64_t) {
         WeightView& view = view_named(s, "ffn_norm.weight");
         view = then(view, ScaleStep{2});
       },
       {"error[coverage.changed_weight]", "shard L00.moe",
        "ffn_norm.weight differs from the exported one"}},
      {"slices_and_rows_turned_together", turn_slices_and_rows, {}},
  };
}

class EditedGraph : public testing::TestWithParam<GraphEdit> {
 protected:
  static void expect_as_said(Words flags) {
    const EditedExport edited("mixtral_a", std::move(flags));
    const int64_t experts = edited.experts();
    edited.edit_experts([&](Shard& shard) { GetParam().apply(shard, experts); });
    if (GetParam().message.empty())
      expect_fine(edited.check());
    else
      expect_found(edited.check(), GetParam().message);
  }
};

TEST_P(EditedGraph, IsFoundInOnnx) { expect_as_said({}); }
TEST_P(EditedGraph, IsFoundInCoreml) { expect_as_said({"--target", "ane"}); }

INSTANTIATE_TEST_SUITE_P(All, EditedGraph, testing::ValuesIn(graph_edits()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- Edits of files and of the manifest --------------------------------------------------------

const Words kGroups = {"--routing", "host", "--experts-per-shard", "2"};

Json& shard_named(Json& manifest, const std::string& name) {
  for (Json& shard : manifest["shards"])
    if (shard["name"] == name) return shard;
  ADD_FAILURE() << "no shard " << name;
  return manifest["shards"][0];
}

void swap_files(Json& manifest, const std::string& a, const std::string& b) {
  Json &first = shard_named(manifest, a), &second = shard_named(manifest, b);
  std::swap(first["widths"], second["widths"]);
  std::swap(first["data"], second["data"]);
}

void cut_file(const std::string& path) {
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 100);
}

// Byte range of a graph's weight.
const TensorRange& range_of(const LoadedShard& file, const std::string& name) {
  for (const Op& op : file.shard.ops)
    if (const auto* weight = std::get_if<Weight>(&op.data);
        weight && file.shard.values[op.results[0]].name == name)
      return *file.weights.find(std::get<TensorSource>(weight->view.source).name);
  MOEC_CHECK(false, "no weight {}", name);
}

TEST(EditedFiles, FindsSwappedExpertBytes) {
  const EditedExport edited("mixtral_a", {});
  const auto& width = edited.manifest().find_shard("L00.moe")->widths[0];
  const LoadedShard file = read_shard(edited.manifest(), edited.folder(), width).value();
  std::fstream data(edited.path("moe/L00.data"), std::ios::in | std::ios::out | std::ios::binary);
  for (const char* part : {"gate", "up", "down"}) {
    const TensorRange& a = range_of(file, std::string("experts.1.") + part + ".weight");
    const TensorRange& b = range_of(file, std::string("experts.3.") + part + ".weight");
    const auto size = static_cast<std::streamsize>(a.type.bytes());
    std::string from_a(static_cast<size_t>(size), 0), from_b = from_a;
    data.seekg(static_cast<std::streamoff>(a.offset)).read(from_a.data(), size);
    data.seekg(static_cast<std::streamoff>(b.offset)).read(from_b.data(), size);
    data.seekp(static_cast<std::streamoff>(a.offset)).write(from_b.data(), size);
    data.seekp(static_cast<std::streamoff>(b.offset)).write(from_a.data(), size);
  }
  data.close();
  edited.bring_manifest_in_line();
  expect_found(edited.check(), {"error[coverage.swapped_experts]", "shard L00.moe",
                                "experts 1 and 3 are exchanged"});
  // The edit is only visible in the bytes.
  expect_fine(edited.check({"--no-digests"}));
}

TEST(EditedFiles, FindsATruncatedFile) {
  const EditedExport edited("mixtral_a", kGroups);
  cut_file(edited.path("moe/L00.g1.data"));
  edited.bring_manifest_in_line();
  expect_found(edited.check(), {"error[onnx.external_data]", "experts.3.w2.weight",
                                "error[coverage.unreadable_experts]", "shard L00.moe.g1",
                                "layer 0: experts 2 to 3 cannot be read"});
}

TEST(EditedFiles, FindsATruncatedFileInPackages) {
  Words flags = kGroups;
  flags.insert(flags.end(), {"--target", "ane"});
  const EditedExport edited("mixtral_a", flags);
  cut_file(edited.path("moe/L00.g1.t1.mlpackage/Data/com.apple.CoreML/weights/weight.bin"));
  edited.bring_manifest_in_line();
  expect_found(edited.check(), {"error[coreml.blob]", "error[coverage.unreadable_experts]",
                                "layer 0: experts 2 to 3 cannot be read"});
}

// Widths share weights. A failed read for one width must not count as read for the next width.
TEST(EditedFiles, FindsDataTruncatedAfterReadingGraphs) {
  const EditedExport edited("mixtral_a", {"--tokens", "1,4"});
  const manifest::Shard& shard = *edited.manifest().find_shard("L00.moe");
  std::vector<LoadedShard> files;
  for (const manifest::Width& width : shard.widths)
    files.push_back(read_shard(edited.manifest(), edited.folder(), width).value());
  cut_file(edited.path("moe/L00.data"));
  WeightCheck check(edited.manifest(), edited.folder(), true);
  for (size_t width = 0; width < files.size(); ++width) check.take(shard, width, files[width]);
  const Diagnostics findings = check.finish();
  EXPECT_EQ(std::count_if(findings.begin(), findings.end(),
                          [](const Diagnostic& d) { return d.code == "weights.file_changed"; }),
            2);
}

TEST(EditedFiles, FindsExchangedGroupFiles) {
  const EditedExport edited("mixtral_a", kGroups);
  edited.edit_manifest([](Json& m) { swap_files(m, "L00.moe.g0", "L00.moe.g1"); });
  expect_found(edited.check(), {"error[coverage.misplaced_expert]", "shard L00.moe.g0",
                                "expert 2 of layer 0", "is in a shard of experts 0 to 1"});
}

TEST(EditedFiles, FindsExchangedLayerFiles) {
  const EditedExport edited("mixtral_a", {});
  edited.edit_manifest([](Json& m) { swap_files(m, "L00.moe", "L01.moe"); });
  expect_found(edited.check(),
               {"error[coverage.foreign_expert]", "shard L00.moe",
                "layer 0: the weights of expert 0 of layer 1 replace those of expert 0"});
}

TEST(EditedFiles, FindsOneFileForTwoGroups) {
  const EditedExport edited("mixtral_a", kGroups);
  for (const char* extension : {".t1.onnx", ".data"})
    std::filesystem::copy_file(edited.path(std::string("moe/L00.g0") + extension),
                               edited.path(std::string("moe/L00.g1") + extension),
                               std::filesystem::copy_options::overwrite_existing);
  edited.bring_manifest_in_line();
  expect_found(edited.check({"--no-digests"}),
               {"error[coverage.duplicate_expert]", "shard L00.moe.g1",
                "expert 0 of layer 0 is also in shard L00.moe.g0", "error[coverage.missing_expert]",
                "layer 0: expert 2 has 0 of its 3 weights"});
}

// The manifest lists the contents of shards per expert.
TEST(EditedManifest, FindsALostExpert) {
  const EditedExport edited("mixtral_a", {});
  edited.edit_manifest([](Json& m) {
    Json& weights = shard_named(m, "L00.moe")["weights"];
    std::erase_if(weights.get_ref<Json::array_t&>(), [](const Json& record) {
      return record["role"] == "expert" && record["first_expert"] == 2;
    });
  });
  const Outcome outcome = edited.check();
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("error[manifest.weights]"),
                    HasSubstr("shard L00.moe: found weights of 4 experts, expected 5")));
}

TEST(EditedManifest, FindsALostGroup) {
  const EditedExport edited("mixtral_a", kGroups);
  edited.edit_manifest([](Json& m) {
    auto drop = [](Json& list, const char* key) {
      std::erase_if(list.get_ref<Json::array_t&>(),
                    [&](const Json& entry) { return entry[key] == "L00.moe.g1"; });
    };
    drop(m["shards"], "name");
    drop(m["schedule"], "shard");
  });
  const Outcome outcome = edited.check();
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("experts of layer 0: a gap: covered up to 2"));
}

}  // namespace
}  // namespace moec
