#include "backends/weights/calibration/calibration_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/files/digest.h"
#include "backends/weights/calibration/load_variation.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// What is read of a triangle at a time.
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

// A row of a triangle: elements `first` … `row` of that row of the moments.
struct TriangleRow {
  const char* elements;
  int64_t first, row;
};

// Adds the elements that lie in the range.
void add_row(const TriangleRow& from, const InputRange& range, double share,
             std::vector<float>& sums) {
  if (from.row < range.begin || from.row >= range.begin + range.size) return;
  float* to = sums.data() + (from.row - range.begin) * range.size;
  for (int64_t column = std::max(range.begin, from.first); column <= from.row; ++column) {
    float value = 0;
    std::memcpy(&value, from.elements + static_cast<size_t>(column - from.first) * sizeof(float),
                sizeof value);
    to[column - range.begin] += static_cast<float>(share * static_cast<double>(value));
  }
}

// The rows of `size` inputs from row `begin` on that make about a chunk.
int64_t end_of_chunk(int64_t begin, int64_t size) {
  int64_t end = begin + 1;
  while (end < size && triangle_bytes(end + 1) - triangle_bytes(begin) <= kChunkBytes) ++end;
  return end;
}

void mirror(std::vector<float>& sums, int64_t size) {
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < i; ++j)
      sums[static_cast<size_t>(j * size + i)] = sums[static_cast<size_t>(i * size + j)];
}

}  // namespace

