// Helpers for tests of the Core ML backend and its reader.
#pragma once

#include <gtest/gtest.h>
#include <mlmodel.pb.h>

#include <algorithm>
#include <iterator>

#include "backends/formats/coreml/emit_coreml.h"
#include "tests/backends/formats/onnx/testing.h"
#include "tests/files.h"

namespace moec {

// Lists all files under the folder as sorted relative paths.
inline std::vector<std::string> files_under(const TestFolder& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder.string()))
    if (entry.is_regular_file())
      names.push_back(fs::relative(entry.path(), folder.string()).string());
  std::sort(names.begin(), names.end());
  return names;
}

inline Result<EmitReport> emit_package(const std::vector<ShardWidth>& widths,
                                       const TestFolder& folder, const CoremlOptions& coreml = {},
                                       const std::string& stem = "shard") {
  return emit_coreml(widths, no_files(), {.folder = folder.string(), .stem = stem}, coreml);
}

inline Result<EmitReport> emit_package(const Shard& shard, const TestFolder& folder,
                                       const CoremlOptions& coreml = {}) {
  return emit_package({{1, &shard}}, folder, coreml);
}

inline mlmodel::Model load_mlmodel(const std::string& package) {
  mlmodel::Model model;
  EXPECT_TRUE(model.ParseFromString(read_file(package + "/Data/com.apple.CoreML/model.mlmodel")))
      << package;
  return model;
}

inline const mlmodel::Function& function_of(const mlmodel::Model& model,
                                            const std::string& name = "main") {
  return model.mlprogram().functions().at(name);
}

inline const mlmodel::Block& block_of(const mlmodel::Model& model,
                                      const std::string& name = "main") {
  const mlmodel::Function& function = function_of(model, name);
  return function.block_specializations().at(function.opset());
}

// A decode or prefill step with both caches as states, updated through a write mask.
inline Shard stateful_shard(int64_t tokens, int states = 2, DType dtype = DType::f16) {
  Builder b("L00.attn", Form::placed);
  const Type cache{dtype, {1, 2, 8, 4}};
  const ValueId x = b.input("x", token_type(dtype, Layout::channels, 6, tokens));
  const ValueId keep = b.input("kv_write_mask", {dtype, {1, 1, 8, 1}});
  const std::vector<std::string> names = {"k_state", "v_state", "z_state"};
  for (int i = 0; i < states; ++i) b.state(names[static_cast<size_t>(i)], cache);
  ValueId sum = x;
  for (int i = 0; i < states; ++i) {
    const std::string& name = names[static_cast<size_t>(i)];
    const ValueId old = b.emit(StateRead{name}, {}, "old." + name);
    const ValueId next = b.mul(old, keep, "new." + name);
    b.emit_all(StateWrite{name}, {next});
    const ValueId total = b.reduce(ReduceFn::sum, b.reduce(ReduceFn::sum, next, 2), 3);
    sum = b.add(sum, b.reduce(ReduceFn::sum, total, 1));
  }
  b.output("hidden", sum);
  return b.finish();
}

// Two weights; two ops use the first one.
inline Shard gate_shard(int64_t tokens, DType dtype = DType::f16) {
  Builder b("L02.mlp", Form::placed);
  ValueId y = b.input("x", token_type(dtype, Layout::channels, 3, tokens));
  const Type kernel{dtype, {3, 3, 1, 1}};
  const WeightView seeded = then(seeded_view(1, {DType::f32, kernel.dims}), CastStep{dtype});
  y = b.emit(Conv{}, {y, b.weight(seeded, "experts.0.gate.weight")}, "experts.0.gate");
  y = b.emit(Conv{}, {y, b.weight(splat_view(0.5, kernel), "experts.1.gate.weight")},
             "experts.1.gate");
  b.output("moe_out", b.emit(Conv{}, {y, b.weight(seeded, "experts.2.gate.weight")}));
  return b.finish();
}

}  // namespace moec
