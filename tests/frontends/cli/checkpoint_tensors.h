// Edits the tensors of checkpoints and compares the exports of two checkpoints.
#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <random>

#include "frontends/sources/hf/config.h"
#include "ir/graph/scalar.h"
#include "models/shards/needed_tensors.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {

struct DiskTensor {
  std::string dtype;  // spelled as in the file, for example "BF16"
  std::vector<int64_t> shape;
  std::string bytes;
};
using DiskTensors = std::map<std::string, DiskTensor>;

inline DiskTensors read_tensors(const CheckpointCopy& copy) {
  const std::string file = copy.read("model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const CheckpointCopy::Json header = CheckpointCopy::Json::parse(file.substr(8, length));
  DiskTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = {entry["dtype"], entry["shape"], file.substr(8 + length + begin, end - begin)};
  }
  return tensors;
}

inline void write_tensors(const std::string& folder, const DiskTensors& tensors) {
  CheckpointCopy::Json header = CheckpointCopy::Json::object();
  std::string payload;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = payload.size();
    payload += tensor.bytes;
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, payload.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  std::ofstream(folder + "/model.safetensors", std::ios::binary) << bytes + text + payload;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Returns small random bf16 values for all tensors that the config needs.
inline DiskTensors random_tensors(const std::string& config_text, const Family* family = nullptr) {
  std::mt19937 random(11);
  const auto config = read_config(config_text, "config.json", family);
  if (!config) {
    ADD_FAILURE() << render(config.error());
    return {};
  }
  DiskTensors tensors;
  for (const NeededTensor& needed : needed_tensors(config->model)) {
    std::vector<uint16_t> values(static_cast<size_t>(*checked_elements(needed.dims)));
    for (uint16_t& value : values)
      value = bf16_from_f32((static_cast<float>(random() % 2001) - 1000) / 20000);
    tensors[needed.name] = {"BF16", needed.dims, bytes_of(values)};
  }
  return tensors;
}

// Returns the folder of a golden's checkpoint with another config and random tensors.
inline std::string random_checkpoint(const std::string& golden_case,
                                     const std::function<void(CheckpointCopy::Json&)>& edit) {
  const CheckpointCopy copy(golden_case, golden_case + ".random");
  copy.edit_config(edit);
  write_tensors(copy.folder(), random_tensors(copy.read("config.json")));
  return copy.folder();
}

// tinymoe with 2 layers of 4 experts, for measurements that take time per expert.
inline std::string fewer_experts() {
  return random_checkpoint("tinymoe", [](CheckpointCopy::Json& config) {
    config["num_hidden_layers"] = 2;
    config["num_local_experts"] = 4;
  });
}

// A tensor in its encoded form, and its decoded values.
struct CodedTensor {
  // Keyed by the suffix after the tensor's name, or by the last component that replaces "weight",
  // with its dot.
  DiskTensors parts;
  DiskTensor decoded;
};

inline std::string part_name(const std::string& name, const std::string& suffix) {
  return suffix.starts_with('.') ? name.substr(0, name.rfind('.')) + suffix : name + suffix;
}
using CodeTensor =
    std::function<std::optional<CodedTensor>(const std::string& name, const DiskTensor& tensor)>;

// Writes the same checkpoint twice: `coded` contains the encoded parts of each tensor that `code`
// encodes, `decoded` the decoded values.
inline void write_coded_and_decoded(const CheckpointCopy& coded, const CheckpointCopy& decoded,
                                    const DiskTensors& tensors, const CodeTensor& code) {
  DiskTensors with_codes = tensors, with_values = tensors;
  for (const auto& [name, tensor] : tensors) {
    const std::optional<CodedTensor> found = code(name, tensor);
    if (!found) continue;
    with_codes.erase(name);
    for (const auto& [suffix, part] : found->parts) with_codes[part_name(name, suffix)] = part;
    with_values[name] = found->decoded;
  }
  write_tensors(coded.folder(), with_codes);
  write_tensors(decoded.folder(), with_values);
}

// Returns shards and tables, without the manifest and the report, which describe the checkpoint and
// therefore differ.
inline std::map<std::string, std::string> payload_of(const std::string& folder) {
  std::map<std::string, std::string> files = all_bytes(folder);
  std::erase_if(files, [](const auto& file) { return file.first.ends_with(".json"); });
  files.erase("manifest.bin");
  return files;
}

inline std::vector<Variant> forms_of_exports() {
  return {{"conv", {}},
          {"matmul", {"--form", "matmul"}},
          {"bank", {"--experts", "bank"}},
          {"slices", {"--max-shard-mb", "moe=0.008,mlp=0.008"}},
          {"coreml", {"--target", "ane"}}};
}

// Expects equal shards from two checkpoints with equal values.
inline void expect_equal_exports(const CheckpointCopy& coded, const CheckpointCopy& decoded,
                                 const Words& flags) {
  std::map<std::string, std::string> files[2];
  for (const CheckpointCopy* copy : {&coded, &decoded}) {
    const std::string out = fresh_folder(copy == &coded ? "out_coded" : "out_decoded");
    Words words = {"export", copy->folder(), "--out", out, "--quiet", "--tokens", "1,8"};
    words.insert(words.end(), flags.begin(), flags.end());
    expect_fine(run_command(words));
    expect_fine(run_command({"check", out}));
    files[copy == &coded ? 0 : 1] = payload_of(out);
  }
  EXPECT_GT(files[0].size(), 7u);
  EXPECT_EQ(files[0], files[1]);
}

}  // namespace moec
