#include "frontends/export/export_files.h"

#include "backends/formats/format.h"
#include "backends/manifest/file_names.h"
#include "backends/output/carried_files.h"
#include "frontends/compile/compile_shard.h"
#include "frontends/sources/open_source.h"

namespace moec {

OutFiles files_to_write(const ExportOptions& options, const Plan& plan, const OutNames& names) {
  OutFiles files = {std::string(kManifestJson), std::string(kManifestBin), kReportFile};
  for (std::string& name : names.top_level())
    if (name != names.rope || plan.model.attention.rope.style != RopeStyle::none)
      files.insert(std::move(name));
  for (std::string& name : carried_names(source_folder(options.source.path)))
    files.insert(std::move(name));
  const Format& format = format_of(options.compile.passes.target.format);
  const FormatOptions choices{{}, options.compile.coreml};
  for (size_t i = 0; i < plan.shards.size(); ++i)
    for (std::string& name :
         format.file_names(names.stem_prefix + plan.shards[i].stem, graph_keys(plan, i), choices))
      files.insert(std::move(name));
  return files;
}

}  // namespace moec
