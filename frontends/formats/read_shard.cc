#include "frontends/formats/read_shard.h"

#include "frontends/coreml/read_coreml.h"
#include "frontends/onnx/read_onnx.h"
#include "ir/base/invariant.h"

namespace moec {

Result<LoadedShard> read_shard(const Manifest& manifest, const std::string& folder,
                               const manifest::Width& width) {
  const std::string path = folder + "/" + width.file.path;
  switch (manifest.build.format) {
    case ShardFormat::onnx:
      return read_onnx(path);
    case ShardFormat::coreml:
      return read_coreml(path, {.function = width.function, .tokens = width.tokens});
  }
  MOEC_CHECK(false, "shard format {} has no reader", enum_name(manifest.build.format));
}

}  // namespace moec
