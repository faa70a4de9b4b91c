#include "frontends/jobs/calibrate/calibration_folder.h"

#include <fmt/format.h>

#include <utility>

#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/output/out_folder.h"
#include "backends/weights/calibration/sensitivity.h"
#include "ir/base/regular_file.h"

namespace moec {

namespace {

// Checks that both calibrations are divided, or neither.
Status check_kind(const std::string& folder, const CalibrationIndex& stored,
                  const CalibrationIndex& index) {
  if (!stored.inputs.empty() && index.inputs.empty())
    return fail("calibrate.not_joined", "the folder contains an unfinished --join of parts",
                "pass --join to complete it, or remove the folder", {.file = folder});
  // Such a folder may have blocks of several --group-memory, which the parts would not have.
  if (stored.inputs.empty() && !index.inputs.empty())
    return fail("calibrate.differs", "the folder contains an unfinished calibration by one process",
                "run the command without --part and --join, or pass another folder with --out",
                {.file = folder});
  return {};
}

// Returns what differs between the calibrations; null: nothing.
const char* difference(const CalibrationIndex& stored, const CalibrationIndex& index) {
  if (stored.checkpoint != index.checkpoint) return "checkpoint";
  if (stored.text != index.text) return "text";
  if (stored.window != index.window) return "window";
  if (stored.finished) return nullptr;
  // Only the files of an unfinished calibration are continued.
  if (stored.triangles != index.triangles) return "format";
  return stored.inputs != index.inputs ? "version of moec or other flags" : nullptr;
}

}  // namespace

Status check_free(const std::string& folder) {
  MOEC_ASSIGN(const Folder opened, Folder::open(folder));
  MOEC_TRY(opened.remove_file(temporary_of(kCalibrationIndex)));  // left by a killed run
  MOEC_ASSIGN(const bool other, holds_files(folder));
  if (!other) return {};
  return fail("calibrate.out_not_empty", "the folder contains other files",
              "pass another folder with --out", {.file = folder});
}

Status check_same(const std::string& folder, const CalibrationIndex& stored,
                  const CalibrationIndex& index, bool extend) {
  MOEC_ASSIGN(const bool measured, has_finished_sensitivity(folder));
  // --sensitivity may extend a finished calibration, but only one without finished sensitivities.
  if (stored.finished && (!extend || measured))
    return fail("calibrate.out_not_empty", "the folder contains a finished calibration",
                "pass another folder with --out, or remove this one", {.file = folder});
  if (!stored.finished) MOEC_TRY(check_kind(folder, stored, index));
  const char* what = difference(stored, index);
  if (what == nullptr) return {};
  return fail("calibrate.differs",
              fmt::format("the folder contains {} calibration with another {}",
                          stored.finished ? "a" : "an unfinished", what),
              "pass another folder with --out, or remove this one", {.file = folder});
}

RunFiles calibration_state(const std::string& folder) {
  return {folder, "state", "remove the folder and start over"};
}

Status resume_index(const std::string& folder, CalibrationIndex& index, bool extend) {
  if (!file_exists(folder + "/" + kCalibrationIndex)) {
    MOEC_TRY(check_free(folder));
    return write_file({folder, kCalibrationIndex}, index_text(index));
  }
  MOEC_ASSIGN(CalibrationIndex stored, read_calibration_index(folder));
  // A killed run may have left the file of a state that the index does not name.
  MOEC_TRY(calibration_state(folder).keep_only(stored.state));
  MOEC_TRY(check_same(folder, stored, index, extend));
  index = std::move(stored);
  return {};
}

Status write_state(const std::string& folder, size_t next_step, int64_t next_layer, WindowRun& run,
                   CalibrationIndex& index) {
  const RunFiles files = calibration_state(folder);
  // A crash at any point leaves an index whose values are complete: the old values are removed
  // last.
  WindowRun* runs[] = {&run};
  MOEC_ASSIGN(index.state, files.write(runs, next_step, next_layer));
  MOEC_TRY(write_file({folder, kCalibrationIndex}, index_text(index)));
  return files.keep_only(index.state);
}

Status finish_folder(const std::string& folder, CalibrationIndex& index) {
  index.state = {};
  index.finished = true;
  index.inputs.clear();
  MOEC_TRY(write_file({folder, kCalibrationIndex}, index_text(index)));
  return calibration_state(folder).keep_only({});
}

}  // namespace moec
