#include "frontends/calibrate/layer_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/files/digest.h"

namespace moec {
namespace {

std::string file_name(int64_t layer) {
  return layer < 0 ? "head.hessians" : fmt::format("L{:02}.hessians", layer);
}

}  // namespace

Result<LayerWriter> LayerWriter::create(const std::string& folder, int64_t layer) {
  MOEC_ASSIGN(OutputFile file, OutputFile::create({folder, file_name(layer)}, 0));
  return LayerWriter(std::move(file), {layer, file_name(layer), {}});
}

void LayerWriter::begin_part(const std::vector<TappedInput>& inputs) {
  part_.clear();
  sums_.clear();
  for (const TappedInput& tapped : inputs) {
    const auto known =
        std::find_if(layer_.inputs.begin(), layer_.inputs.end(),
                     [&](const CalibratedInput& input) { return input.name == tapped.input.name; });
    if (known != layer_.inputs.end()) {
      known->matrices.insert(known->matrices.end(), tapped.input.matrices.begin(),
                             tapped.input.matrices.end());
      continue;
    }
    part_.push_back(tapped);
    sums_.emplace(tapped.matrix, HessianSum(tapped.input.inputs));
  }
}

void LayerWriter::add(const MatrixInput& input) {
  if (const auto found = sums_.find(input.matrix); found != sums_.end())
    found->second.add(input.rows);
}

Status LayerWriter::end_part() {
  for (const TappedInput& tapped : part_) {
    const auto sum = sums_.find(tapped.matrix);
    const Hessian hessian = sum->second.finish();
    sums_.erase(sum);
    if (!tapped.input.pool.empty()) pool(hessian);
    MOEC_TRY(write(tapped.input, hessian));
  }
  part_.clear();
  return {};
}

void LayerWriter::pool(const Hessian& hessian) {
  if (!all_experts_) all_experts_ = empty_hessian(hessian.inputs);
  all_experts_->tokens += hessian.tokens;
  for (size_t i = 0; i < hessian.sums.size(); ++i) all_experts_->sums[i] += hessian.sums[i];
}

Status LayerWriter::write(CalibratedInput input, const Hessian& hessian) {
  if (!check_hessian(hessian, input.inputs))
    return fail("calibrate.nonfinite",
                fmt::format("the inputs \"{}\" of layer {} are not finite or overflow", input.name,
                            layer_.layer),
                "check the checkpoint with moec export and moec validate");
  input.tokens = hessian.tokens;
  if (hessian.tokens > 0) {
    Digest digest;
    const auto size = static_cast<size_t>(input.inputs);
    for (size_t row = 0; row < size; ++row) {
      const auto bytes = std::as_bytes(std::span(hessian.sums).subspan(row * size, row + 1));
      digest.update(bytes);
      MOEC_TRY(file_.write(bytes));
    }
    input.digest = digest.hex();
  }
  layer_.inputs.push_back(std::move(input));
  return {};
}

Result<CalibratedLayer> LayerWriter::finish() {
  if (all_experts_)
    MOEC_TRY(write({.name = kAllExperts, .inputs = all_experts_->inputs}, *all_experts_));
  MOEC_TRY(file_.sync());
  MOEC_TRY(file_.publish());
  return std::move(layer_);
}

}  // namespace moec
