// Writes an edited manifest in both forms.
#pragma once

#include <filesystem>
#include <fstream>

#include "backends/files/digest.h"
#include "backends/manifest/manifest_file.h"

namespace moec {

// Like write_manifest(), but also writes inconsistent manifests.
inline void write_both_forms(Manifest manifest, const std::string& folder) {
  const std::string bin = folder + "/manifest.bin";
  manifest.binary.reset();
  std::ofstream(bin, std::ios::binary) << to_bytes(manifest).value();
  manifest.binary = {"manifest.bin", static_cast<int64_t>(std::filesystem::file_size(bin)),
                     digest_file(bin).value(), ""};
  std::ofstream(folder + "/manifest.json") << to_json(manifest).value();
}

}  // namespace moec
