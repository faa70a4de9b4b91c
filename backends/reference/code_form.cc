#include "backends/reference/code_form.h"

#include <fmt/format.h>

namespace moec {
namespace {

// Collects the parts of the name, step by step.
class StepNames {
 public:
  explicit StepNames(const WeightView& view) : elements_(dtype_name(view.source_type.dtype)) {
    for (const ViewStep& step : view.steps) std::visit([this](const auto& s) { add(s); }, step);
  }

  std::string name() const { return form_.empty() || !turned_ ? form_ : form_ + ", transposed"; }

 private:
  template <class Step>
  void add(const Step&) {}
  void add(const UnpackStep& step) { elements_ = enum_name(step.packing); }
  void add(const PermuteStep&) { turned_ = true; }
  void add(const DequantStep& step) {
    form_ = fmt::format("{} codes{}", elements_, step.offset.empty() ? "" : " with zero points");
  }
  void add(const LutStep&) { form_ = fmt::format("palette of {}", elements_); }
  void add(const UnblockStep& step) { form_ = fmt::format("{} blocks", enum_name(step.type)); }

  std::string elements_, form_;
  bool turned_ = false;
};

}  // namespace

std::string code_form(const WeightView& view) {
  if (std::string form = StepNames(view).name(); !form.empty()) return form;
  const auto* concat = std::get_if<ConcatSource>(&view.source);
  // The parts of a weight have one form.
  return concat == nullptr || concat->parts.empty() ? "" : code_form(concat->parts.front());
}

}  // namespace moec
