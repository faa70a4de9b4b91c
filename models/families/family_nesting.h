// Reads the field "inside" of a family descriptor: the larger models that hold the family.
#pragma once

#include "models/families/family.h"
#include "models/families/family_fields.h"

namespace moec {

// Fills family.nested, and gives every role of the family the names that it has there, behind its
// own. All other fields of the family must have been read. Findings: those of concepts, and
// family.type, family.unknown_field, family.missing_field.
void read_nesting(FieldReader& reader, const JsonValue& root, Family& family);

}  // namespace moec
