// Experts built from several dense models, and from low-rank adapters of one model.
#include <gmock/gmock.h>

#include "tests/frontends/jobs/upcycle/upcycle_cases.h"

namespace moec {
namespace {

using testing::HasSubstr;
using Json = CheckpointCopy::Json;

constexpr int64_t kHidden = 48, kWidth = 40;  // of mistral_a
const char* const kUp = "model.layers.0.mlp.up_proj";

// Reads the tensors of an upcycled mistral_a.
DiskTensors tensors_in(const std::string& folder) {
  const CheckpointCopy copy("mistral_a", "read");
  copy.write("model.safetensors", read_file(folder + "/model.safetensors"));
  return read_tensors(copy);
}

std::vector<float> bf16_values(const DiskTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2);
    values[i] = f32_from_bf16(bits);
  }
  return values;
}

std::string expert_name(int layer, int expert, const char* matrix) {
  return "model.layers." + std::to_string(layer) + ".block_sparse_moe.experts." +
         std::to_string(expert) + "." + matrix + ".weight";
}

// ---- Several models ----------------------------------------------------------------------------

// A model with the same shapes and different weights.
CheckpointCopy another_model(const std::string& name) {
  CheckpointCopy copy("mistral_a", name);
  write_tensors(copy.folder(), random_tensors(copy.read("config.json")));
  return copy;
}

TEST(SeveralModels, ContributeFeedForwardPartsInTurn) {
  const CheckpointCopy other = another_model("other");
  const std::string base = checkpoint_of("mistral_a");
  const Upcycled made = upcycle(base, {"--expert", base, "--expert", other.folder(), "--experts",
                                       "4", "--verify", "--max-error", "1000"});
  ASSERT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  EXPECT_EQ(made.kind(), "inexact");
  const DiskTensors tensors = tensors_in(made.folder),
                    from_base = read_tensors(CheckpointCopy("mistral_a", "base")),
                    from_other = read_tensors(other);
  for (int expert = 0; expert < 4; ++expert)
    EXPECT_EQ(tensors.at(expert_name(0, expert, "w3")).bytes,
              (expert % 2 == 0 ? from_base : from_other).at(std::string(kUp) + ".weight").bytes);
  const std::string query = "model.layers.1.self_attn.q_proj.weight";
  EXPECT_EQ(tensors.at(query).bytes, from_base.at(query).bytes);
}

TEST(SeveralModels, WarnAboutDifferencesOutsideFeedForward) {
  const CheckpointCopy other = another_model("other");
  const std::string base = checkpoint_of("mistral_a");
  const auto warning_of = [&](const std::string& folder) {
    const Upcycled made = upcycle(base, {"--expert", folder});
    for (const auto& found : made.report["diagnostics"])
      if (found["code"] == "upcycle.other_weights") return found["cause"].get<std::string>();
    return std::string();
  };
  EXPECT_THAT(warning_of(other.folder()), HasSubstr("differ from the dense model's by"));
  EXPECT_EQ(warning_of(base), "");
}

TEST(SeveralModels, RejectOtherShapes) {
  const auto refused = [](const std::string& expert, const Words& more = {}) {
    Words flags = {"--expert", checkpoint_of("mistral_a"), "--expert", expert};
    flags.insert(flags.end(), more.begin(), more.end());
    const Upcycled made = upcycle(checkpoint_of("mistral_a"), flags);
    EXPECT_EQ(made.outcome.exit_code, 2);
    return made.code();
  };
  EXPECT_EQ(refused(checkpoint_of("llama_c")), "upcycle.shape");    // other width
  EXPECT_EQ(refused(checkpoint_of("mistral_b")), "upcycle.shape");  // other hidden size
  EXPECT_EQ(refused(checkpoint_of("mixtral_a")), "upcycle.shape");  // experts
  EXPECT_EQ(refused(checkpoint_of("mistral_a"), {"--experts", "3"}), "upcycle.experts");
  EXPECT_EQ(refused("/nowhere"), "hf.no_folder");
}

// ---- Adapters ----------------------------------------------------------------------------------

