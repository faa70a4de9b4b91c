#include "frontends/jobs/calibrate/layer_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/files/digest.h"

namespace moec {
namespace {

std::string file_name(int64_t layer) {
  return layer < 0 ? "head.hessians" : fmt::format("L{:02}.hessians", layer);
}

}  // namespace

Result<LayerWriter> LayerWriter::create(const std::string& folder, int64_t layer,
                                        uint64_t sum_bytes) {
  MOEC_ASSIGN(OutputFile file, OutputFile::create({folder, file_name(layer)}, 0));
  return LayerWriter(std::move(file), {layer, file_name(layer), {}}, sum_bytes);
}

void LayerWriter::begin_part(const std::vector<TappedInput>& inputs) {
  part_.clear();
  sums_.clear();
  for (const TappedInput& tapped : inputs) {
    const auto known =
        std::find_if(layer_.inputs.begin(), layer_.inputs.end(),
                     [&](const CalibratedInput& input) { return input.name == tapped.input.name; });
    if (known != layer_.inputs.end()) {
      for (const CalibratedMatrix& matrix : tapped.input.matrices)
        if (std::find(known->matrices.begin(), known->matrices.end(), matrix) ==
            known->matrices.end())
          known->matrices.push_back(matrix);
      continue;
    }
    part_.push_back(tapped);
    const int64_t inputs = tapped.input.inputs;
    sums_.emplace(tapped.matrix, HessianSum(inputs, summed_together(inputs, sum_bytes_)));
  }
}

void LayerWriter::add(const MatrixInput& input) {
  if (const auto found = sums_.find(input.matrix); found != sums_.end())
    found->second.add(input.rows);
}

Status LayerWriter::end_part() {
  for (const TappedInput& tapped : part_) {
    const auto sum = sums_.find(tapped.matrix);
    const std::vector<Hessian> blocks = sum->second.finish();
    sums_.erase(sum);
    if (!tapped.input.pool.empty()) pool(blocks);
    MOEC_TRY(write(tapped.input, blocks));
  }
  part_.clear();
  return {};
}

void LayerWriter::pool(const std::vector<Hessian>& blocks) {
  if (all_experts_.empty())
    for (const Hessian& block : blocks) all_experts_.push_back(empty_hessian(block.inputs));
  for (size_t b = 0; b < blocks.size(); ++b) {
    all_experts_[b].tokens += blocks[b].tokens;
    for (size_t i = 0; i < blocks[b].sums.size(); ++i) all_experts_[b].sums[i] += blocks[b].sums[i];
  }
}

Status LayerWriter::check(const CalibratedInput& input, const std::vector<Hessian>& blocks) const {
  for (const Hessian& block : blocks)
    if (!check_hessian(block, block.inputs))
      return fail("calibrate.nonfinite",
                  fmt::format("the inputs \"{}\" of layer {} are not finite or overflow",
                              input.name, layer_.layer),
                  "check the checkpoint with moec export and moec validate");
  return {};
}

Status LayerWriter::write(CalibratedInput input, const std::vector<Hessian>& blocks) {
  MOEC_TRY(check(input, blocks));
  input.tokens = blocks.front().tokens;
  input.together = blocks.size() > 1 ? blocks.front().inputs : 0;
  Digest digest;
  for (const Hessian& block : blocks) {
    const auto size = static_cast<size_t>(block.inputs);
    for (size_t row = 0; input.tokens > 0 && row < size; ++row) {
      const auto bytes = std::as_bytes(std::span(block.sums).subspan(row * size, row + 1));
      digest.update(bytes);
      MOEC_TRY(file_.write(bytes));
    }
  }
  if (input.tokens > 0) input.digest = digest.hex();
  layer_.inputs.push_back(std::move(input));
  return {};
}

Result<CalibratedLayer> LayerWriter::finish() {
  int64_t inputs = 0;
  for (const Hessian& block : all_experts_) inputs += block.inputs;
  if (inputs > 0) MOEC_TRY(write({.name = kAllExperts, .inputs = inputs}, all_experts_));
  MOEC_TRY(file_.sync());
  MOEC_TRY(file_.publish());
  return std::move(layer_);
}

}  // namespace moec
