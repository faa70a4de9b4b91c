// The parsed schema, for this folder's .cc files only (it brings in the FlatBuffers parser).
#pragma once

#include <flatbuffers/idl.h>

namespace moec::manifest {

// A parser that knows manifest.fbs; parse JSON with a copy of its own.
const flatbuffers::Parser& schema();
void load_schema(flatbuffers::Parser& parser);

// The schema's field of that name; both the table and the field must exist.
const flatbuffers::FieldDef& field_of(const flatbuffers::StructDef& table, const char* name);

}  // namespace moec::manifest