// An adapter of rank 2 for gate and up of both layers, in PEFT's format.
class AdapterFolder {
 public:
  explicit AdapterFolder(const std::string& name = "adapter") : folder_(fresh_folder(name)) {
    for (int layer = 0; layer < 2; ++layer)
      for (const char* matrix : {"gate_proj", "up_proj"})
        add("model.layers." + std::to_string(layer) + ".mlp." + matrix, kWidth, kHidden);
    write();
  }

  const std::string& folder() const { return folder_; }

  void add(const std::string& matrix, int64_t outputs, int64_t inputs) {
    tensors_[tensor_name(matrix, "B")] = random(outputs, 2);
    tensors_[tensor_name(matrix, "A")] = random(2, inputs);
  }
  DiskTensors& tensors() { return tensors_; }
  Json& config() { return config_; }
  void write() const {
    write_tensors(folder_, tensors_);
    std::filesystem::rename(folder_ + "/model.safetensors", folder_ + "/adapter_model.safetensors");
    write_file(folder_ + "/adapter_config.json", config_.dump());
  }

  std::vector<float> matrix(const std::string& name, const char* which) const {
    const DiskTensor& tensor = tensors_.at(tensor_name(name, which));
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }

  static std::string tensor_name(const std::string& matrix, const std::string& which) {
    return "base_model.model." + matrix + ".lora_" + which + ".weight";
  }

 private:
  DiskTensor random(int64_t rows, int64_t columns) {
    std::vector<float> values(static_cast<size_t>(rows * columns));
    for (float& value : values) value = static_cast<float>(random_() % 2001) / 4000 - 0.25F;
    return {"F32", {rows, columns}, bytes_of(values)};
  }

  std::string folder_;
  std::mt19937 random_{3};
  DiskTensors tensors_;
  Json config_ = {{"peft_type", "LORA"},
                  {"r", 2},
                  {"lora_alpha", 6},
                  {"bias", "none"},
                  {"use_dora", false},
                  {"use_rslora", false},
                  {"target_modules", {"gate_proj", "up_proj"}}};
};

// base + factor · B · A.
std::vector<float> merged_up(const AdapterFolder& adapter, double factor) {
  std::vector<float> values = bf16_values(
      read_tensors(CheckpointCopy("mistral_a", "base")).at(std::string(kUp) + ".weight"));
  const std::vector<float> b = adapter.matrix(kUp, "B"), a = adapter.matrix(kUp, "A");
  for (size_t row = 0; row < kWidth; ++row)
    for (size_t column = 0; column < kHidden; ++column)
      for (size_t r = 0; r < 2; ++r)
        values[row * kHidden + column] += static_cast<float>(
            factor * static_cast<double>(b[row * 2 + r] * a[r * kHidden + column]));
  return values;
}

void expect_near(const std::vector<float>& values, const std::vector<float>& wanted,
                 double tolerance) {
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], wanted[i], tolerance) << i;
}

TEST(Adapters, AddScaledProductsToTheBase) {
  const AdapterFolder adapter;
  const Upcycled made = upcycle(checkpoint_of("mistral_a"),
                                {"--adapter", adapter.folder(), "--experts", "2", "--top-k", "1"});
  ASSERT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  const DiskTensors tensors = tensors_in(made.folder);
  expect_near(bf16_values(tensors.at(expert_name(0, 1, "w3"))), merged_up(adapter, 3), 0.01);
  const DiskTensors base = read_tensors(CheckpointCopy("mistral_a", "base"));
  EXPECT_EQ(tensors.at(expert_name(0, 1, "w2")).bytes,
            base.at("model.layers.0.mlp.down_proj.weight").bytes);
}

TEST(Adapters, UseTheRankStabilisedScale) {
  AdapterFolder adapter;
  adapter.config()["use_rslora"] = true;
  adapter.write();
  const Upcycled made = upcycle(checkpoint_of("mistral_a"), {"--adapter", adapter.folder()});
  ASSERT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  expect_near(bf16_values(tensors_in(made.folder).at(expert_name(0, 0, "w3"))),
              merged_up(adapter, 6 / std::sqrt(2.0)), 0.02);
}

