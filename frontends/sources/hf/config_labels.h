// Reads the labels of a token classifier from id2label.
#pragma once

#include <string>
#include <vector>

#include "frontends/sources/config/config_reader.h"

namespace moec {

// Returns the concept `labels`, {"0": "O", "1": "B-name", …}, in the order of the ids. Findings:
// hf.config.type; hf.config.labels (the ids are not 0, 1, 2, …, or two labels are equal).
std::vector<std::string> read_labels(ConfigReader& reader);

}  // namespace moec
