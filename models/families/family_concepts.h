// Reads the "concepts" of a family descriptor.
#pragma once

#include "models/families/family.h"
#include "models/families/family_fields.h"

namespace moec {

// Fills family.concepts. Findings: family.unknown_field, family.missing_field,
// family.missing_concept, family.type, family.expression.
void read_concepts(FieldReader& reader, const JsonValue& root, Family& family);

// Reads one concept, {"keys": …, "default": …}.
ConceptRule read_concept_rule(FieldReader& reader, const Concept& item, const JsonValue& fields);

}  // namespace moec
