#include "frontends/jobs/calibrate/calibration_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "backends/files/digest.h"
#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/output/part_folders.h"
#include "frontends/jobs/calibrate/calibration_folder.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// Compares the digests of all triangles, and the size of the file.
Result<bool> has_digests(const RegularFile& file, const CalibratedLayer& layer, TriangleForm form) {
  uint64_t offset = 0;
  for (const CalibratedInput& input : layer.inputs) {
    if (input.tokens == 0) continue;  // not stored
    const uint64_t end = offset + triangle_bytes(input, form);
    if (end > file.size()) return false;
    Digest digest;
    while (offset < end) {
      MOEC_ASSIGN(const std::string piece, file.read(offset, std::min(kPieceBytes, end - offset)));
      digest.update(std::as_bytes(std::span(piece)));
      offset += piece.size();
    }
    if (digest.hex() != input.digest) return false;
  }
  return offset == file.size();
}

bool is_intact(const std::string& folder, const CalibratedLayer& layer, TriangleForm form) {
  // Only such a name may be linked into the output folder.
  if (layer.file != hessians_file(layer.layer)) return false;
  const auto opened = Folder::open(folder);
  if (!opened) return false;
  const auto file = opened->open_file(layer.file);
  return file && has_digests(*file, layer, form).value_or(false);
}

bool is_of_model(const std::vector<LayerSteps>& layers, int64_t layer) {
  return std::any_of(layers.begin(), layers.end(),
                     [&](const LayerSteps& one) { return one.layer == layer; });
}

Status adopt(const std::string& out, const CalibrationPart& part,
             const std::vector<LayerSteps>& layers, CalibrationIndex& index) {
  for (const CalibratedLayer& layer : part.index.layers) {
    if (has_layer(index, layer.layer) || !is_of_model(layers, layer.layer) ||
        !is_intact(part.folder, layer, index.triangles))
      continue;
    MOEC_TRY(link_from_part(out, part.folder, layer.file));
    add_layer(index, layer);
  }
  return {};
}

Status remove_temporaries(const Folder& folder, const std::vector<LayerSteps>& layers) {
  for (const LayerSteps& layer : layers)
    MOEC_TRY(folder.remove_file(temporary_of(hessians_file(layer.layer))));
  return {};
}

Status remove_own(const std::string& path, const std::vector<LayerSteps>& layers) {
  MOEC_ASSIGN(const Folder folder, Folder::open(path));
  MOEC_TRY(folder.remove_file(temporary_of(kCalibrationIndex)));
  // Without an index, the other files are not those of a calibration.
  if (!folder.has(kCalibrationIndex)) return {};
  MOEC_TRY(calibration_state(path).keep_only({}));
  MOEC_TRY(remove_temporaries(folder, layers));
  // A killed part may have published a file that its index does not list yet.
  for (const LayerSteps& layer : layers) MOEC_TRY(folder.remove_file(hessians_file(layer.layer)));
  // Last, so that an interrupted removal can be repeated.
  return folder.remove_file(kCalibrationIndex);
}

}  // namespace

Result<std::string> digest_of_flags(const CalibrateOptions& options) {
  std::string file = "none";
  if (options.family.file) {
    MOEC_ASSIGN(file, digest_file(*options.family.file));
  }
  // Kernels sum in another order than the reference. The number of threads does not matter.
  return digest_text(fmt::format("{} {} {} {} {}", MOEC_VERSION, options.group_bytes,
                                 options.products ? "kernels" : "reference", file,
                                 fmt::join(options.family.ignored_keys, " ")));
}

bool has_parts(const std::string& out) {
  return !part_folders_with(out, kCalibrationIndex).empty();
}

Result<std::vector<CalibrationPart>> read_parts(const std::string& out,
                                                const CalibrationIndex& index) {
  std::vector<CalibrationPart> parts;
  for (const std::string& folder : part_folders_with(out, kCalibrationIndex)) {
    auto read = read_calibration_index(folder);
    if (!read) {
      for (Diagnostic& error : read.error())
        error.next_step = "remove the folder of this part; --join then calibrates its layers";
      return fail(std::move(read.error()));
    }
    if (read->layers.empty() && read->state.next_layer == 0) continue;
    MOEC_TRY(check_same(folder, *read, index, false));
    parts.push_back({folder, std::move(*read)});
  }
  return parts;
}

Status adopt_parts(const std::string& out, const std::vector<CalibrationPart>& parts,
                   const std::vector<LayerSteps>& layers, CalibrationIndex& index) {
  std::erase_if(index.layers, [&](const CalibratedLayer& layer) {
    return !is_intact(out, layer, index.triangles);
  });
  for (const CalibrationPart& part : parts) MOEC_TRY(adopt(out, part, layers, index));
  // The files were flushed when they were written; the new directory entries were not.
  MOEC_TRY(sync_folder(out));
  return write_file({out, kCalibrationIndex}, index_text(index));
}

Status remove_parts(const std::string& out, const std::vector<LayerSteps>& layers) {
  MOEC_ASSIGN(const Folder folder, Folder::open(out));
  MOEC_TRY(remove_temporaries(folder, layers));
  return remove_part_folders(out,
                             [&](const std::string& path) { return remove_own(path, layers); });
}

}  // namespace moec
