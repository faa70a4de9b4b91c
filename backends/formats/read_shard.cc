#include "backends/formats/read_shard.h"

#include "backends/formats/format.h"

namespace moec {

Result<LoadedShard> read_shard(const Manifest& manifest, const std::string& folder,
                               const manifest::Width& width) {
  const std::string path = folder + "/" + width.file.path;
  const Format& format = format_of(manifest.build.format);
  MOEC_TRY(require_graphs(format, path));
  // Formats whose files hold a single graph ignore the function and the width.
  return format.read(path, {.function = width.function, .tokens = width.tokens});
}

}  // namespace moec
