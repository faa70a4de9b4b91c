#include "frontends/jobs/inspect/inspect_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/formats/format.h"
#include "backends/manifest/manifest_file.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/open_source.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> no_shard_file(const std::string& path) {
  std::vector<std::string_view> kinds;
  for (const Format& format : all_formats()) kinds.push_back(format.about);
  return fail("inspect.kind", fmt::format("the file is neither {}", fmt::join(kinds, " nor ")),
              "give one of these, or the folder of a checkpoint or an export", {.file = path});
}

// What one kind of source was read as.
template <class T>
Result<Inspected> inspected(Result<T> found) {
  if (!found) return fail(std::move(found.error()));
  return Inspected(std::move(*found));
}

}  // namespace

Result<Inspected> inspect_source(const InspectOptions& options) {
  namespace fs = std::filesystem;
  const std::string& source = options.source;
  std::error_code error;
  const bool is_file = fs::is_regular_file(source, error);
  const bool is_absent = !fs::exists(source, error);
  const Format* format = format_of_path(source);
  if (format && (format->graph_is_folder || is_file || is_absent))
    return inspected(format->read(source, {.function = options.function}));
  if (names_gguf(source)) return inspected(open_source(source, options.family_file, equal_tensors));
  if (is_file) return no_shard_file(source);
  if (fs::exists(fs::path(source) / kManifestJson, error)) return inspected(read_manifest(source));
  return inspected(open_source(source, options.family_file, equal_tensors));
}

}  // namespace moec
