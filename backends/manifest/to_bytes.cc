// Manifest → FlatBuffer. Struct fields are matched with the schema's fields by name.
#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include "backends/manifest/fields.h"
#include "backends/manifest/manifest_file.h"
#include "backends/manifest/schema.h"
#include "ir/base/invariant.h"
#include "manifest_generated.h"

namespace moec {
namespace manifest {

using flatbuffers::FieldDef;
using flatbuffers::StructDef;
using flatbuffers::uoffset_t;

namespace {

template <class T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class TableWriter {
 public:
  // FlatBuffers are built bottom-up: strings, vectors and tables must be written before the table
  // that refers to them.
  template <class T>
  uoffset_t table(const T& value, const StructDef& def) {
    std::vector<uoffset_t> children;
    each_field(value, [&](const char* name, const auto& field) {
      children.push_back(child(field, field_of(def, name)));
    });
    uoffset_t start = builder_.StartTable();
    // The second pass visits the fields in the same order as the first.
    size_t next = 0;
    each_field(value, [&](const char* name, const auto& field) {
      add(field, field_of(def, name), children[next++]);
    });
    return builder_.EndTable(start);
  }

  Result<std::string> finish(uoffset_t root) {
    if (has_error(findings_)) return fail(std::move(findings_));
    builder_.Finish(flatbuffers::Offset<void>(root), wire::ManifestIdentifier());
    return std::string(reinterpret_cast<const char*>(builder_.GetBufferPointer()),
                       builder_.GetSize());
  }

 private:
  // Writes the value that the field refers to. Returns its offset; 0 if the value is inline or
  // absent.
  uoffset_t child(const std::string& text, const FieldDef& field) {
    return field.value.type.enum_def ? 0 : builder_.CreateString(text).o;
  }
  uoffset_t child(const std::vector<int64_t>& numbers, const FieldDef&) {
    return builder_.CreateVector(numbers).o;
  }
  template <class T>
  uoffset_t child(const std::vector<T>& items, const FieldDef& field) {
    std::vector<flatbuffers::Offset<void>> offsets;
    for (const T& item : items) offsets.emplace_back(table(item, *field.value.type.struct_def));
    return builder_.CreateVector(offsets).o;
  }
  template <class T>
  uoffset_t child(const std::optional<T>& item, const FieldDef& field) {
    return item ? child(*item, field) : 0;
  }
  template <class T>
  uoffset_t child(const T& value, const FieldDef& field) {
    if constexpr (Scalar<T>)
      return 0;
    else
      return table(value, *field.value.type.struct_def);
  }

  // AddElement() without a default writes every value, because from_bytes() requires all fields.
  template <class T>
  void add(const T& value, const FieldDef& field, uoffset_t offset) {
    if (offset != 0) return builder_.AddOffset(at(field), flatbuffers::Offset<void>(offset));
    if constexpr (std::is_enum_v<T>)
      add_name(text_of(value), field);
    else if constexpr (std::same_as<T, bool>)
      builder_.AddElement<uint8_t>(at(field), value);
    else if constexpr (Scalar<T>)
      builder_.AddElement<T>(at(field), value);
    else if constexpr (std::same_as<T, std::string>)
      add_name(value, field);
  }
  void add_name(std::string_view name, const FieldDef& field) {
    const flatbuffers::EnumDef& names = *field.value.type.enum_def;
    const flatbuffers::EnumVal* known = names.Lookup(std::string(name));
    // With an unknown name, the table lacks the field, but finish() then fails.
    if (known) return builder_.AddElement<uint8_t>(at(field), known->GetAsUInt64());
    findings_.push_back({.code = "manifest.unknown_name",
                         .cause = fmt::format("{} has no value \"{}\"", names.name, name),
                         .next_step = "use a name that manifest.fbs lists"});
  }
  static flatbuffers::voffset_t at(const FieldDef& field) { return field.value.offset; }

  flatbuffers::FlatBufferBuilder builder_;
  Diagnostics findings_;
};

}  // namespace
}  // namespace manifest

Result<std::string> to_bytes(const Manifest& manifest) {
  manifest::TableWriter writer;
  return writer.finish(writer.table(manifest, *manifest::schema().root_struct_def_));
}

}  // namespace moec
