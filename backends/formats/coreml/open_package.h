// The folders and files of a .mlpackage.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Where the model of a package lies: FOLDER/Data/com.apple.CoreML/model.mlmodel, as Manifest.json
// says. `path` is the package's folder, or the model in it, or a model that stands alone. Errors:
// coreml.open, coreml.package (a manifest that does not fit the folder).
Result<std::string> find_model(const std::string& path);

}  // namespace moec
