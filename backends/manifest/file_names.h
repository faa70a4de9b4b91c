// Names and size limits of the files that describe an export's folder.
#pragma once

#include <cstdint>
#include <string_view>

namespace moec {

inline constexpr std::string_view kManifestJson = "manifest.json";
inline constexpr std::string_view kManifestBin = "manifest.bin";
// Subfolder of a node with the manifest of the export that was split.
inline constexpr std::string_view kWholeFolder = "whole";
// Present until the export in the folder is complete: backends/output/journal.h.
inline constexpr const char* kJournalFile = "export.journal";
// Compiled graphs that engines cache in an export's folder: ".openvino/….blob". They are derived
// from the export's files, are not part of it, and may be removed at any time.
inline constexpr const char* kCompiledFolder = ".openvino";
inline constexpr std::string_view kCompiledSuffix = ".blob";
// A larger manifest is rejected before it is read.
inline constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 28;

}  // namespace moec
