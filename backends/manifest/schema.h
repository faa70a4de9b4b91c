// The parsed schema. Only the .cc files of this folder include this header, because it brings in
// the FlatBuffers parser.
#pragma once

#include <flatbuffers/idl.h>

namespace moec::manifest {

// The parser that has read manifest.fbs, which is compiled in.
const flatbuffers::Parser& schema();

// The table's field of that name, which must exist.
const flatbuffers::FieldDef& field_of(const flatbuffers::StructDef& table, const char* name);

}  // namespace moec::manifest
