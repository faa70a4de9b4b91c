#include "frontends/jobs/calibrate/calibration_folder.h"

#include <fmt/format.h>

#include <utility>

#include "backends/files/digest.h"
#include "backends/files/output_file.h"
#include "backends/output/out_folder.h"
#include "backends/weights/calibration/sensitivity.h"

namespace moec {
namespace {

Status check_same(const std::string& folder, const CalibrationIndex& stored,
                  const CalibrationIndex& index, bool extend) {
  MOEC_ASSIGN(const bool measured, has_finished_sensitivity(folder));
  if (stored.finished && (!extend || measured))
    return fail("calibrate.out_not_empty", "the folder holds a finished calibration",
                "give --out another folder, or remove this one", {.file = folder});
  const char* what = stored.checkpoint != index.checkpoint ? "checkpoint"
                     : stored.text != index.text           ? "text"
                     : stored.window != index.window       ? "window"
                                                           : nullptr;
  if (what == nullptr) return {};
  return fail("calibrate.differs",
              fmt::format("the folder holds {} calibration with another {}",
                          stored.finished ? "a" : "an unfinished", what),
              "give --out another folder, or remove this one", {.file = folder});
}

}  // namespace

Status resume_index(const std::string& folder, CalibrationIndex& index, bool extend) {
  if (!file_exists(folder + "/" + kCalibrationIndex)) {
    MOEC_ASSIGN(const bool other, holds_files(folder));
    if (other)
      return fail("calibrate.out_not_empty", "the folder holds other files",
                  "give --out another folder", {.file = folder});
    return write_file({folder, kCalibrationIndex}, index_text(index));
  }
  MOEC_ASSIGN(CalibrationIndex stored, read_calibration_index(folder));
  MOEC_TRY(check_same(folder, stored, index, extend));
  index = std::move(stored);
  return {};
}

RunFiles calibration_state(const std::string& folder) {
  return {folder, "state", "remove the folder and start over"};
}

Status write_state(const std::string& folder, size_t next_step, WindowRun& run,
                   CalibrationIndex& index) {
  const RunFiles files = calibration_state(folder);
  WindowRun* runs[] = {&run};
  const RunState before = std::move(index.state);
  MOEC_ASSIGN(index.state, files.write(runs, next_step, std::ssize(index.layers)));
  MOEC_TRY(write_file({folder, kCalibrationIndex}, index_text(index)));
  return files.remove(before);
}

Status finish_folder(const std::string& folder, CalibrationIndex& index) {
  const RunState last = std::exchange(index.state, {});
  index.finished = true;
  MOEC_TRY(write_file({folder, kCalibrationIndex}, index_text(index)));
  return calibration_state(folder).remove(last);
}

}  // namespace moec
