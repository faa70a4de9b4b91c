#include "backends/targets/json_fields.h"

#include <array>

namespace moec {
namespace {

using nlohmann::json;

Place place_at(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto lines = static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t line_start = lines == 0 ? 0 : before.rfind('\n') + 1;
  return {.line = lines + 1, .column = static_cast<uint32_t>(before.size() - line_start + 1)};
}

// The JSON library keeps the last of equal keys; here they are an error.
class DuplicateKeys {
 public:
  bool operator()(int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event == json::parse_event_t::key && !open_.back().insert(value.get<std::string>()).second)
      found = value.get<std::string>();
    return true;
  }
  std::string found;

 private:
  std::vector<std::set<std::string>> open_;
};

}  // namespace

tl::unexpected<Diagnostics> fail_field(std::string code, const std::string& where,
                                       std::string_view field, std::string_view what) {
  return fail(std::move(code), fmt::format("{}: field \"{}\" {}", where, field, what),
              "backends/targets/onnx.json shows every field");
}

Result<json> parse_target_json(std::string_view text) {
  DuplicateKeys duplicates;
  json parsed;
  try {
    parsed = json::parse(text, std::ref(duplicates));
  } catch (const json::parse_error& error) {
    const size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    return fail("target.syntax", "this is not JSON", "check brackets, quotes and commas",
                place_at(text, byte));
  } catch (const json::exception&) {
    return fail("target.syntax", "a number is beyond every range", "write a smaller number");
  }
  if (!duplicates.found.empty())
    return fail("target.duplicate_key",
                fmt::format("the key \"{}\" stands twice in one object", duplicates.found),
                "remove one of them");
  return parsed;
}

}  // namespace moec
