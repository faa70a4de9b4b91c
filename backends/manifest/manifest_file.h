// Reads and writes the two forms of a manifest: manifest.json for people and tools, manifest.bin
// (FlatBuffers, identifier "MOEC") for runtimes. Both hold the same values, numbers bit by bit;
// only manifest.json has Manifest::binary, the digest of manifest.bin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/file_names.h"
#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Errors, which name the field: manifest.not_utf8, manifest.not_finite.
Result<std::string> to_json(const Manifest& manifest);
// Error manifest.unknown_name for an unknown name in Build::routing or Build::experts.
Result<std::string> to_bytes(const Manifest& manifest);

// Strict. Errors, with line and column: manifest.unknown_field, manifest.missing_field, and
// manifest.syntax for everything else: malformed JSON, duplicate keys, values of another type,
// enums that are not known names. `file` names the text in the errors.
Result<Manifest> from_json(std::string_view text, const std::string& file = "manifest.json");
// Safe on any bytes. Errors: manifest.corrupt, manifest.missing_field.
Result<Manifest> from_bytes(std::string_view bytes, const std::string& file = "manifest.bin");

// Checks the manifest (manifest_check.h), then writes both files, each under a temporary name that
// is renamed when its bytes are on disk. Sets `binary` to the digest of manifest.bin, with SHA-256
// where the embedding, or the first file of weights, has one. manifest.json is written last: its
// presence means that the folder is complete. Errors: those of check_manifest and OutputFile.
Status write_manifest(Manifest& manifest, const std::string& folder);

// How many bytes both files of write_manifest() have.
Result<uint64_t> manifest_bytes(Manifest manifest);

// Whether the folder has a manifest.json, valid or not.
bool has_manifest(const std::string& folder);
// Whether the folder has a journal, kJournalFile, valid or not.
bool has_journal(const std::string& folder);
// Whether the folder has an export, finished or not.
bool holds_export(const std::string& folder);
// The sorted paths of the subfolders that have an export; none where the folder cannot be read.
std::vector<std::string> exports_in(const std::string& folder);

// Reads manifest.json and compares it with manifest.bin, if that exists. The result has passed
// check_manifest: its paths stay inside the folder, its schedule is connected. Errors:
// manifest.read, manifest.disagree, those of from_json, from_bytes and check_manifest.
Result<Manifest> read_manifest(const std::string& folder);

}  // namespace moec
