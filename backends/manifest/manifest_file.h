// Reads and writes both forms of a manifest: manifest.json for people and tools, manifest.bin
// (FlatBuffers, identifier "MOEC") for runtimes. Both contain the same values, with bit-exact
// numbers; only manifest.json has Manifest::binary, the digest of manifest.bin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/file_names.h"
#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Errors, with the field: manifest.not_utf8, manifest.not_finite.
Result<std::string> to_json(const Manifest& manifest);
// Error: manifest.unknown_name (an unknown name in Build::routing or Build::experts).
Result<std::string> to_bytes(const Manifest& manifest);

// Strict parser. Errors, with line and column: manifest.unknown_field, manifest.missing_field, and
// manifest.syntax for everything else: malformed JSON, duplicate keys, wrong types, unknown enum
// names. `file` is the file name in errors.
Result<Manifest> from_json(std::string_view text, const std::string& file = "manifest.json");
// Safe for untrusted input. Errors: manifest.corrupt, manifest.missing_field.
Result<Manifest> from_bytes(std::string_view bytes, const std::string& file = "manifest.bin");

// Checks the manifest (manifest_check.h), then writes each file under a temporary name and renames
// it once its bytes are on disk. Sets `binary` to the digest of manifest.bin, with a SHA-256 if the
// embedding, or the first weight file, has one. Writes manifest.json last: its presence means that
// the folder is complete. Errors: those of check_manifest() and OutputFile.
Status write_manifest(Manifest& manifest, const std::string& folder);

// Returns the total bytes of both files of write_manifest().
Result<uint64_t> manifest_bytes(Manifest manifest);

// Returns true if the folder has a manifest.json, valid or not.
bool has_manifest(const std::string& folder);
// Returns true if the folder has a journal, kJournalFile, valid or not.
bool has_journal(const std::string& folder);
// Returns true if the folder has an export, complete or not.
bool holds_export(const std::string& folder);
// Returns the sorted paths of the subfolders that have an export; empty if the folder cannot be
// read.
std::vector<std::string> exports_in(const std::string& folder);

// Reads manifest.json, compares it with manifest.bin if that exists, and runs check_manifest().
// Errors: manifest.read, manifest.disagree, those of from_json(), from_bytes() and
// check_manifest().
Result<Manifest> read_manifest(const std::string& folder);

}  // namespace moec
