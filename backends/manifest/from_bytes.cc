// FlatBuffer → Manifest, for untrusted input. FlatBuffers' verifier ensures that every offset stays
// within the buffer. This reader also rejects absent fields, non-finite or too large numbers,
// unknown enum values, and shared parts. A small file with shared parts could expand to any amount
// of memory.
#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/manifest/fields.h"
#include "backends/manifest/manifest_file.h"
#include "backends/manifest/schema.h"
#include "ir/base/json_fields.h"
#include "manifest_generated.h"

namespace moec {
namespace manifest {

using flatbuffers::FieldDef;
using flatbuffers::StructDef;
using flatbuffers::Table;

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read in place");

class Reader {
 public:
  Reader(size_t bytes, const std::string& file) : left_(bytes), file_(file) {}

  // Returns false after the first finding.
  template <class T>
  bool table(const Table& from, const StructDef& def, T& into) {
    if (!spend(size_of(from))) return false;
    bool fine = true;
    each_field(into, [&](const char* name, auto& field) {
      if (!fine) return;
      size_t path_end = path_.size();
      path_ += path_end == 0 ? name : fmt::format(".{}", name);
      fine = read(from, field_of(def, name), field);
      // After a finding, path_ remains the path of the finding.
      if (fine) path_.resize(path_end);
    });
    return fine;
  }

  Diagnostics take_findings() { return std::move(findings_); }

 private:
  template <class T>
  bool read(const Table& from, const FieldDef& field, std::optional<T>& into) {
    if (!from.CheckField(field.value.offset)) return true;
    return read(from, field, into.emplace());
  }
  template <class T>
  bool read(const Table& from, const FieldDef& field, T& into) {
    // Rejects a missing field, because its default would be indistinguishable from a stored value.
    if (!from.CheckField(field.value.offset)) return missing();
    if constexpr (std::is_enum_v<T>)
      return read_enum(from, field, into);
    else if constexpr (std::is_arithmetic_v<T>)
      return read_number(from, field, into);
    else if constexpr (std::same_as<T, std::string>)
      return read_string(from, field, into);
    else
      return read_part(from, field, into);
  }

  template <class E>
  bool read_enum(const Table& from, const FieldDef& field, E& into) {
    std::string name;
    // Converts by name, because the numbers in the schema and in the C++ enum can differ.
    if (!read_name(from, field, name)) return false;
    std::optional<E> value = parse_text<E>(name);
    if (!value) return corrupt(fmt::format("{} is unknown", name));
    into = *value;
    return true;
  }
  bool read_name(const Table& from, const FieldDef& field, std::string& into) {
    // All enums of the schema are bytes. The verifier does not check their values.
    uint8_t number = from.GetField<uint8_t>(field.value.offset, 0);
    const flatbuffers::EnumVal* known = field.value.type.enum_def->ReverseLookup(number);
    if (!known) return corrupt(fmt::format("{} is not a value of {}", number, enum_of(field)));
    into = known->name;
    return true;
  }
  template <class T>
  bool read_number(const Table& from, const FieldDef& field, T& into) {
    // Reads a bool as a byte, because bytes other than 0 and 1 would be undefined behavior.
    using Stored = std::conditional_t<std::same_as<T, bool>, uint8_t, T>;
    into = static_cast<T>(from.GetField<Stored>(field.value.offset, 0));
    if constexpr (std::same_as<T, double>)
      if (!std::isfinite(into)) return corrupt("the number is not finite");
    if constexpr (std::same_as<T, int64_t>) return check_integer(into);
    return true;
  }
  // Same limit as manifest.json, so that every manifest can be written in both forms.
  bool check_integer(int64_t number) {
    if (number >= -kMaxInteger && number <= kMaxInteger) return true;
    return corrupt(
        fmt::format("{} is out of range, the limit is {} in magnitude", number, kMaxInteger));
  }
  bool read_string(const Table& from, const FieldDef& field, std::string& into) {
    if (field.value.type.enum_def) return read_name(from, field, into);
    const auto* text = from.GetPointer<const flatbuffers::String*>(field.value.offset);
    if (!spend(text->size())) return false;
    into.assign(text->data(), text->size());
    return true;
  }
  bool read_part(const Table& from, const FieldDef& field, std::vector<int64_t>& into) {
    const auto* numbers = from.GetPointer<const flatbuffers::Vector<int64_t>*>(field.value.offset);
    const size_t bytes = numbers->size() * sizeof(int64_t);
    if (!spend(bytes)) return false;
    // Copies bytes, because the verifier checks the alignment of the length but not of the
    // elements.
    into.resize(numbers->size());
    std::copy_n(numbers->Data(), bytes, reinterpret_cast<uint8_t*>(into.data()));
    return std::all_of(into.begin(), into.end(),
                       [this](int64_t number) { return check_integer(number); });
  }
  template <class T>
  bool read_part(const Table& from, const FieldDef& field, std::vector<T>& into) {
    using Items = flatbuffers::Vector<flatbuffers::Offset<Table>>;
    const Items& items = *from.GetPointer<const Items*>(field.value.offset);
    std::string outer = path_;
    for (flatbuffers::uoffset_t i = 0; i < items.size(); ++i) {
      path_ = fmt::format("{}[{}]", outer, i);
      if (!table(*items[i], *field.value.type.struct_def, into.emplace_back())) return false;
    }
    path_ = outer;
    return true;
  }
  template <class T>
  bool read_part(const Table& from, const FieldDef& field, T& into) {
    const auto* part = from.GetPointer<const Table*>(field.value.offset);
    return table(*part, *field.value.type.struct_def, into);
  }

