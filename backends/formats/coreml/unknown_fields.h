// Finds parts of the format that mlmodel.proto leaves out, so that they are refused and not
// ignored.
#pragma once

#include <string>

namespace moec {

namespace mlmodel {
class Model;
}

// "field 21 of ArrayFeatureType" for one field of the model that mlmodel.proto does not have; empty
// when there is none. The program's own attributes, which say how it was made, are skipped.
std::string unknown_field(const mlmodel::Model& model);

}  // namespace moec
