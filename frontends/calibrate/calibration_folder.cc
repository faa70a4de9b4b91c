#include "frontends/calibrate/calibration_folder.h"

#include <fmt/format.h>

#include "backends/calibration/sensitivity.h"
#include "backends/files/digest.h"
#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/output/out_folder.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// Two states lie side by side until the index names the new one.
std::string state_file(int64_t next_step) { return fmt::format("state{}.bin", next_step); }

Status remove_state(const std::string& folder, int64_t next_step) {
  MOEC_ASSIGN(const Folder opened, Folder::open(folder));
  if (next_step == 0 || !opened.has(state_file(next_step))) return {};
  return opened.remove_file(state_file(next_step));
}

Status check_same(const std::string& folder, const CalibrationIndex& stored,
                  const CalibrationIndex& index, bool extend) {
  if (stored.finished && (!extend || file_exists(folder + "/" + kSensitivityFile)))
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

std::string digest_of_tokens(std::span<const int64_t> tokens) {
  Digest digest;
  digest.update(std::as_bytes(tokens));
  return digest.hex();
}

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

Status write_state(const std::string& folder, size_t next, WindowRun& run,
                   CalibrationIndex& index) {
  const int64_t before = index.next_step;
  index.next_step = static_cast<int64_t>(next);
  index.edges = run.edges(next);
  MOEC_ASSIGN(OutputFile file, OutputFile::create({folder, state_file(index.next_step)}, 0));
  for (const CalibrationEdge& edge : index.edges)
    MOEC_TRY(file.write(std::as_bytes(std::span(run.edge(edge.name).data))));
  MOEC_TRY(file.sync());
  MOEC_TRY(file.publish());
  index.state_digest = file.digest();
  MOEC_TRY(write_file({folder, kCalibrationIndex}, index_text(index)));
  return remove_state(folder, before);
}

Status read_state(const std::string& folder, const CalibrationIndex& index,
                  const TokenWindows& text, WindowRun& run) {
  const std::string path = folder + "/" + state_file(index.next_step);
  const char* next = "remove the folder and start over";
  MOEC_ASSIGN(const std::string digest, digest_file(path));
  if (digest != index.state_digest)
    return fail("calibrate.damaged", "the file does not match its digest", next, {.file = path});
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  uint64_t offset = 0;
  for (const CalibrationEdge& edge : index.edges) {
    Rows rows{edge.columns,
              std::vector<float>(text.tokens.size() * static_cast<size_t>(edge.columns))};
    const std::span bytes(reinterpret_cast<char*>(rows.data.data()),
                          rows.data.size() * sizeof(float));
    MOEC_TRY(file.read_into(offset, bytes));
    offset += bytes.size();
    run.edge(edge.name) = std::move(rows);
  }
  return {};
}

Status finish_folder(const std::string& folder, CalibrationIndex& index) {
  const int64_t last = index.next_step;
  index.finished = true;
  index.next_step = 0;
  index.edges.clear();
  index.state_digest.clear();
  MOEC_TRY(write_file({folder, kCalibrationIndex}, index_text(index)));
  return remove_state(folder, last);
}

}  // namespace moec
