// The manifest's two forms, made from one object: manifest.json for readers, manifest.bin
// (FlatBuffers, identifier "MOEC") for runtimes. Both say the same, to the last bit of a number;
// manifest.json besides what the bytes of manifest.bin are, Manifest::binary.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/file_names.h"
#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Fails for text that is not UTF-8 ("manifest.not_utf8") and numbers that are not finite
// ("manifest.not_finite"), naming the field.
Result<std::string> to_json(const Manifest& manifest);
// Fails for unknown enum names of Build::routing and Build::experts ("manifest.unknown_name").
Result<std::string> to_bytes(const Manifest& manifest);

// Strict: "manifest.unknown_field", "manifest.missing_field", "manifest.syntax" for all else that
// is wrong in the text, with line and column. `file` names the text in the errors.
Result<Manifest> from_json(std::string_view text, const std::string& file = "manifest.json");
// Safe on any bytes: "manifest.corrupt", "manifest.missing_field".
Result<Manifest> from_bytes(std::string_view bytes, const std::string& file = "manifest.bin");

// Checks the manifest (manifest_check.h), then writes both files, each under a temporary name that
// is renamed when its bytes are on disk, and says in `binary` what manifest.bin has become, with
// SHA-256 where the embedding has one. manifest.json comes last: where it stands, the folder is
// complete. Fails with the errors of OutputFile.
Status write_manifest(Manifest& manifest, const std::string& folder);

// Whether there is a manifest.json, sound or not.
bool has_manifest(const std::string& folder);
// Whether there is a journal, kJournalFile, sound or not.
bool has_journal(const std::string& folder);
// Whether an export stands in a folder, finished or not.
bool holds_export(const std::string& folder);
// The paths of the folders in a folder that hold an export, in order; none where it cannot be read.
std::vector<std::string> exports_in(const std::string& folder);

// Reads manifest.json; manifest.bin, where there is one, must say the same ("manifest.disagree").
// The result has passed check_manifest: its paths stay in the folder, its schedule is connected.
Result<Manifest> read_manifest(const std::string& folder);

}  // namespace moec
