#include "backends/weights/calibration/calibration_stats.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/files/digest.h"
#include "backends/weights/calibration/load_variation.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// Bytes of a triangle per read.
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

// Elements `first` … `row` of row `row` of the moments.
struct TriangleRow {
  std::span<const float> elements;
  int64_t first, row;
};

// Adds the row's elements within `range`, multiplied by `share`, to `sums`.
void add_row(const TriangleRow& from, const InputRange& range, double share,
             std::vector<float>& sums) {
  if (from.row < range.begin || from.row >= range.begin + range.size) return;
  // Only the lower triangle is filled. mirror() copies it to the upper one after all sums are
  // added.
  float* to = sums.data() + (from.row - range.begin) * range.size;
  for (int64_t column = std::max(range.begin, from.first); column <= from.row; ++column) {
    const float value = from.elements[static_cast<size_t>(column - from.first)];
    to[column - range.begin] += static_cast<float>(share * static_cast<double>(value));
  }
}

// Returns the end of the rows, starting at `begin`, that fill about one chunk.
int64_t end_of_chunk(TriangleForm form, int64_t begin, int64_t size) {
  const uint64_t most = row_offset(form, size, begin) + kChunkBytes;
  // At least one row, even if it is larger than a chunk.
  int64_t end = begin + 1;
  while (end < size && row_offset(form, size, end + 1) <= most) ++end;
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
                "run the same moec calibrate command again to resume it", {.file = folder});
  if (stats.index_.layers.empty())
    return fail("calibrate.no_input", "the calibration has no inputs",
                "run moec calibrate into a new folder", {.file = folder});
  stats.narrowness_ = narrowness_of(expert_loads(stats.index_));
  for (size_t l = 0; l < stats.index_.layers.size(); ++l) {
    const CalibratedLayer& layer = stats.index_.layers[l];
    // Offsets are not stored: triangles follow one another in the order of the index.
    uint64_t offset = 0;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      const CalibratedInput& input = layer.inputs[i];
      const Stored stored{l, i, offset};
      stats.by_name_[{l, input.name}] = stored;
      for (const CalibratedMatrix& matrix : input.matrices)
        if (!stats.by_matrix_.try_emplace({layer.layer, matrix.expert, matrix.role}, stored).second)
          return fail("calibrate.malformed",
                      fmt::format("layer {} lists inputs of {} twice", layer.layer,
                                  printable(matrix.role, 60)),
                      "run moec calibrate into a new folder", {.file = folder});
      // Inputs without tokens occupy no bytes of the file.
      if (input.tokens > 0) offset += triangle_bytes(input, stats.index_.triangles);
    }
  }
  return stats;
}

Status CalibrationStats::check_checkpoint(const std::string& identity) const {
  if (identity == index_.checkpoint) return {};
  return fail("calibrate.other_checkpoint", "the calibration was made with another checkpoint",
              "run moec calibrate with this checkpoint", {.file = folder_});
}

const CalibrationStats::Stored* CalibrationStats::stored(const RoleTensor& matrix) const {
  const auto found = by_matrix_.find(matrix);
  return found == by_matrix_.end() ? nullptr : &found->second;
}

const CalibrationStats::Stored* CalibrationStats::pool_of(const Stored& own) const {
  const auto found = by_name_.find({own.layer, input(own).pool});
  return found == by_name_.end() ? nullptr : &found->second;
}

const CalibratedInput* CalibrationStats::inputs_of(const RoleTensor& matrix) const {
  const Stored* found = stored(matrix);
  return found ? &input(*found) : nullptr;
}

int64_t CalibrationStats::tokens(const RoleTensor& matrix) const {
  const CalibratedInput* found = inputs_of(matrix);
  return found ? found->tokens : 0;
}

int64_t CalibrationStats::borrowed(const RoleTensor& matrix) const {
  const Stored* own = stored(matrix);
  const Stored* pool = own ? pool_of(*own) : nullptr;
  return pool ? borrowed_tokens(input(*own).inputs, input(*pool).tokens) : 0;
}

std::vector<ExpertFallback> CalibrationStats::fallbacks() const {
  std::vector<ExpertFallback> found;
  for (const CalibratedLayer& layer : index_.layers)
    for (const CalibratedInput& inputs : layer.inputs) {
      // Only inputs with a pool borrow moments. All matrices of such inputs belong to one expert,
      // so the first one names it.
      if (inputs.pool.empty() || inputs.matrices.empty()) continue;
      const CalibratedMatrix& matrix = inputs.matrices.front();
      const int64_t more = borrowed({layer.layer, matrix.expert, matrix.role});
      if (inputs.tokens > more) continue;
      // Avoids 0 / 0 if the layer has no tokens either.
      const double weight = inputs.tokens == 0 ? 1
                                               : static_cast<double>(more) /
                                                     static_cast<double>(inputs.tokens + more);
      found.push_back({{layer.layer, matrix.expert}, inputs.tokens, weight});
    }
  return found;
}

