#include "frontends/jobs/calibrate/layer_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/files/digest.h"

namespace moec {

Result<LayerWriter> LayerWriter::create(const std::string& folder, int64_t layer,
                                        uint64_t sum_bytes) {
  // The expected size is 0, because it is unknown before all experts have their tokens.
  MOEC_ASSIGN(OutputFile file, OutputFile::create({folder, hessians_file(layer)}, 0));
  return LayerWriter(std::move(file), {layer, hessians_file(layer), {}}, sum_bytes);
}

void LayerWriter::begin_part(const std::vector<TappedInput>& inputs) {
  part_.clear();
  sums_.clear();
  for (const TappedInput& tapped : inputs) {
    const auto known =
        std::find_if(layer_.inputs.begin(), layer_.inputs.end(),
                     [&](const CalibratedInput& input) { return input.name == tapped.input.name; });
    // Parts of a layer may read the same input. Only the matrices are added, because its rows were
    // summed already.
    if (known != layer_.inputs.end()) {
      for (const CalibratedMatrix& matrix : tapped.input.matrices)
        if (std::find(known->matrices.begin(), known->matrices.end(), matrix) ==
            known->matrices.end())
          known->matrices.push_back(matrix);
      continue;
    }
    part_.push_back(tapped);
    const int64_t inputs = tapped.input.inputs;
    // Keyed by the matrix, because the probe reports inputs by matrix.
    sums_.emplace(tapped.matrix, HessianSum(inputs, summed_together(inputs, sum_bytes_)));
  }
}

void LayerWriter::add(const MatrixInput& input) {
  // The probe reports all matrices; those of skipped inputs have no sum.
  if (const auto found = sums_.find(input.matrix); found != sums_.end())
    found->second.add(input.rows);
}

Status LayerWriter::end_part() {
  for (const TappedInput& tapped : part_) {
    const auto sum = sums_.find(tapped.matrix);
    const std::vector<Hessian> blocks = sum->second.finish();
    // Frees the sum before the next one is finished, to limit memory.
    sums_.erase(sum);
    if (!tapped.input.pool.empty()) pool(blocks);
    MOEC_TRY(write(tapped.input, blocks));
  }
  part_.clear();
  return {};
}

void LayerWriter::pool(const std::vector<Hessian>& blocks) {
  if (all_experts_.empty())
    // All experts of a layer have the same input width, so the blocks correspond.
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
  // An expert without tokens has an entry but no bytes.
  if (input.tokens > 0) {
    Digest digest;
    for (const Hessian& block : blocks)
      MOEC_TRY(write_triangle(block, [&](std::span<const std::byte> bytes) {
        digest.update(bytes);
        return file_.write(bytes);
      }));
    input.digest = digest.hex();
  }
  layer_.inputs.push_back(std::move(input));
  return {};
}

Result<CalibratedLayer> LayerWriter::finish() {
  int64_t inputs = 0;
  for (const Hessian& block : all_experts_) inputs += block.inputs;
  if (inputs > 0) MOEC_TRY(write({.name = kAllExperts, .inputs = inputs}, all_experts_));
  // The index will refer to this file, so its bytes must be durable first.
  MOEC_TRY(file_.sync());
  MOEC_TRY(file_.publish());
  return std::move(layer_);
}

}  // namespace moec
