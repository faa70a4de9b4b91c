// Runs moec upcycle on the dense checkpoints of the tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/frontends/cli/checkpoint_tensors.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {

// Returns a nonexistent path below the running test's folder.
inline std::string no_upcycled(const std::string& name) {
  const std::string folder = fresh_folder(name);
  std::filesystem::remove(folder);
  return folder;
}

struct Upcycled {
  Outcome outcome;
  nlohmann::json report;
  std::string folder;

  std::string kind() const { return report.at("exactness").at("class"); }
  double error() const { return report.at("comparison").at("max_relative_error"); }
  // Returns the code of the first error, or "" if there is none.
  std::string code() const {
    for (const auto& found : report.at("diagnostics"))
      if (found.at("severity") == "error") return found.at("code");
    return {};
  }
};

// Upcycles the checkpoint in the folder `source`.
inline Upcycled upcycle(const std::string& source, const Words& flags,
                        const std::string& name = "out") {
  const std::string folder = no_upcycled(name);
  Words words = {"upcycle", source, "--out", folder, "--json"};
  words.insert(words.end(), flags.begin(), flags.end());
  Upcycled result{run_command(words), {}, folder};
  result.report = nlohmann::json::parse(result.outcome.out);
  return result;
}

// The nemotron_h golden case with dense layers: squared-ReLU MLPs without a gate.
inline std::string dense_nemotron() {
  return random_checkpoint("nemotron_h_a", [](CheckpointCopy::Json& config) {
    for (auto& kind : config["layers_block_type"])
      if (kind == "moe") kind = "mlp";
  });
}

// The deepseek_v3 golden case with only dense layers and latent attention.
inline std::string dense_deepseek() {
  return random_checkpoint("deepseek_v3_a", [](CheckpointCopy::Json& config) {
    config["first_k_dense_replace"] = config["num_hidden_layers"];
    config["intermediate_size"] = 48;
  });
}

}  // namespace moec
