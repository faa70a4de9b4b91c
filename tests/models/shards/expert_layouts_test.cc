// Tests that fused and separately stored experts yield exactly equal weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "backends/formats/safetensors/safetensors.h"
#include "backends/weights/views/equal_tensors.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/sources/hf/checkpoint.h"
#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"
#include "tests/files.h"
#include "tests/frontends/sources/hf/folder.h"

namespace moec {
namespace {

// Writes a safetensors file of F16 tensors.
class FileBuilder {
 public:
  void add(const std::string& name, const Dims& dims, const std::string& bytes) {
    std::string shape;
    for (int64_t size : dims) shape += fmt::format("{}{}", shape.empty() ? "" : ",", size);
    header_ += fmt::format(R"({}"{}":{{"dtype":"F16","shape":[{}],"data_offsets":[{},{}]}})",
                           header_.empty() ? "" : ",", name, shape, payload_.size(),
                           payload_.size() + bytes.size());
    payload_ += bytes;
  }
  std::string bytes() const { return safetensors_bytes("{" + header_ + "}", 0) + payload_; }

 private:
  std::string header_, payload_;
};

// Splits `mlp.experts.gate_up_proj` [E, 2f, d] and `down_proj` [E, d, f] into Mixtral's names.
void split_experts(FileBuilder& to, const SafetensorsEntry& entry, const std::string& bytes) {
  const auto experts = static_cast<size_t>(entry.shape[0]);
  const int64_t rows = entry.shape[1], columns = entry.shape[2];
  const size_t each = bytes.size() / experts;
  size_t dot = entry.name.find(".mlp.experts.");
  std::string layer = entry.name.substr(0, dot);
  bool down = entry.name.find("down_proj") != std::string::npos;
  for (size_t e = 0; e < experts; ++e) {
    std::string one = bytes.substr(e * each, each);
    std::string stem = fmt::format("{}.block_sparse_moe.experts.{}.", layer, e);
    if (down) {
      to.add(stem + "w2.weight", {rows, columns}, one);
    } else {
      to.add(stem + "w1.weight", {rows / 2, columns}, one.substr(0, each / 2));
      to.add(stem + "w3.weight", {rows / 2, columns}, one.substr(each / 2));
    }
  }
}

std::string write_one_by_one() {
  std::string folder = copy_golden("mixtral_b", "one_by_one");
  std::string path = folder + "/model.safetensors";
  auto header = read_safetensors(path);
  EXPECT_TRUE(header.has_value());
  std::string file = read_file(path);
  FileBuilder to;
  for (const SafetensorsEntry& entry : header->tensors) {
    std::string bytes = file.substr(entry.begin, entry.end - entry.begin);
    if (entry.name.find(".experts.") != std::string::npos)
      split_experts(to, entry, bytes);
    else
      to.add(entry.name, entry.shape, bytes);
  }
  write_file(path, to.bytes());
  return folder;
}

// Maps names like "L00.moe/experts.3.gate.weight" to values.
std::map<std::string, std::vector<float>> all_weights(const std::string& folder, bool fused) {
  std::map<std::string, std::vector<float>> all;
  auto checkpoint = open_checkpoint(folder, equal_tensors);
  EXPECT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  EXPECT_EQ(checkpoint->config.names.has("experts_gate_up"), fused);
  BuildOptions options;
  options.context = 8;
  auto plan = plan_model(checkpoint->config, checkpoint->weights, options);
  EXPECT_TRUE(plan.has_value()) << render(plan.error());
  auto reader = WeightReader::open(plan->weights);
  EXPECT_TRUE(reader.has_value());
  for (size_t i = 0; i < plan->shards.size(); ++i) {
    Shard shard = build_shard(*plan, i, 1).value();
    for (const Op& op : shard.ops)
      if (const auto* weight = std::get_if<Weight>(&op.data))
        all[shard.name + "/" + shard.label(op.results[0])] =
            reader->read_f32(weight->view, 1 << 24).value();
  }
  return all;
}

TEST(ExpertLayouts, MatchBetweenFusedAndSeparateExperts) {
  auto fused = all_weights(golden_folder("mixtral_b"), true);
  auto one_by_one = all_weights(write_one_by_one(), false);
  EXPECT_EQ(fused.size(), one_by_one.size());
  EXPECT_EQ(fused.count("L01.moe/experts.5.down.weight"), 1u);
  for (const auto& [name, values] : fused) EXPECT_EQ(one_by_one[name], values) << name;
  EXPECT_NE(fused["L00.moe/experts.0.gate.weight"], fused["L00.moe/experts.0.up.weight"]);
}

}  // namespace
}  // namespace moec
