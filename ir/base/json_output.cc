#include "ir/base/json_output.h"

#include <nlohmann/json.hpp>

namespace moec {

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  // By default, dump() throws at text that is not UTF-8.
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string json_string(std::string_view text) {
  return json_text(nlohmann::ordered_json(std::string(text)), -1);
}

}  // namespace moec
