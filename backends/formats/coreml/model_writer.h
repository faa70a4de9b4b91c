// A package's model.mlmodel: the program's functions and the description of them that Core ML shows
// to an app.
#pragma once

#include <span>
#include <string>

#include "backends/formats/coreml/mil_writer.h"

namespace moec::mlmodel {
class Model;
}

namespace moec {

// The description names each port and state with its element type and shape. As in files of
// coremltools, sizes of a range have bounds and the outputs of a range have no shape. A model of
// one function describes its ports at the top; one of several describes each function, and the
// first is the default. `family` is the model family for the summary; it may be empty.
void write_model(std::span<const MilFunction> functions, const DataLayout& layout, int spec_version,
                 const std::string& family, mlmodel::Model& model);

}  // namespace moec
