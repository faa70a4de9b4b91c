#include "frontends/jobs/validate/record_validation.h"

#include "backends/manifest/manifest_file.h"

namespace moec {

Status record_validation(const ValidationReport& report, const std::string& folder) {
  MOEC_ASSIGN(Manifest manifest, read_manifest(folder));
  const DType precision = report.precision == Precision::f16 ? DType::f16 : DType::f32;
  // A validation replaces earlier results of its precision and keeps those of the other one.
  std::erase_if(manifest.golden,
                [&](const manifest::Golden& golden) { return golden.precision == precision; });
  for (const ShardReport& shard : report.shards)
    manifest.golden.push_back(
        {shard.shard, precision, shard.alone.cosine, shard.alone.relative_l2});
  return write_manifest(manifest, folder);
}

}  // namespace moec
