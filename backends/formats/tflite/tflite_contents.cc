#include "backends/formats/tflite/tflite_contents.h"

#include <fmt/format.h>

#include "backends/emit/expert_order.h"
#include "backends/emit/write_weights.h"
#include "backends/formats/tflite/model_writer.h"
#include "backends/formats/tflite/path_names.h"
#include "backends/formats/tflite/tflite_codes.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

bool has_row_scales(const Weight& weight, const Type& type) {
  return tflite_weight_form(weight.encoding, type) == TfliteWeightForm::rows;
}

void collect_weights(const Shard& shard, const ExpertLayout& experts, DataLayout& layout) {
  const PathNames names(shard);
  ExpertOrder order(shard, experts);
  for (const OpId id : order.ops())
    if (const auto* weight = std::get_if<Weight>(&shard.ops[id].data)) {
      const ValueId value = shard.ops[id].results.front();
      const Type& type = shard.type(value);
      order.begin(id, layout);
      if (has_row_scales(*weight, type))
        layout.add_codes(*weight, type, names.of(value));
      else
        layout.add(*weight, type, names.of(value), CodeForm::signed_codes,
                   scale_dtype(weight->encoding, type));
    }
}

// All graphs share one layout, so each distinct weight is stored once. `head` is the position of
// the first weight.
DataLayout lay_out_weights(const TfliteSource& source, uint64_t head) {
  DataLayout layout({.alignment = kTfliteDataAlignment, .parameters = 64, .file_head = head});
  if (source.add_tables) source.add_tables(layout);
  for (const Shard* shard : source.shards) collect_weights(*shard, source.experts, layout);
  return layout;
}

// The scales per row, which lie inside the flatbuffer (ModelWriter), from `head` on.
DataLayout lay_out_scales(const TfliteSource& source, uint64_t head) {
  constexpr uint64_t kElement = sizeof(float), kCount = 4;
  DataLayout layout({.alignment = kElement, .file_head = head, .entry_lead = kCount});
  for (const Shard* shard : source.shards) {
    const PathNames names(*shard);
    for (const Op& op : shard->ops)
      if (const auto* weight = std::get_if<Weight>(&op.data)) {
        const ValueId value = op.results.front();
        const Type& type = shard->type(value);
        if (has_row_scales(*weight, type)) layout.add_scales(*weight, type, names.of(value));
      }
  }
  return layout;
}

std::string write_model(const TfliteSource& source, const DataLayout& weights, uint64_t begin) {
  ModelWriter model(lay_out_scales(source, 0), begin);
  return source.write_model(weights, model);
}

// Writes the flatbuffer with the scales.
Status write_head(const TfliteContents& contents, const WeightReader& weights,
                  const EmitOptions& options, OutputFile& file, EmitReport& report) {
  const auto bytes = std::as_bytes(std::span(contents.model));
  const auto rest = [&] { return bytes.subspan(file.bytes() - contents.begin); };
  const auto begin = [&](const DataLayout::Entry& entry) {
    return file.write(rest().first(entry.offset - file.bytes()));
  };
  MOEC_TRY(write_weights(contents.scales, weights, options, begin, file, report));
  return file.write(rest());
}

}  // namespace

// FlatBufferBuilder aborts above 2 GiB, so the bytes are counted before it is called; the rest of a
// flatbuffer has some MiB.
Status check_constant_bytes(const std::vector<const Shard*>& shards, const FileLimits& limits,
                            const std::string& path) {
  uint64_t bytes = 0;
  for (const Shard* shard : shards)
    for (const Op& op : shard->ops)
      if (const auto* constant = std::get_if<Constant>(&op.data))
        bytes += static_cast<uint64_t>(constant->type.bytes());
  if (bytes <= limits.graph_bytes / 2) return {};
  return fail("emit.graph_too_large",
              fmt::format("the graphs have {} bytes of constants, the limit is {}", bytes,
                          limits.graph_bytes / 2),
              "split the shard, or fold fewer constants", {.file = path});
}

// The flatbuffer states offsets that depend on its own size. Offsets have a fixed number of bytes,
// so a first flatbuffer, with other offsets, has the size of the second one.
TfliteContents lay_out_contents(const TfliteSource& source, uint64_t begin) {
  const DataLayout guess = lay_out_weights(source, begin + kTfliteDataAlignment);
  const uint64_t size = write_model(source, guess, begin).size();
  const uint64_t blocks = (size + kTfliteDataAlignment - 1) / kTfliteDataAlignment;
  const uint64_t scales = begin + size - lay_out_scales(source, 0).file_bytes();
  TfliteContents contents{begin,
                          lay_out_scales(source, scales),
                          lay_out_weights(source, begin + blocks * kTfliteDataAlignment),
                          {}};
  contents.model = write_model(source, contents.weights, begin);
  MOEC_CHECK(contents.model.size() == size, "the flatbuffer has {} bytes instead of {}",
             contents.model.size(), size);
  return contents;
}

std::vector<WeightView> views_of(const TfliteSource& source) {
  std::vector<WeightView> views = lay_out_scales(source, 0).views();
  for (WeightView& view : lay_out_weights(source, 0).views()) views.push_back(std::move(view));
  return views;
}

Status write_contents(const TfliteContents& contents, const WeightReader& weights,
                      const EmitOptions& options, OutputFile& file, EmitReport& report) {
  EmitReport head;
  MOEC_TRY(write_head(contents, weights, options, file, head));
  const auto begin = [&](const DataLayout::Entry& entry) { return file.pad_to(entry.offset); };
  MOEC_TRY(write_weights(contents.weights, weights, options, begin, file, report));
  // The ranges of a weight begin with its codes.
  report.ranges.insert(report.ranges.end(), head.ranges.begin(), head.ranges.end());
  report.bytes_read += head.bytes_read;
  report.weight_bytes += head.weight_bytes;
  return {};
}

}  // namespace moec
