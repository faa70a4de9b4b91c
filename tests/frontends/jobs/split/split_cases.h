// Splittable GGUF models of a few kilobytes, and helpers that read the results.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "backends/formats/gguf/gguf_layout.h"
#include "frontends/jobs/split/split_model.h"
#include "frontends/sources/gguf/gguf.h"
#include "tests/files.h"

namespace moec {

// Two MoE layers of eight experts after a dense layer; every byte encodes its tensor and position.
struct CutModel {
  std::string arch = "olmoe";
  uint32_t layers = 3, experts = 8, used = 2;
  std::vector<GgufEntry> more;  // keys without the prefix "ARCH."
  std::vector<GgufEntry> keys;  // keys with complete names
  std::string dropped;          // key to omit, without the prefix "ARCH."
  std::vector<GgufTensorInfo> tensors;

  CutModel() {
    add("token_embd.weight", {8, 32});
    add("blk.0.ffn_up.weight", {8, 32});
    for (int64_t layer = 1; layer < 3; ++layer) add_layer(layer);
    add("output_norm.weight", {32});
  }

  void add(std::string name, Dims dims, BlockType type = BlockType::f32) {
    tensors.push_back({std::move(name), type, std::move(dims)});
  }

  // Adds tensors of several types, including one that has the size of experts but is not one.
  void add_layer(int64_t layer) {
    const std::string start = "blk." + std::to_string(layer) + ".";
    add(start + "attn_norm.weight", {32});
    add(start + "ffn_gate_inp.weight", {8, 32});
    add(start + "ffn_gate_exps.weight", {8, 2, 32}, BlockType::q8_0);
    add(start + "ffn_up_exps.weight", {8, 1, 256}, BlockType::q4_k);
    add(start + "ffn_down_exps.weight", {8, 3, 5}, BlockType::f16);
    add(start + "ffn_down_exps.bias", {8, 3});
    add(start + "exp_probs_b.bias", {1, 8});
    add(start + "ffn_up_shexp.weight", {8, 32});
    add(start + "ffn_gate_inp_shexp.weight", {8});
  }

  GgufTensorInfo& tensor(const std::string& name) {
    for (GgufTensorInfo& tensor : tensors)
      if (tensor.name == name) return tensor;
    ADD_FAILURE() << name;
    return tensors.front();
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const auto& tensor) { return tensor.name == name; });
  }

  std::vector<GgufEntry> entries() const {
    std::vector<GgufEntry> entries = {
        {"general.architecture", arch},
        {arch + ".block_count", layers},
        {arch + ".context_length", uint32_t{64}},
        {arch + ".embedding_length", uint32_t{32}},
        {arch + ".feed_forward_length", uint32_t{16}},
        {arch + ".attention.head_count", uint32_t{2}},
        {arch + ".attention.layer_norm_rms_epsilon", 1e-5f},
        {arch + ".vocab_size", uint32_t{8}},
        {arch + ".expert_feed_forward_length", uint32_t{16}},
        {arch + ".rope.dimension_count", uint32_t{16}},
        {arch + ".expert_count", experts},
        {arch + ".expert_used_count", used},
        {"tokenizer.ggml.model", std::string("none")},
        {"tokenizer.ggml.tokens", std::vector<std::string>{"a", "", "longer"}},
    };
    for (const GgufEntry& entry : more) entries.push_back({arch + "." + entry.key, entry.value});
    entries.insert(entries.end(), keys.begin(), keys.end());
    std::erase_if(entries,
                  [&](const GgufEntry& entry) { return entry.key == arch + "." + dropped; });
    return entries;
  }

  static std::string payload_of(const GgufTensorInfo& tensor, uint64_t bytes) {
    std::string payload;
    const size_t start = std::hash<std::string>()(tensor.name);
    while (payload.size() < bytes)
      payload += static_cast<char>((start + payload.size() * 7 + payload.size() / 251) % 251);
    return payload;
  }

  // Writes the model to the running test's folder and returns its path.
  std::string write(const std::string& name = "model.gguf") const {
    const std::string folder = testing::TempDir() + "/moec_split/" + running_test();
    std::filesystem::create_directories(folder);
    const GgufLayout layout = plan_gguf(entries(), tensors).value();
    std::string bytes = layout.header;
    for (size_t i = 0; i < tensors.size(); ++i) {
      bytes.resize(layout.offsets[i]);
      bytes += payload_of(tensors[i], layout.bytes[i]);
    }
    bytes.resize(layout.file_bytes);
    write_file(folder + "/" + name, bytes);
    return folder + "/" + name;
  }
};

// Returns the path of an output folder that does not exist yet.
inline std::string no_folder(const std::string& name) {
  std::string folder = testing::TempDir() + "/moec_split_out/" + running_test() + "." + name;
  std::filesystem::remove_all(folder);
  return folder;
}

// Returns the code of the first error, or "" if there is none.
inline std::string code_of(const Result<SplitReport>& report) {
  return report ? "" : report.error().front().code;
}

inline std::string bytes_of(const Gguf& gguf, const std::string& name) {
  for (const GgufTensor& tensor : gguf.tensors)
    if (tensor.name == name)
      return read_file(gguf.files[tensor.file].path).substr(tensor.offset, tensor.bytes);
  ADD_FAILURE() << name;
  return {};
}

}  // namespace moec
