#include "backends/formats/onnx/onnx_metadata.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <functional>

#include "backends/emit/metadata_keys.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> fail_metadata(std::string cause) {
  return fail("onnx.metadata", std::move(cause), "export the model again");
}

// Calls take(first word, rest) for each line "first rest".
Status each_line(std::string_view text,
                 const std::function<Status(std::string_view, std::string_view)>& take) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    // Layouts and IR labels, which are the first words, contain no space, so the first space ends
    // them.
    const size_t space = line.find(' ');
    if (space == std::string_view::npos)
      return fail_metadata("a metadata line does not consist of two words");
    MOEC_TRY(take(line.substr(0, space), line.substr(space + 1)));
  }
  return {};
}

Result<std::vector<uint32_t>> read_positions(std::string_view text) {
  std::vector<uint32_t> positions;
  while (!text.empty()) {
    const auto position = take_number<uint32_t>(text);
    // read_ops() compares only the next position, so the positions must ascend.
    const bool ascending = positions.empty() || positions.back() < position;
    if (!position || !ascending || (!text.empty() && text.front() != ' '))
      return fail_metadata("moec.sources is not a list of ascending positions");
    positions.push_back(*position);
    if (!text.empty()) text.remove_prefix(1);
  }
  return positions;
}

Status read_layouts(std::string_view text, OnnxMetadata& metadata) {
  return each_line(text, [&](std::string_view layout, std::string_view tensor) -> Status {
    const auto parsed = parse_layout(layout);
    if (!parsed) return fail_metadata("moec.layouts contains an unknown layout");
    metadata.layouts[std::string(tensor)] = *parsed;
    return {};
  });
}

Status read_labels(std::string_view text, OnnxMetadata& metadata) {
  return each_line(text, [&](std::string_view label, std::string_view tensor) -> Status {
    metadata.labels[std::string(tensor)] = std::string(label);
    return {};
  });
}

Status read_owners(std::string_view text, OnnxMetadata& metadata) {
  metadata.owners = parse_weight_owners(text);
  if (!metadata.owners) return fail_metadata("moec.weights is not a list of weights and owners");
  return {};
}

}  // namespace

Result<OnnxMetadata> read_metadata(const onnx::ModelProto& model) {
  OnnxMetadata metadata;
  // Unknown keys are ignored, because other tools may add entries.
  for (const auto& entry : model.metadata_props()) {
    if (entry.key() == metadata_key(kShardEntry)) metadata.shard = entry.value();
    if (entry.key() == metadata_key(kLayoutsEntry)) MOEC_TRY(read_layouts(entry.value(), metadata));
    if (entry.key() == metadata_key(kNamesEntry)) MOEC_TRY(read_labels(entry.value(), metadata));
    if (entry.key() == metadata_key(kWeightsEntry)) MOEC_TRY(read_owners(entry.value(), metadata));
    if (entry.key() == metadata_key(kSourcesEntry)) {
      MOEC_ASSIGN(metadata.sources, read_positions(entry.value()));
    }
  }
  return metadata;
}

}  // namespace moec
