// Writes a report page: one HTML file with its data, style and script, which needs no network.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace moec {

// Returns the page for the data of report_data().
std::string report_page(const nlohmann::ordered_json& data);

}  // namespace moec
