#include "frontends/jobs/report/report_page.h"

#include <nlohmann/json.hpp>

#include "embedded/embedded_report.h"
#include "ir/base/invariant.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

constexpr std::string_view kPlace = "/* DATA */null";

// "<" would end the script that contains the data if "/script" followed.
std::string inside_script(const std::string& json) {
  std::string text;
  for (const char c : json)
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  return text;
}

}  // namespace

std::string report_page(const nlohmann::ordered_json& data) {
  std::string page(embedded_report.front().text);
  const size_t place = page.find(kPlace);
  MOEC_CHECK(place != std::string::npos, "page.html has no place for the data");
  return page.replace(place, kPlace.size(), inside_script(json_text(data, -1)));
}

}  // namespace moec
