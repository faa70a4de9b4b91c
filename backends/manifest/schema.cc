#include "backends/manifest/schema.h"

#include <memory>
#include <string>

#include "embedded/embedded_schema.h"
#include "ir/base/invariant.h"

namespace moec::manifest {

const flatbuffers::Parser& schema() {
  // Parses on first use. The initialization of a local static is thread-safe.
  static const auto parser = [] {
    auto made = std::make_unique<flatbuffers::Parser>();
    // Copies the text, because Parse() requires a terminated string.
    const std::string text(embedded_schema.front().text);
    MOEC_CHECK(made->Parse(text.c_str()), "manifest.fbs does not parse: {}", made->error_);
    return made;
  }();
  return *parser;
}

const flatbuffers::FieldDef& field_of(const flatbuffers::StructDef& table, const char* name) {
  const flatbuffers::FieldDef* field = table.fields.Lookup(name);
  MOEC_CHECK(field != nullptr, "manifest.fbs: table {} has no field {}", table.name, name);
  return *field;
}

}  // namespace moec::manifest
