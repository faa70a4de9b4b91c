// A package's model.mlmodel: the program's functions and what Core ML tells an app about them.
#pragma once

#include <span>
#include <string>

#include "backends/coreml/mil_writer.h"

namespace moec::mlmodel {
class Model;
}

namespace moec {

// The description names each port and state with its element type and shape; the sizes of a range
// have their bounds, and a range's outputs no shape, as coremltools writes them. A model of one
// function has its ports at the top, one of several has a description for each, the first is the
// default. `family` is the model family for the summary; it may be empty.
void write_model(std::span<const MilFunction> functions, const DataLayout& layout, int spec_version,
                 const std::string& family, mlmodel::Model& model);

}  // namespace moec
