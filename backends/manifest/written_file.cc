#include "backends/manifest/written_file.h"

namespace moec::manifest {

FileRef describe_file(std::string path, const OutputFile& file) {
  return {std::move(path), static_cast<int64_t>(file.bytes()), file.digest(), file.sha256()};
}

Result<FileRef> write_listed_file(const std::string& folder, const std::string& path,
                                  std::string_view bytes, bool sha256) {
  MOEC_ASSIGN(OutputFile file, write_synced({folder, path}, bytes, sha256));
  MOEC_TRY(file.publish());
  return describe_file(path, file);
}

}  // namespace moec::manifest
