// Stores the values of unfinished runs, so that they can resume after the last finished layer.
#pragma once

#include <span>

#include "backends/weights/calibration/run_state.h"
#include "frontends/measure/window_run.h"

namespace moec {

// FOLDER/NAME2.bin contains the values after the second layer. The previous file is kept until an
// index refers to the new one.
struct RunFiles {
  std::string folder, name;
  std::string mend;  // next step of the message about a damaged file

  // Writes the values that `next_step` and later steps read, run by run. All runs must have the
  // same edges.
  Result<RunState> write(std::span<WindowRun* const> runs, size_t next_step,
                         int64_t next_layer) const;
  // Reads the values of `state` back into `runs`. Error calibrate.damaged: the file's digest
  // differs.
  Status read(const RunState& state, const Text& text, std::span<WindowRun* const> runs) const;
  // Removes the files of all states except `state`, including temporary files of killed runs.
  Status keep_only(const RunState& state) const;

 private:
  std::string file_of(const RunState& state) const;
  bool is_of_state(std::string_view file) const;
};

}  // namespace moec
