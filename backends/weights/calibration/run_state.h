// Resume point of an unfinished run of a text through the layers of a model. The values are in a
// separate file next to the JSON file that contains this state.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ir/base/json_fields.h"

namespace moec {

// A value passed between layers, [tokens, columns].
struct CalibrationEdge {
  std::string name;
  int64_t columns = 0;
  bool operator==(const CalibrationEdge&) const = default;
};

struct RunState {
  int64_t next_layer = 0;  // number of finished layers; the head counts as one
  std::vector<CalibrationEdge> edges;
  std::string digest;  // of the file of values; empty before the first layer and after the last
  bool operator==(const RunState&) const = default;
};

// Checks the field "digest" of a file written by sealed_text(); `text` is the text of that file.
// Error: bad_value (the text does not match the digest).
Status read_seal(JsonFields& fields, std::string_view text);

nlohmann::ordered_json run_state_json(const RunState& state);
// Reads the object in field `name`. Errors: those of JsonFields.
Status read_run_state(JsonFields& fields, std::string_view name, RunState& state);

}  // namespace moec
