// The labels of a token classifier, as a config names them: id2label.
#pragma once

#include <string>
#include <vector>

#include "frontends/hf/config_reader.h"

namespace moec {

// The concept `labels`, {"0": "O", "1": "B-name", …}, in the order of the ids. Findings:
// hf.config.type; hf.config.labels where the ids are not 0, 1, 2, … or a label is there twice.
std::vector<std::string> read_labels(ConfigReader& reader);

}  // namespace moec
