// The parsed schema. Include this header only in .cc files of this folder, because it includes the
// FlatBuffers parser.
#pragma once

#include <flatbuffers/idl.h>

namespace moec::manifest {

// Returns the parser, loaded with the embedded manifest.fbs.
const flatbuffers::Parser& schema();

// Returns the table's field with that name, which must exist.
const flatbuffers::FieldDef& field_of(const flatbuffers::StructDef& table, const char* name);

}  // namespace moec::manifest
