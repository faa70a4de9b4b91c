#include "passes/expert_math.h"

namespace moec {
namespace {

ValueId activate(Builder& b, Activation activation, ValueId x) {
  switch (activation) {
    case Activation::silu:
      return b.mul(x, b.unary(UnaryFn::sigmoid, x), "silu");
  }
  return x;
}

}  // namespace

ValueId gated_product(Builder& b, Activation activation, ValueId gate, ValueId up) {
  return b.mul(activate(b, activation, gate), up, "hidden");
}

ValueId apply_routing(Builder& b, ValueId hidden, ValueId weight) {
  ValueId product = b.mul(hidden, weight, "routed");
  if (b.type(hidden).dtype == DType::f32) return product;
  ValueId zero = b.scalar_like(hidden, 0);
  return b.select(b.compare(CompareFn::equal, weight, zero, "not_chosen"), zero, product,
                  "guarded");
}

ValueId sum_terms(Builder& b, std::vector<ValueId> terms, SumForm form) {
  while (terms.size() > 1) {
    std::vector<ValueId> sums;
    const size_t pairs = form == SumForm::tree ? terms.size() / 2 : 1;
    for (size_t i = 0; i < pairs; ++i) sums.push_back(b.add(terms[2 * i], terms[2 * i + 1]));
    sums.insert(sums.end(), terms.begin() + static_cast<ptrdiff_t>(2 * pairs), terms.end());
    terms = std::move(sums);
  }
  return terms.front();
}

}  // namespace moec
