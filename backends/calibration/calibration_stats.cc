#include "backends/calibration/calibration_stats.h"

#include <fmt/format.h>

#include <cstring>

#include "backends/files/digest.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// The symmetric matrix of a triangle.
std::vector<float> whole_of(const std::string& triangle, int64_t inputs) {
  const auto size = static_cast<size_t>(inputs);
  std::vector<float> sums(size * size);
  const char* from = triangle.data();
  for (size_t i = 0; i < size; ++i)
    for (size_t j = 0; j <= i; ++j, from += sizeof(float)) {
      std::memcpy(&sums[i * size + j], from, sizeof(float));
      sums[j * size + i] = sums[i * size + j];
    }
  return sums;
}

}  // namespace

Result<CalibrationStats> CalibrationStats::open(const std::string& folder) {
  CalibrationStats stats;
  stats.folder_ = folder;
  MOEC_ASSIGN(stats.index_, read_calibration_index(folder));
  if (!stats.index_.finished)
    return fail("calibrate.unfinished", "the calibration was interrupted",
                "run the moec calibrate command again: it continues there", {.file = folder});
  for (size_t l = 0; l < stats.index_.layers.size(); ++l) {
    const CalibratedLayer& layer = stats.index_.layers[l];
    uint64_t offset = 0;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      const CalibratedInput& input = layer.inputs[i];
      const Stored stored{l, i, offset};
      stats.by_name_[{l, input.name}] = stored;
      for (const CalibratedMatrix& matrix : input.matrices)
        stats.by_matrix_[{layer.layer, matrix.expert, matrix.role}] = stored;
      if (input.tokens > 0) offset += triangle_bytes(input.inputs);
    }
  }
  return stats;
}

Status CalibrationStats::check_checkpoint(const std::string& identity) const {
  if (identity == index_.checkpoint) return {};
  return fail("calibrate.other_checkpoint", "the calibration was made with another checkpoint",
              "run moec calibrate with this checkpoint", {.file = folder_});
}

const CalibrationStats::Stored* CalibrationStats::stored(int64_t layer, const std::string& role,
                                                         int64_t expert) const {
  const auto found = by_matrix_.find({layer, expert, role});
  return found == by_matrix_.end() ? nullptr : &found->second;
}

bool CalibrationStats::has(int64_t layer, const std::string& role, int64_t expert) const {
  return stored(layer, role, expert) != nullptr;
}

int64_t CalibrationStats::tokens(int64_t layer, const std::string& role, int64_t expert) const {
  const Stored* found = stored(layer, role, expert);
  return found ? index_.layers[found->layer].inputs[found->input].tokens : 0;
}

Result<Hessian> CalibrationStats::find(int64_t layer, const std::string& role,
                                       int64_t expert) const {
  const Stored* found = stored(layer, role, expert);
  if (!found)
    return fail("calibrate.no_input",
                fmt::format("the calibration has no inputs of {} in layer {}{}", role, layer,
                            expert < 0 ? "" : fmt::format(", expert {}", expert)),
                "run moec calibrate with this checkpoint", {.file = folder_});
  MOEC_ASSIGN(Hessian own, read(*found));
  const auto all =
      by_name_.find({found->layer, index_.layers[found->layer].inputs[found->input].pool});
  if (all == by_name_.end()) return own;
  MOEC_ASSIGN(const Hessian layers, read(all->second));
  MOEC_TRY(check_hessian(layers, own.inputs));
  return pooled(std::move(own), layers);
}

Result<Hessian> CalibrationStats::read(const Stored& stored) const {
  const CalibratedLayer& layer = index_.layers[stored.layer];
  const CalibratedInput& input = layer.inputs[stored.input];
  if (input.tokens == 0) return empty_hessian(input.inputs);
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(folder_ + "/" + layer.file));
  MOEC_ASSIGN(const std::string bytes, file.read(stored.offset, triangle_bytes(input.inputs)));
  Digest digest;
  digest.update(std::as_bytes(std::span(bytes)));
  if (digest.hex() != input.digest)
    return fail("calibrate.damaged",
                fmt::format("the bytes of \"{}\" do not match their digest", input.name),
                "run moec calibrate into a new folder", {.file = file.path()});
  Hessian hessian{input.inputs, input.tokens, whole_of(bytes, input.inputs)};
  MOEC_TRY(check_hessian(hessian, input.inputs));
  return hessian;
}

}  // namespace moec
