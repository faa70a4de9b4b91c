// JSON → Manifest, using the same field lists as the writers (fields.h). Enums are names, never
// numbers, so that a manifest does not depend on their order.
#include <fmt/format.h>

#include "backends/manifest/fields.h"
#include "backends/manifest/manifest_file.h"
#include "backends/manifest/schema.h"
#include "ir/base/json_fields.h"

namespace moec {
namespace manifest {

using flatbuffers::FieldDef;
using flatbuffers::StructDef;

namespace {

// A manifest has a depth of nine: shards, widths, inputs, dims. Its largest member, `shards`, has
// about five values per weight.
constexpr JsonLimits kJsonLimits{.bytes = kMaxManifestBytes, .depth = 16, .values = 16 << 20};

JsonCodes codes() {
  JsonCodes codes = JsonCodes::all_as(
      "manifest.syntax",
      "export the model again, or correct the text according to backends/manifest/manifest.fbs");
  codes.missing_field = "manifest.missing_field";
  codes.unknown_field = "manifest.unknown_field";
  return codes;
}

Status read_number(JsonFields& from, const char* name, int64_t& into) {
  return from.integer(name, into);
}
Status read_number(JsonFields& from, const char* name, double& into) {
  return from.number(name, into);
}
Status read_number(JsonFields& from, const char* name, bool& into) {
  return from.boolean(name, into);
}

template <class E>
Status read_enum(JsonFields& from, const char* name, E& into) {
  std::string text;
  MOEC_TRY(from.text(name, text));
  const std::optional<E> value = parse_text<E>(text);
  if (!value)
    return from.bad(name, fmt::format("has the unknown name \"{}\"", printable(text, 60)));
  into = *value;
  return {};
}

// Some fields are enums in the schema but strings in C++.
Status read_string(JsonFields& from, const FieldDef& field, std::string& into) {
  const char* name = field.name.c_str();
  MOEC_TRY(from.text(name, into));
  const flatbuffers::EnumDef* names = field.value.type.enum_def;
  if (names && !names->Lookup(into))
    return from.bad(name, fmt::format("has the unknown name \"{}\"", printable(into, 60)));
  return {};
}

// Declared before read_list(), because lists and tables contain each other.
template <class T>
Status read_table(JsonFields from, const StructDef& def, T& into);

Status read_list(JsonFields& from, const FieldDef& field, std::vector<int64_t>& into) {
  return from.integers(field.name, into);
}
template <class T>
Status read_list(JsonFields& from, const FieldDef& field, std::vector<T>& into) {
  return from.each(field.name, [&](JsonFields& item) {
    return read_table(std::move(item), *field.value.type.struct_def, into.emplace_back());
  });
}

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};

template <class T>
Status read_field(JsonFields& from, const FieldDef& field, T& into) {
  const char* name = field.name.c_str();
  if constexpr (std::is_enum_v<T>) {
    return read_enum(from, name, into);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return read_number(from, name, into);
  } else if constexpr (std::same_as<T, std::string>) {
    return read_string(from, field, into);
  } else if constexpr (IsList<T>::value) {
    return read_list(from, field, into);
  } else {
    MOEC_ASSIGN(JsonFields part, from.object(name));
    return read_table(std::move(part), *field.value.type.struct_def, into);
  }
}
template <class T>
Status read_field(JsonFields& from, const FieldDef& field, std::optional<T>& into) {
  return from.has(field.name) ? read_field(from, field, into.emplace()) : Status();
}

template <class T>
Status read_table(JsonFields from, const StructDef& def, T& into) {
  Status status;
  // each_field() cannot stop early, so the fields after an error are skipped.
  each_field(into, [&](const char* name, auto& field) {
    if (status) status = read_field(from, field_of(def, name), field);
  });
  // finish() rejects unknown fields, which would otherwise be ignored.
  return status ? from.finish() : status;
}

}  // namespace
}  // namespace manifest

Result<Manifest> from_json(std::string_view text, const std::string& file) {
  const JsonReport report(text, file, manifest::codes());
  MOEC_ASSIGN(const JsonValue root, report.parse(manifest::kJsonLimits));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  Manifest manifest;
  MOEC_TRY(manifest::read_table(std::move(fields), *manifest::schema().root_struct_def_, manifest));
  return manifest;
}

}  // namespace moec
