#include "backends/formats/tflite/emit_tflite.h"

#include <filesystem>

#include "backends/emit/shard_facts.h"
#include "backends/emit/write_weights.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/formats/tflite/check_tflite.h"
#include "backends/formats/tflite/subgraph_writer.h"
#include "backends/formats/tflite/tflite_contents.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

Status check_widths(std::span<const ShardWidth> widths) {
  for (const ShardWidth& width : widths) MOEC_TRY(check_tflite(*width.shard));
  return {};
}

TfliteSource source_of(std::span<const ShardWidth> widths, const ExpertLayout& experts) {
  TfliteSource source{.shards = {}, .experts = experts};
  for (const ShardWidth& width : widths) source.shards.push_back(width.shard);
  return source;
}

}  // namespace

std::vector<std::string> tflite_file_names(const std::string& stem) { return {stem + ".tflite"}; }

Result<std::vector<WeightView>> tflite_weight_views(std::span<const ShardWidth> widths,
                                                    const ExpertLayout& experts) {
  MOEC_TRY(check_widths(widths));
  return views_of(source_of(widths, experts));
}

Result<EmitReport> emit_tflite(std::span<const ShardWidth> widths, const WeightReader& weights,
                               const EmitOptions& options) {
  MOEC_CHECK(!widths.empty(), "{} has no token width", options.stem);
  const std::string name = tflite_file_names(options.stem).front();
  MOEC_TRY(check_widths(widths));
  TfliteSource source = source_of(widths, options.experts);
  MOEC_TRY(check_constant_bytes(source.shards, options.limits, name));
  source.write_model = [&](const DataLayout& layout, ModelWriter& model) {
    for (const ShardWidth& width : widths)
      add_shard(*width.shard, layout, to_string(width.key(), '_'), options.experts.layers, model);
    model.add_metadata("moec.version", MOEC_VERSION);
    return model.finish(describe_file(*widths.front().shard, options.family));
  };
  const TfliteContents contents = lay_out_contents(source);
  MOEC_TRY(check_layout(contents.weights, weights, options.tile_bytes));

  MOEC_ASSIGN(OutputFile file,
              OutputFile::create({options.folder, name}, contents.end(), options.sha256));
  EmitReport report;
  MOEC_TRY(write_contents(contents, weights, options, file, report));
  MOEC_TRY(file.sync());
  const EmittedFile described{name, file.bytes(), file.digest(), file.sha256()};
  for (const GraphKey& key : keys_of(widths))
    report.graphs.push_back({key.tokens, described, to_string(key, '_'), key.top_k});
  if (!contents.weights.empty()) report.data.push_back(described);
  MOEC_TRY(file.remove_older());
  MOEC_TRY(file.publish());
  MOEC_TRY(sync_folder(fs::path(file.path()).parent_path().string()));
  return report;
}

}  // namespace moec
