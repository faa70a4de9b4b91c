// What codes of few bits cost a model, as `moec calibrate --sensitivity` measures it for the
// tensors of experts. STATS/sensitivity.json holds it beside the calibration that it was measured
// with, and STATS/sensitivity2.bin, while it is unfinished, the values of all runs behind the
// second layer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/weights/calibration/run_state.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kSensitivityFile = "sensitivity.json";

// Bits whose errors are measured, with tables that 16 rows share, and those whose effect on the
// model's predictions is.
inline constexpr std::array<int64_t, 4> kMeasuredBits = {2, 3, 4, 6};
inline constexpr int64_t kNoiseBits = 3;

struct TensorErrors {
  std::string role;     // of a WeightRequest
  int64_t expert = -1;  // −1: the tensor holds all of them
  int64_t elements = 0;
  // Squared error of the outputs with calibrated codes of kMeasuredBits, summed over the tokens of
  // the calibration that reach the tensor.
  std::array<double, kMeasuredBits.size()> errors = {};
  bool operator==(const TensorErrors&) const = default;
};

struct RoleSensitivity {
  std::string role;
  // Nats per token, while all tensors of the role have calibrated codes of kNoiseBits.
  double kl = 0;
  bool operator==(const RoleSensitivity&) const = default;
};

struct LayerSensitivity {
  int64_t layer = -1;
  std::vector<RoleSensitivity> roles;
  std::vector<TensorErrors> tensors;
  bool operator==(const LayerSensitivity&) const = default;
};

struct Sensitivity {
  std::string calibration;  // digest of the index of the calibration
  int64_t tokens = 0;       // that the predictions were compared for
  std::vector<LayerSensitivity> layers;
  // Of an unfinished measurement, whose roles have no divergences yet: where it goes on.
  std::optional<RunState> state;
  bool operator==(const Sensitivity&) const = default;
};

// The divergence of the predictions that is to be expected of calibrated codes of a tensor of the
// layer: that of the role with kNoiseBits, times the error of the tensor as a part of all errors of
// the role then. The error of 8 bits is taken as a 16th of that of 6, and of bits in between as
// that of the next fewer ones.
double expected_kl(const LayerSensitivity& layer, const TensorErrors& tensor, int64_t bits);

std::string sensitivity_text(const Sensitivity& sensitivity);

// Reads that of a folder of a finished calibration. Errors: calibrate.no_sensitivity where there is
// none or its measurement is unfinished, calibrate.malformed, calibrate.damaged where it is of
// another calibration.
Result<Sensitivity> read_sensitivity(const std::string& folder);
// The same of a measurement that may be unfinished; nothing where there is none.
Result<std::optional<Sensitivity>> read_any_sensitivity(const std::string& folder);
// Whether the folder has a finished one. Error calibrate.malformed.
Result<bool> has_finished_sensitivity(const std::string& folder);

}  // namespace moec
