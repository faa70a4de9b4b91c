#include "models/plan/weight_sizes.h"

#include <algorithm>

#include "ir/analysis/cost.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

// Rows rounded up to whole groups of a palette form.
int64_t whole_groups(const WeightForm& form, int64_t rows) {
  const auto* palette = std::get_if<PaletteForm>(&form);
  if (!palette || palette->rows == 0) return rows;
  return (rows + palette->rows - 1) / palette->rows * palette->rows;
}

// The matrices [rows, inputs] of a role; none for vectors and kernels. A tensor of all experts
// contains one or two matrices per expert.
struct Matrices {
  int64_t count = 0, rows = 0, inputs = 0;
};

Matrices matrices_of(const ModelConfig& model, const NeededRole& needed) {
  const int64_t d = model.expert_width(), f = model.moe.expert_ff;
  if (needed.role.starts_with("experts_gate_up")) return {2 * model.moe.experts, f, d};
  if (needed.role.starts_with("experts_down")) return {model.moe.experts, d, f};
  if (needed.role == "experts_gate" || needed.role == "experts_up")
    return {model.moe.experts, f, d};
  if (needed.dims.rank() != 2) return {};
  return {std::max<int64_t>(needed.experts, 1), needed.dims.at(0), needed.dims.at(1)};
}

}  // namespace

// Codes with a scale per `elements` elements of a row, or per row if it is 0. Codes of other widths
// count as the next of 4 and 8 bits.
static WeightForm codes_per(int64_t bits, int64_t elements) {
  const bool rows = elements == 0;
  return AffineForm{bits <= 4 ? 4 : 8, rows ? ScaleScope::row : ScaleScope::block, elements};
}

// True if matrices of the group are stored as codes. GGUF files, FP8 and bitsandbytes store more
// than experts as codes, but the latter two store heads as floats.
static bool is_coded(const StoredWeights& stored, WeightGroup group) {
  if (group == WeightGroup::experts || stored.coding == WeightCoding::gguf_blocks) return true;
  return group != WeightGroup::head &&
         (stored.coding == WeightCoding::fp8_blocks || is_of_bitsandbytes(stored.coding));
}

WeightForm stored_form(const StoredWeights& stored, WeightGroup group) {
  if (!is_coded(stored, group)) return FloatForm{};
  // A zero point is as large as a scale.
  const int64_t parameters = 1 + static_cast<int64_t>(stored.codes.zeros);
  switch (stored.coding) {
    case WeightCoding::plain:
      break;
    case WeightCoding::fp8_blocks:
    case WeightCoding::int8_rows:
      return codes_per(8, stored.block.at(1));
    case WeightCoding::mxfp4:
      return codes_per(4, kMxBlock);
    case WeightCoding::nvfp4:
      return codes_per(4, kNvBlock);
    case WeightCoding::nf4:
    case WeightCoding::fp4:
      return codes_per(4, stored.block.at(1));
    case WeightCoding::int_groups:
    case WeightCoding::gptq:
    case WeightCoding::gptq_v2:
    case WeightCoding::awq:
    case WeightCoding::mlx:
    case WeightCoding::gguf_blocks:
      return codes_per(stored.codes.bits, stored.codes.elements / parameters);
  }
  return FloatForm{};
}

WeightSizes::WeightSizes(const ModelConfig& model, const BuildOptions& build)
    : model_(model), policy_(build.weights), dtype_(build.dtype) {
  for (size_t group = 0; group < forms_.size(); ++group) {
    std::vector<WeightForm>& forms = forms_[group];
    // Layer -1 is the head.
    for (int64_t layer = -1; layer < std::ssize(model.layers); ++layer) {
      const auto which = static_cast<WeightGroup>(group);
      const WeightRule* rule = policy_.rule_of(which, layer);
      // Tensors with chosen bits have separate forms.
      if (which == WeightGroup::experts && rule && rule->bits && !policy_.chosen.empty()) continue;
      const WeightForm form = filed(policy_.form_of(which, layer), which);
      const bool counts = layer >= 0 || which == WeightGroup::head;
      if (counts && std::find(forms.begin(), forms.end(), form) == forms.end())
        forms.push_back(form);
    }
  }
}

