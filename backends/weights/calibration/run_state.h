// Where an unfinished run of a text through the layers of a model goes on. The values themselves
// lie in a file beside the JSON that holds this.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ir/base/json_fields.h"

namespace moec {

// A value between layers, [tokens, columns].
struct CalibrationEdge {
  std::string name;
  int64_t columns = 0;
  bool operator==(const CalibrationEdge&) const = default;
};

struct RunState {
  int64_t next_layer = 0;  // layers that are done; the head counts as one
  std::vector<CalibrationEdge> edges;
  std::string digest;  // of the file of values; empty where nothing is done, and at the end
  bool operator==(const RunState&) const = default;
};

// Reads the field "digest" of a file that sealed_text() made. Error bad_value: `text`, that of the
// file, is another.
Status read_seal(JsonFields& fields, std::string_view text);

nlohmann::ordered_json run_state_json(const RunState& state);
// Reads the object `name`. Errors: those of JsonFields.
Status read_run_state(JsonFields& fields, std::string_view name, RunState& state);

}  // namespace moec