Result<CalibrationStats> CalibrationStats::open(const std::string& folder) {
  CalibrationStats stats;
  stats.folder_ = folder;
  MOEC_ASSIGN(stats.index_, read_calibration_index(folder));
  if (!stats.index_.finished)
    return fail("calibrate.unfinished", "the calibration was interrupted",
                "run the moec calibrate command again: it continues there", {.file = folder});
  if (stats.index_.layers.empty())
    return fail("calibrate.no_input", "the calibration has inputs of no matrix",
                "run moec calibrate into a new folder", {.file = folder});
  stats.narrowness_ = narrowness_of(expert_loads(stats.index_));
  for (size_t l = 0; l < stats.index_.layers.size(); ++l) {
    const CalibratedLayer& layer = stats.index_.layers[l];
    uint64_t offset = 0;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      const CalibratedInput& input = layer.inputs[i];
      const Stored stored{l, i, offset};
      stats.by_name_[{l, input.name}] = stored;
      for (const CalibratedMatrix& matrix : input.matrices)
        if (!stats.by_matrix_.try_emplace({layer.layer, matrix.expert, matrix.role}, stored).second)
          return fail("calibrate.malformed",
                      fmt::format("layer {} has inputs of {} twice", layer.layer,
                                  printable(matrix.role, 60)),
                      "run moec calibrate into a new folder", {.file = folder});
      if (input.tokens > 0) offset += triangle_bytes(input);
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

const CalibrationStats::Stored* CalibrationStats::pool_of(const Stored& own) const {
  const auto found = by_name_.find({own.layer, input(own).pool});
  return found == by_name_.end() ? nullptr : &found->second;
}

const CalibratedInput* CalibrationStats::inputs_of(int64_t layer, const std::string& role,
                                                   int64_t expert) const {
  const Stored* found = stored(layer, role, expert);
  return found ? &input(*found) : nullptr;
}

int64_t CalibrationStats::tokens(int64_t layer, const std::string& role, int64_t expert) const {
  const CalibratedInput* found = inputs_of(layer, role, expert);
  return found ? found->tokens : 0;
}

int64_t CalibrationStats::borrowed(int64_t layer, const std::string& role, int64_t expert) const {
  const Stored* own = stored(layer, role, expert);
  const Stored* pool = own ? pool_of(*own) : nullptr;
  return pool ? borrowed_tokens(input(*own).inputs, input(*pool).tokens) : 0;
}

std::vector<ExpertFallback> CalibrationStats::fallbacks() const {
  std::vector<ExpertFallback> found;
  for (const CalibratedLayer& layer : index_.layers)
    for (const CalibratedInput& inputs : layer.inputs) {
      if (inputs.pool.empty() || inputs.matrices.empty()) continue;
      const CalibratedMatrix& matrix = inputs.matrices.front();
      const int64_t more = borrowed(layer.layer, matrix.role, matrix.expert);
      if (inputs.tokens > more) continue;
      const double weight = inputs.tokens == 0 ? 1
                                               : static_cast<double>(more) /
                                                     static_cast<double>(inputs.tokens + more);
      found.push_back({layer.layer, matrix.expert, inputs.tokens, weight});
    }
  return found;
}

Result<Hessian> CalibrationStats::find(int64_t layer, const std::string& role,
                                       int64_t expert) const {
  const CalibratedInput* found = inputs_of(layer, role, expert);
  return find(layer, role, expert, {0, found ? found->inputs : 0});
}

Result<Hessian> CalibrationStats::find(int64_t layer, const std::string& role, int64_t expert,
                                       const InputRange& range) const {
  MOEC_ASSIGN(std::vector<Hessian> only, find(layer, role, expert, std::span(&range, 1)));
  return std::move(only.front());
}

Result<std::vector<Hessian>> CalibrationStats::find(int64_t layer, const std::string& role,
                                                    int64_t expert,
                                                    std::span<const InputRange> ranges) const {
  const Stored* own = stored(layer, role, expert);
  if (!own)
    return fail("calibrate.no_input",
                fmt::format("the calibration has no inputs of {} in layer {}{}", role, layer,
                            expert < 0 ? "" : fmt::format(", expert {}", expert)),
                "run moec calibrate with this checkpoint", {.file = folder_});
  std::vector<Hessian> hessians;
  for (const InputRange& range : ranges) hessians.push_back(empty_hessian(range.size));
  MOEC_TRY(add_triangle(*own, ranges, 1, hessians));
  int64_t tokens = input(*own).tokens;
  if (const int64_t more = borrowed(layer, role, expert); more > 0) {
    const Stored& pool = *pool_of(*own);
    const double share = static_cast<double>(more) / static_cast<double>(input(pool).tokens);
    MOEC_TRY(add_triangle(pool, ranges, share, hessians));
    tokens += more;
  }
  for (Hessian& hessian : hessians) {
    hessian.tokens = tokens;
    hessian.narrowness = narrowness_;
    mirror(hessian.sums, hessian.inputs);
    MOEC_TRY(check_hessian(hessian, hessian.inputs));
  }
  return hessians;
}

// The digest is of all rows, also of those outside the range.
Status CalibrationStats::add_triangle(const Stored& stored, std::span<const InputRange> ranges,
                                      double share, std::vector<Hessian>& to) const {
  const CalibratedInput& of = input(stored);
  for (const InputRange& range : ranges)
    if (range.begin < 0 || range.begin + range.size > of.inputs)
      return fail("calibrate.hessian_size",
                  fmt::format("the calibration has {} inputs \"{}\", the weight has {} from {} on",
                              of.inputs, of.name, range.size, range.begin),
                  "calibrate this checkpoint again with moec calibrate", {.file = folder_});
  if (of.tokens == 0) return {};
  MOEC_ASSIGN(const RegularFile file,
              RegularFile::open(folder_ + "/" + index_.layers[stored.layer].file));
  Digest digest;
  const int64_t together = of.together > 0 ? of.together : of.inputs;
  uint64_t offset = stored.offset;
  for (int64_t first = 0; first < of.inputs; first += together) {
    const int64_t size = std::min(together, of.inputs - first);
    for (int64_t row = 0; row < size;) {
      const int64_t end = end_of_chunk(row, size);
      MOEC_ASSIGN(const std::string bytes, file.read(offset + triangle_bytes(row),
                                                     triangle_bytes(end) - triangle_bytes(row)));
      digest.update(std::as_bytes(std::span(bytes)));
      for (const char* from = bytes.data(); row < end; ++row) {
        for (size_t r = 0; r < ranges.size(); ++r)
          add_row({from, first, first + row}, ranges[r], share, to[r].sums);
        from += static_cast<size_t>(row + 1) * sizeof(float);
      }
    }
    offset += triangle_bytes(size);
  }
  if (digest.hex() == of.digest) return {};
  return fail("calibrate.damaged",
              fmt::format("the bytes of \"{}\" do not match their digest", of.name),
              "run moec calibrate into a new folder", {.file = file.path()});
}

}  // namespace moec