WeightForm WeightSizes::filed(const WeightForm& form, WeightGroup group) const {
  return is_copy(form) ? stored_form(model_.stored, group) : form;
}

int64_t WeightSizes::matrix_in(const WeightForm& form, int64_t rows, int64_t inputs) const {
  const Type type{dtype_, {whole_groups(form, rows), inputs}};
  const auto encoding = encoding_of(form, {type, 1, 0, {}});
  // A weight that cannot be encoded is refused when its shard is compiled. CodeForm::excess needs
  // the most bytes for zero points.
  return encoding ? encoded_bytes(*encoding, type, CodeForm::excess) : plain(rows * inputs);
}

int64_t WeightSizes::matrix(WeightGroup group, int64_t rows, int64_t inputs) const {
  int64_t largest = 0;
  // The layer is unknown here, so the result is the maximum over the forms of the group.
  for (const WeightForm& form : at(forms_, group))
    largest = std::max(largest, matrix_in(form, rows, inputs));
  return largest;
}

int64_t WeightSizes::chosen_expert(int64_t columns) const {
  int64_t largest = 0, bytes = 0;
  const RoleTensor* last = nullptr;
  for (const auto& [tensor, form] : policy_.chosen) {
    // The map is ordered by layer and expert, so the tensors of an expert are consecutive.
    if (!last || last->layer != tensor.layer || last->expert != tensor.expert) bytes = 0;
    last = &tensor;
    const bool down = tensor.role.find("down") != std::string::npos;
    const int64_t matrices = tensor.role.find("gate_up") != std::string::npos ? 2 : 1;
    bytes += matrices * (down ? matrix_in(form, model_.expert_width(), columns)
                              : matrix_in(form, columns, model_.expert_width()));
    largest = std::max(largest, bytes);
  }
  return largest;
}

int64_t WeightSizes::mlp(WeightGroup group, const MlpElements& mlp, int64_t columns) const {
  if (columns == 0) return plain(mlp.repeated);
  const int64_t d = group == WeightGroup::experts ? model_.expert_width() : model_.hidden;
  const int64_t inner = model_.mlp.gating.has_gate() ? 2 : 1;  // gate and up
  const int64_t matrices = (inner + 1) * d * columns;
  int64_t bytes = inner * matrix(group, columns, d) + matrix(group, d, columns);
  if (group == WeightGroup::experts) bytes = std::max(bytes, chosen_expert(columns));
  return bytes + plain(mlp.of_width(columns) - matrices);
}

int64_t WeightSizes::latent(int64_t elements) const {
  const int64_t d = model_.hidden, z = model_.moe.latent;
  if (z == 0) return 0;
  return matrix(WeightGroup::shared, z, d) + matrix(WeightGroup::shared, d, z) +
         plain(elements - 2 * d * z);
}

int64_t WeightSizes::head(int64_t rows) const {
  return matrix(WeightGroup::head, rows, model_.hidden) + plain(model_.head.bias ? rows : 0);
}

int64_t WeightSizes::saved_in_layer(int64_t layer) const {
  if (policy_.all_float()) return 0;
  int64_t saved = 0;
  for (const NeededRole& needed : needed_roles(model_)) {
    if (needed.layer != layer) continue;
    // The per-head matrices of latent attention stay float.
    if (needed.role == "kv_b" || needed.role == "q_b") continue;
    const auto [count, rows, inputs] = matrices_of(model_, needed);
    const int64_t tensors = std::max<int64_t>(needed.experts, 1);
    for (int64_t tensor = 0; tensor < tensors && count > 0; ++tensor) {
      const WeightGroup group = *group_of_role(needed.role);
      const RoleTensor which{layer, needed.experts > 0 ? tensor : -1, needed.role};
      const WeightForm form = filed(policy_.form_of(group, which), group);
      if (!is_float(form))
        saved += count / tensors * (plain(rows * inputs) - matrix_in(form, rows, inputs));
    }
  }
  return saved;
}

}  // namespace moec
