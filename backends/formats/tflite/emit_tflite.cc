#include "backends/formats/tflite/emit_tflite.h"

#include <fmt/format.h>

#include <filesystem>

#include "backends/emit/expert_order.h"
#include "backends/emit/shard_facts.h"
#include "backends/emit/write_weights.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/formats/tflite/check_tflite.h"
#include "backends/formats/tflite/path_names.h"
#include "backends/formats/tflite/subgraph_writer.h"
#include "backends/formats/tflite/tflite_codes.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

void collect_weights(const Shard& shard, const ExpertLayout& experts, DataLayout& layout) {
  const PathNames names(shard);
  ExpertOrder order(shard, experts);
  for (const OpId id : order.ops())
    if (const auto* weight = std::get_if<Weight>(&shard.ops[id].data)) {
      const ValueId value = shard.ops[id].results.front();
      order.begin(id, layout);
      layout.add(*weight, shard.type(value), names.of(value), CodeForm::signed_codes,
                 scale_dtype(weight->encoding, shard.type(value)));
    }
}

// All widths share one layout, so each distinct weight is stored once. `head` is the number of
// bytes before the weights.
DataLayout lay_out(std::span<const ShardWidth> widths, const ExpertLayout& experts, uint64_t head) {
  DataLayout layout({.alignment = kTfliteDataAlignment, .parameters = 64, .file_head = head});
  for (const ShardWidth& width : widths) collect_weights(*width.shard, experts, layout);
  return layout;
}

Status check_widths(std::span<const ShardWidth> widths) {
  for (const ShardWidth& width : widths) MOEC_TRY(check_tflite(*width.shard));
  return {};
}

// Bytes of the constants, which are inside the flatbuffer. FlatBufferBuilder aborts above 2 GiB, so
// they are counted before it is called; the rest of a flatbuffer has some MiB.
uint64_t constant_bytes(std::span<const ShardWidth> widths) {
  uint64_t bytes = 0;
  for (const ShardWidth& width : widths)
    for (const Op& op : width.shard->ops)
      if (const auto* constant = std::get_if<Constant>(&op.data))
        bytes += static_cast<uint64_t>(constant->type.bytes());
  return bytes;
}

Status check_size(uint64_t bytes, const EmitOptions& options, const std::string& path) {
  if (bytes <= options.limits.graph_bytes / 2) return {};
  return fail("emit.graph_too_large",
              fmt::format("the graphs have {} bytes of constants, the limit is {}", bytes,
                          options.limits.graph_bytes / 2),
              "split the shard, or fold fewer constants", {.file = path});
}

std::string write_model(std::span<const ShardWidth> widths, const DataLayout& layout,
                        const EmitOptions& options) {
  ModelWriter model;
  for (const ShardWidth& width : widths)
    add_shard(*width.shard, layout, to_string(width.key(), '_'), options.experts.layers, model);
  model.add_metadata("moec.version", MOEC_VERSION);
  return model.finish(describe_file(*widths.front().shard, options.family));
}

struct Prepared {
  DataLayout layout;
  std::string model;
};

// The flatbuffer states offsets that depend on its own size. Offsets have a fixed number of bytes,
// so a first flatbuffer, with other offsets, has the size of the second one.
Prepared prepare(std::span<const ShardWidth> widths, const EmitOptions& options) {
  const DataLayout guess = lay_out(widths, options.experts, kTfliteDataAlignment);
  const uint64_t size = write_model(widths, guess, options).size();
  const uint64_t head = (size + kTfliteDataAlignment - 1) / kTfliteDataAlignment;
  Prepared prepared{lay_out(widths, options.experts, head * kTfliteDataAlignment), {}};
  prepared.model = write_model(widths, prepared.layout, options);
  MOEC_CHECK(prepared.model.size() == size, "the flatbuffer has {} bytes instead of {}",
             prepared.model.size(), size);
  return prepared;
}

}  // namespace

std::vector<std::string> tflite_file_names(const std::string& stem) { return {stem + ".tflite"}; }

Result<std::vector<WeightView>> tflite_weight_views(std::span<const ShardWidth> widths,
                                                    const ExpertLayout& experts) {
  MOEC_TRY(check_widths(widths));
  return lay_out(widths, experts, 0).views();
}

Result<EmitReport> emit_tflite(std::span<const ShardWidth> widths, const WeightReader& weights,
                               const EmitOptions& options) {
  MOEC_CHECK(!widths.empty(), "{} has no token width", options.stem);
  const std::string name = tflite_file_names(options.stem).front();
  MOEC_TRY(check_widths(widths));
  MOEC_TRY(check_size(constant_bytes(widths), options, name));
  const Prepared prepared = prepare(widths, options);
  MOEC_TRY(check_layout(prepared.layout, weights, options.tile_bytes));

  const uint64_t bytes = std::max<uint64_t>(prepared.layout.file_bytes(), prepared.model.size());
  MOEC_ASSIGN(OutputFile file, OutputFile::create({options.folder, name}, bytes, options.sha256));
  MOEC_TRY(file.write(std::as_bytes(std::span(prepared.model))));
  EmitReport report;
  const auto begin = [&](const DataLayout::Entry& entry) { return file.pad_to(entry.offset); };
  MOEC_TRY(write_weights(prepared.layout, weights, options, begin, file, report));
  MOEC_TRY(file.sync());
  const EmittedFile described{name, file.bytes(), file.digest(), file.sha256()};
  for (const GraphKey& key : keys_of(widths))
    report.graphs.push_back({key.tokens, described, to_string(key, '_'), key.top_k});
  if (!prepared.layout.empty()) report.data.push_back(described);
  MOEC_TRY(file.remove_older());
  MOEC_TRY(file.publish());
  MOEC_TRY(sync_folder(fs::path(file.path()).parent_path().string()));
  return report;
}

}  // namespace moec