Result<Hessian> CalibrationStats::find(const RoleTensor& matrix) const {
  const CalibratedInput* found = inputs_of(matrix);
  return find(matrix, {0, found ? found->inputs : 0});
}

Result<Hessian> CalibrationStats::find(const RoleTensor& matrix, const InputRange& range) const {
  MOEC_ASSIGN(std::vector<Hessian> only, find(matrix, std::span(&range, 1)));
  return std::move(only.front());
}

Result<std::vector<Hessian>> CalibrationStats::find(const RoleTensor& matrix,
                                                    std::span<const InputRange> ranges) const {
  const Stored* own = stored(matrix);
  if (!own)
    return fail(
        "calibrate.no_input",
        fmt::format("the calibration has no inputs of {} in layer {}{}", matrix.role, matrix.layer,
                    matrix.expert < 0 ? "" : fmt::format(", expert {}", matrix.expert)),
        "run moec calibrate with this checkpoint", {.file = folder_});
  std::vector<Hessian> hessians;
  for (const InputRange& range : ranges) hessians.push_back(empty_hessian(range.size));
  // The moments are the expert's own sums plus the pool's sums scaled to `more` tokens: H = Σ_own +
  // (more / n_pool) · Σ_pool.
  MOEC_TRY(add_triangle(*own, ranges, 1, hessians));
  int64_t tokens = input(*own).tokens;
  if (const int64_t more = borrowed(matrix); more > 0) {
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

// The digest covers all rows, including those outside the ranges.
Status CalibrationStats::add_triangle(const Stored& stored, std::span<const InputRange> ranges,
                                      double share, std::vector<Hessian>& to) const {
  const CalibratedInput& of = input(stored);
  for (const InputRange& range : ranges)
    if (range.begin < 0 || range.begin + range.size > of.inputs)
      return fail(
          "calibrate.hessian_size",
          fmt::format("the calibration has {} inputs \"{}\", the weight needs {} starting at {}",
                      of.inputs, of.name, range.size, range.begin),
          "calibrate this checkpoint again with moec calibrate", {.file = folder_});
  if (of.tokens == 0) return {};
  MOEC_ASSIGN(const RegularFile file,
              RegularFile::open(folder_ + "/" + index_.layers[stored.layer].file));
  // Every byte is read in order, because the digest covers whole triangles. Ranges save memory, not
  // reads.
  Digest digest;
  const auto read = [&](uint64_t begin, uint64_t end) -> Result<std::string> {
    MOEC_ASSIGN(std::string bytes, file.read(begin, end - begin));
    digest.update(std::as_bytes(std::span(bytes)));
    return bytes;
  };
  const TriangleForm form = index_.triangles;
  const int64_t together = of.together > 0 ? of.together : of.inputs;
  uint64_t offset = stored.offset;
  for (int64_t first = 0; first < of.inputs; first += together) {
    const int64_t size = std::min(together, of.inputs - first);
    const auto at = [&](int64_t row) { return offset + row_offset(form, size, row); };
    MOEC_ASSIGN(const std::string head, read(offset, at(0)));
    // The head is the diagonal, which scales all rows of correlations. For sums it is empty.
    TriangleRows rows(form, head);
    for (int64_t row = 0; row < size;) {
      const uint64_t begin = at(row);
      const int64_t end = end_of_chunk(form, row, size);
      MOEC_ASSIGN(const std::string bytes, read(begin, at(end)));
      for (; row < end; ++row) {
        const std::span decoded = rows.decode(row, bytes.data() + (at(row) - begin));
        for (size_t r = 0; r < ranges.size(); ++r)
          add_row({decoded, first, first + row}, ranges[r], share, to[r].sums);
      }
    }
    offset = at(size);
  }
  // The sums were added before the comparison. That is harmless, because an error discards them.
  if (digest.hex() == of.digest) return {};
  return fail("calibrate.damaged",
              fmt::format("the bytes of \"{}\" do not match their digest", of.name),
              "run moec calibrate into a new folder", {.file = file.path()});
}

}  // namespace moec
