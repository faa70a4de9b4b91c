// `moec prepack`: writes the most used experts into one file, in the order in which a runtime loads
// them into its slots (backends/runtime/experts/prepacked_file.h).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backends/runtime/experts/write_prepacked.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct PrepackOptions {
  std::string exported;               // an exported folder
  std::vector<std::string> profiles;  // of the same model; selections are summed
  int64_t capacity = 0;               // experts per layer, at least 1
  int64_t pin_top_k = 0;              // pinned experts per layer
  std::string file;
  bool force = false;          // replace an existing file
  std::function<bool()> stop;  // PrepackChoice::stop
  // PrepackChoice::progress
  std::function<void(uint64_t bytes, uint64_t total, const std::string& file)> progress;
};

struct Prepacked {
  std::string file;
  int64_t layers = 0, capacity = 0;
  int64_t experts = 0, pinned = 0;  // numbers of experts in the file
  uint64_t bytes = 0;               // bytes of the experts in the file
};

// Errors: those of read_manifest(), read_expert_profile(), check_profile() and write_prepacked();
// output.in_source (the file would lie in the export).
Result<Prepacked> prepack_experts(const PrepackOptions& options);

std::string prepacked_text(const Prepacked& prepacked);
nlohmann::ordered_json prepacked_json(const Prepacked& prepacked);

}  // namespace moec
