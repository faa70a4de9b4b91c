// The folders of a divided calibration (backends/output/part_folders.h). Each process writes the
// files of its layers, and an index that lists them.
#pragma once

#include <string>
#include <vector>

#include "backends/weights/calibration/calibration_index.h"
#include "frontends/jobs/calibrate/calibrate_options.h"
#include "frontends/jobs/calibrate/layer_steps.h"

namespace moec {

// A folder with finished layers, and with the hidden states after the layers that it has run.
struct CalibrationPart {
  std::string folder;
  CalibrationIndex index;
};

// Returns CalibrationIndex::inputs: a digest of the flags, the files of flags, and the version of
// moec. Errors: those of digest_file().
Result<std::string> digest_of_flags(const CalibrateOptions& options);

// True if `out` contains a part of a divided calibration, complete or not.
bool has_parts(const std::string& out);

// Reads the indexes of all parts. Omits a part that has run no layer. Errors: calibrate.differs (a
// part has another checkpoint, text, window, `inputs` or format than `index`), those of
// read_calibration_index().
Result<std::vector<CalibrationPart>> read_parts(const std::string& out,
                                                const CalibrationIndex& index);

// Removes layers with a missing or damaged file from `index`, the one of `out`. Then links the
// files of all intact layers of parts that it does not list, flushes them to disk, and writes the
// index. No part may be running. Errors: those of link_from_part(), Folder and write errors.
Status adopt_parts(const std::string& out, const std::vector<CalibrationPart>& parts,
                   const std::vector<LayerSteps>& layers, CalibrationIndex& index);

// Removes the files of parts, the folders that are then empty, and temporary files of layers in
// `out` that a killed join left. Other files stay. Errors: those of Folder.
Status remove_parts(const std::string& out, const std::vector<LayerSteps>& layers);

}  // namespace moec
