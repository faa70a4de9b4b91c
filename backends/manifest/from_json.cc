// JSON → Manifest. FlatBuffers' parser reads the text strictly by the schema into a FlatBuffer, and
// from there it goes the way of manifest.bin.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "backends/manifest/manifest_file.h"
#include "backends/manifest/schema.h"

namespace moec {
namespace manifest {
namespace {

flatbuffers::IDLOptions strict_options() {
  flatbuffers::IDLOptions options;
  options.strict_json = true;
  options.skip_unexpected_fields_in_json = false;
  options.allow_non_utf8 = false;
  return options;
}

// Takes "12: " off the start of the text and gives the 12; nothing where it starts otherwise.
std::optional<uint32_t> take_number(std::string_view& text) {
  uint32_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view rest = text.substr(end - text.data());
  if (error != std::errc() || !rest.starts_with(": ")) return std::nullopt;
  text = rest.substr(2);
  return number;
}

// The parser says "12: 5: error: unknown field: x, originally at: …".
tl::unexpected<Diagnostics> syntax_error(std::string_view message, const std::string& file) {
  Place place{.file = file};
  place.line = take_number(message);
  place.column = take_number(message);
  constexpr std::string_view error = "error: ";
  if (message.starts_with(error)) message.remove_prefix(error.size());
  message = message.substr(0, message.find(", originally at"));
  bool unknown = message.starts_with("unknown field");
  return fail(unknown ? "manifest.unknown_field" : "manifest.syntax", std::string(message),
              "export the model again, or correct the text by backends/manifest/manifest.fbs",
              std::move(place));
}

}  // namespace
}  // namespace manifest

Result<Manifest> from_json(std::string_view text, const std::string& file) {
  if (text.size() > kMaxManifestBytes)
    return fail("manifest.syntax", "the file is too large for a manifest", {}, {.file = file});
  // The parser takes a NUL for the end of the text.
  if (size_t nul = text.find('\0'); nul != std::string_view::npos)
    return fail("manifest.syntax", "the text holds a NUL byte", {}, {.file = file, .offset = nul});
  flatbuffers::Parser parser(manifest::strict_options());
  manifest::load_schema(parser);
  if (!parser.ParseJson(std::string(text).c_str()))
    return manifest::syntax_error(parser.error_, file);
  // That parser also takes comments, and numbers that begin with 0.
  if (!nlohmann::json::accept(text))
    return fail("manifest.syntax", "the text is not JSON: a comment, or a number like 012",
                "export the model again", {.file = file});
  std::string_view bytes(reinterpret_cast<const char*>(parser.builder_.GetBufferPointer()),
                         parser.builder_.GetSize());
  return from_bytes(bytes, file);
}

}  // namespace moec
