// Formats JSON values for messages.
#include <fmt/format.h>

#include "ir/base/json.h"

namespace moec {
namespace {

void append(std::string& out, const JsonValue& value, size_t limit);

struct Appender {
  std::string& out;
  size_t limit;

  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(int64_t value) const { out += std::to_string(value); }
  void operator()(double value) const { out += fmt::format("{}", value); }
  void operator()(const std::string& value) const { out += '"' + printable(value, limit) + '"'; }
  void operator()(const JsonValue::Array& items) const {
    out += '[';
    // Stops at `limit`, because a value of an untrusted file can have millions of elements.
    for (size_t i = 0; i < items.size() && out.size() <= limit; ++i) {
      if (i > 0) out += ", ";
      append(out, items[i], limit);
    }
    out += ']';
  }
  void operator()(const JsonValue::Object& members) const {
    out += '{';
    for (size_t i = 0; i < members.size() && out.size() <= limit; ++i) {
      out += fmt::format("{}\"{}\": ", i > 0 ? ", " : "", printable(members[i].key, limit));
      append(out, members[i].value, limit);
    }
    out += '}';
  }
};

void append(std::string& out, const JsonValue& value, size_t limit) {
  std::visit(Appender{out, limit}, value.data);
}

}  // namespace

std::string_view kind_name(const JsonValue& value) {
  static constexpr std::string_view kNames[] = {"null",     "a boolean", "an integer", "a number",
                                                "a string", "an array",  "an object"};
  // The names are in the order of the alternatives of the variant.
  static_assert(std::size(kNames) == std::variant_size_v<JsonValue::Data>);
  return kNames[value.data.index()];
}

std::string to_string(const JsonValue& value, size_t limit) {
  std::string out;
  append(out, value, limit);
  return printable(out, limit);
}

std::string printable(std::string_view text, size_t limit) {
  bool cut = text.size() > limit;
  if (cut) {
    while (limit > 0 && (text[limit] & 0xC0) == 0x80) --limit;  // not inside a character
    text = text.substr(0, limit);
  }
  std::string out(text);
  for (char& c : out)
    // A terminal could execute control characters, which could hide a part of the message.
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return cut ? out + "…" : out;
}

}  // namespace moec