// The two shards of an expert are the halves of the merged matrix.
TEST(Adapters, AreSplitWithTheirMatrices) {
  const AdapterFolder adapter;
  const Upcycled made = upcycle(
      checkpoint_of("mistral_a"),
      {"--adapter", adapter.folder(), "--experts", "4", "--granularity", "2", "--top-k", "2"});
  ASSERT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  const DiskTensors tensors = tensors_in(made.folder);
  const std::vector<float> wanted = merged_up(adapter, 3);
  const auto half = static_cast<std::ptrdiff_t>(wanted.size() / 2);
  expect_near(bf16_values(tensors.at(expert_name(0, 0, "w3"))),
              {wanted.begin(), wanted.begin() + half}, 0.01);
  expect_near(bf16_values(tensors.at(expert_name(0, 1, "w3"))),
              {wanted.begin() + half, wanted.end()}, 0.01);
}

TEST(Adapters, RejectUnsupportedKinds) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"peft_type", "IA3"},
                                                 {"use_dora", true},
                                                 {"bias", "all"},
                                                 {"fan_in_fan_out", true},
                                                 {"modules_to_save", {"lm_head"}},
                                                 {"rank_pattern", {{"up_proj", 4}}},
                                                 {"alpha_pattern", {{"up_proj", 4}}}}) {
    AdapterFolder adapter;
    adapter.config()[key] = value;
    adapter.write();
    const Upcycled made = upcycle(checkpoint_of("mistral_a"), {"--adapter", adapter.folder()});
    EXPECT_EQ(made.code(), "upcycle.adapter.kind") << key << made.outcome.out;
  }
}

TEST(Adapters, RejectAndNameAttentionMatrices) {
  AdapterFolder adapter;
  adapter.add("model.layers.0.self_attn.q_proj", kHidden, kHidden);
  adapter.write();
  const Upcycled made = upcycle(checkpoint_of("mistral_a"), {"--adapter", adapter.folder()});
  EXPECT_EQ(made.code(), "upcycle.adapter.target");
  EXPECT_EQ(made.report["diagnostics"][0]["place"]["tensor"],
            "model.layers.0.self_attn.q_proj.weight");
}

TEST(Adapters, RejectLayersWithoutExperts) {
  const CheckpointCopy dense("qwen3_a", "dense");
  AdapterFolder adapter;
  const Upcycled made = upcycle(dense.folder(), {"--adapter", adapter.folder(), "--layers", "1"});
  EXPECT_EQ(made.code(), "upcycle.adapter.target") << made.outcome.out;
}

TEST(Adapters, RejectInvalidFiles) {
  const auto code_of = [](const std::function<void(AdapterFolder&)>& edit) {
    AdapterFolder adapter;
    edit(adapter);
    adapter.write();
    return upcycle(checkpoint_of("mistral_a"), {"--adapter", adapter.folder()}).code();
  };
  const std::string a = AdapterFolder::tensor_name(kUp, "A");
  EXPECT_EQ(code_of([&](auto& adapter) { adapter.tensors().erase(a); }), "upcycle.adapter.tensor");
  EXPECT_EQ(code_of([](auto& adapter) {
              adapter.tensors()["else"] = {"F32", {1}, "abcd"};
            }),
            "upcycle.adapter.tensor");
  EXPECT_EQ(code_of([](auto& adapter) { adapter.tensors().clear(); }), "upcycle.adapter.tensor");
  EXPECT_EQ(code_of([](auto& adapter) { adapter.config()["r"] = 3; }), "upcycle.adapter.shape");
  EXPECT_EQ(code_of([](auto& adapter) { adapter.config()["r"] = 0; }), "upcycle.adapter.config");
  EXPECT_EQ(code_of([](auto& adapter) { adapter.config().erase("lora_alpha"); }),
            "upcycle.adapter.config");
  EXPECT_EQ(code_of([](auto& adapter) { adapter.add(kUp, kWidth, kHidden + 1); }),
            "upcycle.adapter.target");
}

}  // namespace
}  // namespace moec
