// Manifest → JSON. FlatBuffers' text generator keeps only twelve digits of a number; this writer
// uses enough to round-trip. Objects and lists that fit on one line are not split.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/manifest/fields.h"
#include "backends/manifest/manifest_file.h"

namespace moec {
namespace manifest {
namespace {

constexpr size_t kLineWidth = 100;

// Well-formed UTF-8 by the range of the first byte (the Unicode Standard, table 3-7). The range of
// the second byte excludes overlong forms, surrogates and code points above U+10FFFF.
struct Utf8Form {
  unsigned char first_low, first_high;
  size_t length;
  unsigned char second_low, second_high;
};
constexpr std::array kUtf8Forms = {
    Utf8Form{0x00, 0x7f, 1, 0x00, 0x00}, Utf8Form{0xc2, 0xdf, 2, 0x80, 0xbf},
    Utf8Form{0xe0, 0xe0, 3, 0xa0, 0xbf}, Utf8Form{0xe1, 0xec, 3, 0x80, 0xbf},
    Utf8Form{0xed, 0xed, 3, 0x80, 0x9f}, Utf8Form{0xee, 0xef, 3, 0x80, 0xbf},
    Utf8Form{0xf0, 0xf0, 4, 0x90, 0xbf}, Utf8Form{0xf1, 0xf3, 4, 0x80, 0xbf},
    Utf8Form{0xf4, 0xf4, 4, 0x80, 0x8f}};

bool is_within(char byte, unsigned char low, unsigned char high) {
  return static_cast<unsigned char>(byte) >= low && static_cast<unsigned char>(byte) <= high;
}

// Returns the length of the UTF-8 sequence at the start of `text`, which must not be empty; 0 if it
// is malformed or truncated.
size_t utf8_length(std::string_view text) {
  const auto form =
      std::find_if(kUtf8Forms.begin(), kUtf8Forms.end(), [&](const Utf8Form& candidate) {
        return is_within(text[0], candidate.first_low, candidate.first_high);
      });
  if (form == kUtf8Forms.end() || form->length > text.size()) return 0;
  if (form->length == 1) return 1;
  if (!is_within(text[1], form->second_low, form->second_high)) return 0;
  const std::string_view rest = text.substr(2, form->length - 2);
  const bool continues =
      std::all_of(rest.begin(), rest.end(), [](char byte) { return is_within(byte, 0x80, 0xbf); });
  return continues ? form->length : 0;
}

class JsonWriter {
 public:
  template <class T>
  std::string value(const T& value, size_t indent) {
    if constexpr (std::same_as<T, bool>)
      return value ? "true" : "false";
    else if constexpr (std::is_enum_v<T>)
      return quoted(text_of(value));
    else if constexpr (std::is_arithmetic_v<T>)
      return number(value);
    else
      return members(value, indent);
  }
  std::string value(const std::string& text, size_t) { return quoted(text); }
  template <class T>
  std::string value(const std::vector<T>& items, size_t indent) {
    std::vector<std::string> parts;
    std::string outer = path_;
    for (size_t i = 0; i < items.size(); ++i) {
      path_ = fmt::format("{}[{}]", outer, i);
      parts.push_back(value(items[i], indent + 2));
    }
    path_ = outer;
    return enclosed('[', std::move(parts), ']', indent);
  }

  Diagnostics findings;

 private:
  template <class T>
  std::string members(const T& object, size_t indent) {
    std::vector<std::string> parts;
    std::string outer = path_;
    each_field(object, [&](const char* name, const auto& field) {
      path_ = outer.empty() ? name : fmt::format("{}.{}", outer, name);
      member(name, field, indent + 2, parts);
    });
    path_ = outer;
    return enclosed('{', std::move(parts), '}', indent);
  }
  template <class T>
  void member(const char* name, const T& field, size_t indent, std::vector<std::string>& parts) {
    parts.push_back(value(field, indent).insert(0, fmt::format("\"{}\": ", name)));
  }
  template <class T>
  void member(const char* name, const std::optional<T>& field, size_t indent,
              std::vector<std::string>& parts) {
    if (field) member(name, *field, indent, parts);
  }

  template <class T>
  std::string number(T number) {
    if constexpr (std::same_as<T, double>)
      if (!std::isfinite(number)) report("manifest.not_finite", "is not a finite number");
    // fmt writes the shortest text that round-trips.
    return fmt::format("{}", number);
  }

  std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (size_t length; !text.empty(); text.remove_prefix(length)) {
      length = utf8_length(text);
      if (length == 0) return report("manifest.not_utf8", "is not UTF-8 text"), out;
      // JSON requires escapes for quotes, backslashes and control characters only.
      auto first = static_cast<unsigned char>(text[0]);
      if (first == '"' || first == '\\')
        out += fmt::format("\\{}", text[0]);
      else if (first < 0x20)
        out += fmt::format("\\u{:04x}", first);
      else
        out += text.substr(0, length);
    }
    return out + '"';
  }

  // Returns true if the parts fit on one line with commas and brackets.
  static bool fit_on_a_line(const std::vector<std::string>& parts, size_t indent) {
    // Counts the brackets and separators, but not the name of the member, which is added later.
    size_t width = indent + 2 + (parts.empty() ? 0 : 2 * (parts.size() - 1));
    for (const std::string& part : parts) width += part.size();
    return width <= kLineWidth && std::none_of(parts.begin(), parts.end(), [](const auto& part) {
             return part.find('\n') != std::string::npos;
           });
  }

  // Frees each part once it is in the text, because the text of a large model needs much memory.
  static std::string enclosed(char open, std::vector<std::string> parts, char close,
                              size_t indent) {
    if (fit_on_a_line(parts, indent))
      return fmt::format("{}{}{}", open, fmt::join(parts, ", "), close);
    const std::string inner = fmt::format("\n{:{}}", "", indent + 2);
    const std::string end = fmt::format("\n{:{}}{}", "", indent, close);
    size_t bytes = 1 + end.size();
    for (const std::string& part : parts) bytes += inner.size() + 1 + part.size();
    std::string text(1, open);
    // Reserves the exact size, because growing a large text would need both copies at once.
    text.reserve(bytes);
    for (std::string& part : parts) {
      if (&part != &parts.front()) text += ',';
      text += inner;
      text += part;
      part = {};
    }
    text += end;
    return text;
  }

  void report(const char* code, const char* what) {
    findings.push_back({.code = code, .cause = fmt::format("{} {}", path_, what)});
  }

  std::string path_;
};

}  // namespace
}  // namespace manifest

Result<std::string> to_json(const Manifest& manifest) {
  manifest::JsonWriter writer;
  std::string text = writer.value(manifest, 0);
  text += '\n';
  if (has_error(writer.findings)) return fail(std::move(writer.findings));
  return text;
}

}  // namespace moec
