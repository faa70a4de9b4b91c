#include "backends/formats/onnx/emit_onnx.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "backends/emit/data_layout.h"
#include "backends/emit/message_bytes.h"
#include "backends/emit/write_weights.h"
#include "backends/files/output_file.h"
#include "backends/files/sha.h"
#include "backends/files/sync_tree.h"
#include "backends/formats/onnx/graph_writer.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

EmittedFile describe(const OutputFile& file, std::string path) {
  return {std::move(path), file.bytes(), file.digest(), file.sha256()};
}

// The graphs without the payload's checksum. They are built before any payload is read, so that
// errors in the shard are reported before the payload is written, which can take minutes.
struct Prepared {
  DataLayout layout{kOnnxData};
  std::vector<onnx::ModelProto> models;  // without a checksum
};

// By default, `limit` is the protobuf limit for a message, 2^31 - 1 bytes.
Status check_size(const onnx::ModelProto& model, const std::string& path, uint64_t limit) {
  // The checksum is added later: 40 hex digits and their framing per tensor.
  constexpr uint64_t kChecksumBytes = 64;
  const uint64_t bytes = model.ByteSizeLong() +
                         kChecksumBytes * static_cast<uint64_t>(model.graph().initializer_size());
  if (bytes <= limit) return {};
  return fail("emit.graph_too_large",
              fmt::format("the graph would have {} bytes, the limit is {}", bytes, limit),
              "split the shard, or fold fewer constants", {.file = path});
}

// All widths share one layout, so each distinct weight is stored once.
Result<DataLayout> lay_out(std::span<const ShardWidth> widths, const ExpertLayout& experts) {
  DataLayout layout(kOnnxData);
  for (const ShardWidth& width : widths) {
    MOEC_TRY(check_emittable(*width.shard));
    collect_weights(*width.shard, experts, layout);
  }
  return layout;
}

Result<Prepared> prepare(std::span<const ShardWidth> widths, const WeightReader& weights,
                         const EmitOptions& options, const OnnxOptions& onnx,
                         std::span<const std::string> paths) {
  Prepared prepared;
  MOEC_ASSIGN(prepared.layout, lay_out(widths, options.experts));
  MOEC_TRY(check_layout(prepared.layout, weights, options.tile_bytes));
  // External data are located relative to the folder of the graph, so the location has no folder.
  const std::string location = fs::path(paths.back()).filename().string();
  for (size_t i = 0; i < widths.size(); ++i) {
    onnx::ModelProto& model = prepared.models.emplace_back();
    write_model(*widths[i].shard, prepared.layout, location,
                {MOEC_VERSION, options.family, options.experts.layers, onnx}, model);
    MOEC_TRY(check_size(model, paths[i], options.limits.graph_bytes));
  }
  return prepared;
}

// If `sha1` is set, updates it with all bytes of the file.
Result<OutputFile> write_data(const DataLayout& layout, const WeightReader& weights,
                              const EmitOptions& options, const std::string& name, Sha* sha1,
                              EmitReport& report) {
  std::function<void(std::span<const std::byte>)> observer;
  // The checksum is computed while the file is written, so the payload is read only once.
  if (sha1) observer = [sha1](auto bytes) { sha1->update(bytes); };
  MOEC_ASSIGN(OutputFile file, OutputFile::create({options.folder, name}, layout.file_bytes(),
                                                  options.sha256, std::move(observer)));
  auto begin = [&](const DataLayout::Entry& entry) { return file.pad_to(entry.offset); };
  MOEC_TRY(write_weights(layout, weights, options, begin, file, report));
  MOEC_TRY(file.sync());
  return file;
}

// The data file is published first, so that a graph under its final name always finds its data.
// Graphs of an earlier export may state other offsets, so they are removed before the new data
// appears.
Status publish(std::optional<OutputFile>& data, std::vector<OutputFile>& graphs) {
  for (const OutputFile& graph : graphs) MOEC_TRY(graph.remove_older());
  if (data) MOEC_TRY(data->publish());
  for (OutputFile& graph : graphs) MOEC_TRY(graph.publish());
  return sync_folder(fs::path(graphs.front().path()).parent_path().string());
}

}  // namespace

std::vector<std::string> onnx_file_names(const std::string& stem, std::span<const GraphKey> keys) {
  std::vector<std::string> names;
  for (const GraphKey& key : keys)
    names.push_back(fmt::format("{}.{}.onnx", stem, to_string(key, '.')));
  names.push_back(stem + ".data");
  return names;
}

Result<std::vector<WeightView>> onnx_weight_views(std::span<const ShardWidth> widths,
                                                  const ExpertLayout& experts) {
  MOEC_ASSIGN(const DataLayout layout, lay_out(widths, experts));
  return layout.views();
}

Result<EmitReport> emit_onnx(std::span<const ShardWidth> widths, const WeightReader& weights,
                             const EmitOptions& options, const OnnxOptions& onnx) {
  MOEC_CHECK(!widths.empty(), "{} has no token width", options.stem);
  const std::vector<GraphKey> keys = keys_of(widths);
  const std::vector<std::string> names = onnx_file_names(options.stem, keys);
  MOEC_ASSIGN(Prepared prepared, prepare(widths, weights, options, onnx, names));

  EmitReport report;
  std::optional<OutputFile> data;
  if (!prepared.layout.empty()) {
    Sha sha1(ShaKind::sha1);
    MOEC_ASSIGN(data, write_data(prepared.layout, weights, options, names.back(),
                                 onnx.checksum ? &sha1 : nullptr, report));
    report.data.push_back(describe(*data, names.back()));
    // The graphs are written after the data, because they contain its checksum.
    if (onnx.checksum) set_checksum(sha1.finish_hex(), prepared.models);
  }
  std::vector<OutputFile> graphs;
  for (size_t i = 0; i < widths.size(); ++i) {
    MOEC_ASSIGN(OutputFile graph, write_synced({options.folder, names[i]},
                                               message_bytes(prepared.models[i]), options.sha256));
    report.graphs.push_back({keys[i].tokens, describe(graph, names[i]), {}, keys[i].top_k});
    graphs.push_back(std::move(graph));
  }
  MOEC_TRY(publish(data, graphs));
  return report;
}

}  // namespace moec
