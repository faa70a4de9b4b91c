// Cost of low-bit quantization of the experts' tensors, measured by `moec calibrate --sensitivity`.
// STATS/sensitivity.json lies next to its calibration. While the measurement is unfinished,
// STATS/sensitivity2.bin has the values of all runs after the second layer.
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

// kMeasuredBits: bit widths whose errors are measured, with tables shared by 16 rows. kNoiseBits:
// the width whose effect on the model's predictions is measured.
inline constexpr std::array<int64_t, 4> kMeasuredBits = {2, 3, 4, 6};
inline constexpr int64_t kNoiseBits = 3;

struct TensorErrors {
  std::string role;     // of a WeightRequest
  int64_t expert = -1;  // −1: the tensor contains all experts
  int64_t elements = 0;
  // Squared output error per width of kMeasuredBits with calibrated codes, summed over the
  // calibration tokens that reach the tensor.
  std::array<double, kMeasuredBits.size()> errors = {};
  bool operator==(const TensorErrors&) const = default;
};

struct RoleSensitivity {
  std::string role;
  // KL divergence in nats per token with calibrated codes of kNoiseBits for all tensors of the
  // role.
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
  int64_t tokens = 0;       // number of tokens whose predictions were compared
  std::vector<LayerSensitivity> layers;
  // Resume point of an unfinished measurement, which has no divergences of roles yet.
  std::optional<RunState> state;
  bool operator==(const Sensitivity&) const = default;
};

// Returns the expected divergence for calibrated codes of a tensor of the layer: that of the role
// at kNoiseBits, times the tensor's error relative to all errors of the role at kNoiseBits. Assumes
// that 8 bits have a 16th of the error of 6 bits; other unmeasured widths use the next smaller
// measured one.
double expected_kl(const LayerSensitivity& layer, const TensorErrors& tensor, int64_t bits);

std::string sensitivity_text(const Sensitivity& sensitivity);

// Reads the sensitivities in the folder of a finished calibration. Errors: calibrate.no_sensitivity
// (absent or unfinished), calibrate.malformed, calibrate.damaged (measured with another
// calibration).
Result<Sensitivity> read_sensitivity(const std::string& folder);
// As read_sensitivity(), but also returns unfinished measurements; absent if there is none.
Result<std::optional<Sensitivity>> read_any_sensitivity(const std::string& folder);
// Returns true if the folder has a finished measurement. Error: calibrate.malformed.
Result<bool> has_finished_sensitivity(const std::string& folder);

}  // namespace moec