  // Returns the size of a table in bytes, as recorded in its vtable.
  static size_t size_of(const Table& table) {
    return flatbuffers::ReadScalar<flatbuffers::voffset_t>(table.GetVTable() +
                                                           sizeof(flatbuffers::voffset_t));
  }
  static const std::string& enum_of(const FieldDef& field) {
    return field.value.type.enum_def->name;
  }

  // Each byte of the file may be read only once. moec's writer never shares parts, and shared parts
  // could need far more memory than the file.
  bool spend(size_t bytes) {
    if (bytes > left_) return corrupt("parts of the file are shared");
    left_ -= bytes;
    return true;
  }
  bool missing() {
    return report("manifest.missing_field", fmt::format("the manifest lacks {}", path_));
  }
  bool corrupt(const std::string& what) {
    return report("manifest.corrupt", fmt::format("{}: {}", path_, what));
  }
  bool report(const char* code, std::string cause) {
    findings_.push_back({.code = code,
                         .cause = std::move(cause),
                         .next_step = "export the model again",
                         .place = {.file = file_}});
    return false;
  }

  size_t left_;
  const std::string& file_;
  std::string path_;
  Diagnostics findings_;
};

bool is_well_formed(std::string_view bytes) {
  constexpr size_t smallest = 8;  // the root offset and the identifier
  if (bytes.size() < smallest || bytes.size() > kMaxManifestBytes) return false;
  flatbuffers::Verifier::Options options;
  // Without shared parts, at least one offset refers to each table.
  options.max_tables = bytes.size() / sizeof(flatbuffers::uoffset_t);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(),
                                 options);
  return wire::VerifyManifestBuffer(verifier);
}

}  // namespace
}  // namespace manifest

Result<Manifest> from_bytes(std::string_view bytes, const std::string& file) {
  // `bytes` may be unaligned; the copy is aligned.
  const std::vector<char> aligned(bytes.begin(), bytes.end());
  if (!manifest::is_well_formed({aligned.data(), aligned.size()}))
    return fail("manifest.corrupt", "the file is damaged or not a manifest",
                "export the model again", {.file = file});
  manifest::Reader reader(aligned.size(), file);
  Manifest manifest;
  const auto& root = *flatbuffers::GetRoot<flatbuffers::Table>(aligned.data());
  if (!reader.table(root, *manifest::schema().root_struct_def_, manifest))
    return fail(reader.take_findings());
  return manifest;
}

}  // namespace moec
