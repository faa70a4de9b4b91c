// What `moec calibrate` is asked to do, as a program without a command line would say it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontends/sources/family_options.h"

namespace moec {

// The code of the error that ends a calibration when CalibrateOptions::stop returns true.
inline constexpr const char* kCalibrateInterrupted = "calibrate.interrupted";

struct CalibrateOptions {
  std::string source;  // checkpoint folder
  FamilyOptions family;
  std::vector<std::string> texts;  // files
  std::string tokens_file;         // or token ids, separated by spaces, lines or commas
  std::string folder;              // of the statistics
  int64_t window = 256;            // tokens that attend to one another
  // How much memory the weights of a part of a layer and what is summed of its inputs may take;
  // layers beyond it run in groups of experts. At least one expert runs at a time, with its weights
  // in f32. The sums of one input take at most a quarter of these bytes (sum_bytes()), or those of
  // blocks of 64: inputs beyond that, 8,192 of the default, are summed in diagonal blocks.
  uint64_t group_bytes = uint64_t{1} << 30;
  // Whether to measure how much each layer's experts matter (measure_sensitivity.h); also for a
  // folder that holds the finished calibration of the same checkpoint, text and window.
  bool sensitivity = false;
  // Each may be empty. `progress` is told of the bytes of hidden states that went through a part of
  // a layer, of those of all parts, and of the part.
  std::function<bool()> stop;
  std::function<void(uint64_t bytes, uint64_t total, const std::string& part)> progress;
};

}  // namespace moec
