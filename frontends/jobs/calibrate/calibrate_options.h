// Options of `moec calibrate`, for programs without a command line.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/reference/products.h"
#include "frontends/sources/family_options.h"
#include "ir/base/share.h"

namespace moec {

// The code of the error that ends a calibration when CalibrateOptions::stop returns true.
inline constexpr const char* kCalibrateInterrupted = "calibrate.interrupted";

struct CalibrateOptions {
  std::string source;  // checkpoint folder
  FamilyOptions family;
  std::vector<std::string> texts;  // files
  std::string tokens_file;         // or a file of token ids, separated by spaces, lines or commas
  std::string folder;              // output folder of the statistics
  int64_t window = 256;            // tokens per window; attention does not cross windows
  // Maximum memory for the weights of a part of a layer, in f32, and the sums of its inputs. Larger
  // layers run in groups of experts, at least one expert at a time. The sums of one input use at
  // most a quarter of this memory (sum_bytes()), but at least blocks of 64. Wider inputs (by
  // default, wider than 8,192) are summed in diagonal blocks.
  uint64_t group_bytes = uint64_t{1} << 30;
  // Also measure each layer's sensitivity to errors of its experts (measure_sensitivity.h). If
  // true, the folder may contain a finished calibration of the same checkpoint, text and window.
  bool sensitivity = false;
  // part: only these layers (layer_shares.h), in the folder of the share below `folder`
  // (backends/output/part_folders.h). join: complete the calibration in `folder` with the layers of
  // parts; missing and damaged ones are calibrated.
  std::optional<JobShare> part;
  bool join = false;
  // Kernels that run the checkpoint; null: the sums of the reference executor. The moments of both
  // differ by rounding only, because the orders of their sums differ.
  std::shared_ptr<const Products> products;
  // Each callback may be empty. `stop` returns true to interrupt the run. `progress` receives the
  // bytes of hidden states that passed through a part of a layer since its previous call, the total
  // over all parts, and the name of the part.
  std::function<bool()> stop;
  // Receives the maximum size of the statistics before the first layer runs.
  std::function<void(uint64_t bytes)> start;
  std::function<void(uint64_t bytes, uint64_t total, const std::string& part)> progress;
};

}  // namespace moec
