// Manifest → JSON. FlatBuffers' text generator is not used, because it keeps only twelve digits of
// a number: numbers written here read back exactly. Objects and lists that fit on a line stay on
// one.
#include <fmt/format.h>

#include <cmath>

#include "backends/manifest/fields.h"
#include "backends/manifest/manifest_file.h"

namespace moec {
namespace manifest {
namespace {

constexpr size_t kLineWidth = 100;

// The length of the UTF-8 sequence at the start of `text`, or 0 where it is malformed: overlong,
// a surrogate, beyond U+10FFFF, or cut short.
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(0);
  size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length == 0 || lead > 0xf4 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (length < 3) return length;
  unsigned char next = byte(1);
  bool malformed = (lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) ||
                   (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f);
  return malformed ? 0 : length;
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
    return enclosed('[', parts, ']', indent);
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
    return enclosed('{', parts, '}', indent);
  }
  template <class T>
  void member(const char* name, const T& field, size_t indent, std::vector<std::string>& parts) {
    parts.push_back(fmt::format("\"{}\": {}", name, value(field, indent)));
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
    return fmt::format("{}", number);
  }

  std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (size_t length; !text.empty(); text.remove_prefix(length)) {
      length = utf8_length(text);
      if (length == 0) return report("manifest.not_utf8", "is not UTF-8 text"), out;
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

  static std::string enclosed(char open, const std::vector<std::string>& parts, char close,
                              size_t indent) {
    std::string line = fmt::format("{}{}{}", open, fmt::join(parts, ", "), close);
    bool fits = indent + line.size() <= kLineWidth && line.find('\n') == std::string::npos;
    if (fits) return line;
    std::string inner = fmt::format("\n{:{}}", "", indent + 2);
    return fmt::format("{}{}{}\n{:{}}{}", open, inner, fmt::join(parts, "," + inner), "", indent,
                       close);
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
  std::string text = writer.value(manifest, 0) + '\n';
  if (has_error(writer.findings)) return fail(std::move(writer.findings));
  return text;
}

}  // namespace moec
