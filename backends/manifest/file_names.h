// Names and limits of the files that describe an export's folder.
#pragma once

#include <cstdint>
#include <string_view>

namespace moec {

inline constexpr std::string_view kManifestJson = "manifest.json";
inline constexpr std::string_view kManifestBin = "manifest.bin";
// Present in a folder until the export there is complete: backends/output/journal.h.
inline constexpr const char* kJournalFile = "export.journal";
// A larger manifest is refused before it is read.
inline constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 28;

}  // namespace moec
