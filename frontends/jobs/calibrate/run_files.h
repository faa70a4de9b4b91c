// The values of unfinished runs in a folder, so that they go on behind the last finished layer.
#pragma once

#include <span>

#include "backends/weights/calibration/run_state.h"
#include "frontends/measure/window_run.h"

namespace moec {

// FOLDER/NAME2.bin has the values behind the second layer. Two of them lie side by side until an
// index names the new one.
struct RunFiles {
  std::string folder, name;
  std::string mend;  // what to do about a damaged file

  // Writes what steps from `next_step` on take of each run, one run after the other. All runs have
  // the same edges.
  Result<RunState> write(std::span<WindowRun* const> runs, size_t next_step,
                         int64_t next_layer) const;
  // Reads them back. Error calibrate.damaged.
  Status read(const RunState& state, const TokenWindows& text,
              std::span<WindowRun* const> runs) const;
  // Removes the files of all other states, of runs that were killed, too.
  Status keep_only(const RunState& state) const;

 private:
  std::string file_of(const RunState& state) const;
  bool is_of_state(std::string_view file) const;
};

}  // namespace moec
