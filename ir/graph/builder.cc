#include "ir/graph/builder.h"

#include <fmt/format.h>

#include "ir/base/invariant.h"
#include "ir/graph/infer.h"

namespace moec {

Builder::Builder(std::string shard_name, Form form) {
  shard_.name = std::move(shard_name);
  shard_.form = form;
}

ValueId Builder::define(Type type, std::string name, OpId producer) {
  return shard_.values.push({std::move(type), unique_name(scoped(std::move(name))), producer});
}

std::string Builder::scoped(std::string name) const {
  if (name.empty() || scope_.empty()) return name;
  name.insert(0, scope_ + ".");
  return name;
}

std::string Builder::unique_name(std::string name) {
  if (name.empty()) return name;
  uint32_t& count = taken_[name];
  if (count++ == 0) return name;
  // A candidate can already be the name of another value, so the search continues.
  for (uint32_t suffix = count;; ++suffix) {
    std::string candidate = name + "_" + std::to_string(suffix);
    if (taken_[candidate]++ == 0) return candidate;
  }
}

void Builder::name_if_unnamed(ValueId id, const std::string& name) {
  Value& value = shard_.values[id];
  if (value.name.empty()) value.name = unique_name(name);
}

void Builder::rename(ValueId id, const std::string& name) {
  shard_.values[id].name = unique_name(name);
}

ValueId Builder::input(std::string name, Type type) {
  // Inputs have the first value ids (shard.s2).
  MOEC_CHECK(shard_.ops.size() == 0, "inputs are declared before the first op");
  ValueId id = define(std::move(type), std::move(name), OpId{});
  shard_.inputs.push_back(id);
  return id;
}

void Builder::output(std::string name, ValueId value) {
  shard_.outputs.push_back({std::move(name), value});
}

void Builder::state(std::string name, Type type) {
  shard_.states.push_back({std::move(name), std::move(type)});
}

std::vector<ValueId> Builder::emit_all(OpData data, std::vector<ValueId> operands,
                                       std::string name) {
  std::vector<Type> operand_types;
  operand_types.reserve(operands.size());
  for (ValueId operand : operands) operand_types.push_back(shard_.type(operand));
  // States are declared before the ops that use them, so the lookup finds them here.
  Inferred inferred = infer(data, operand_types, [&](std::string_view state) -> const Type* {
    const State* found = shard_.find_state(state);
    return found ? &found->type : nullptr;
  });
  // A violation here is a bug of a pass: callers must rule out type errors in user input.
  MOEC_CHECK(inferred.violations.empty(), "{} in shard {}: {}: {}", mnemonic(data), shard_.name,
             inferred.violations.front().code, inferred.violations.front().message);
  return emit_typed(std::move(data), std::move(operands), std::move(inferred.results),
                    std::move(name));
}

std::vector<ValueId> Builder::emit_typed(OpData data, std::vector<ValueId> operands,
                                         std::vector<Type> results, std::string name) {
  OpId op = shard_.ops.push({std::move(data), std::move(operands), {}});
  std::vector<ValueId> values;
  values.reserve(results.size());
  // The types of results are inferred, so they satisfy shard.s5.
  for (Type& type : results) {
    values.push_back(define(std::move(type), std::move(name), op));
    // Only the first result has the name; further results stay unnamed.
    name.clear();
  }
  shard_.ops[op].results = values;
  return values;
}

ValueId Builder::emit(OpData data, std::vector<ValueId> operands, std::string name) {
  std::vector<ValueId> results = emit_all(std::move(data), std::move(operands), std::move(name));
  // A pass that expects one result must not silently drop further results.
  MOEC_CHECK(results.size() == 1, "emit() is for ops with one result");
  return results.front();
}

ValueId Builder::weight(WeightView view, std::string name, Encoding encoding) {
  return emit(Weight{std::move(view), std::move(encoding)}, {}, std::move(name));
}

ValueId Builder::constant(Type type, std::vector<double> values, std::string name) {
  return emit(Constant{std::move(type), std::move(values)}, {}, std::move(name));
}

ValueId Builder::scalar_like(ValueId x, double value) {
  // A value of rank 0 broadcasts to every rank and layout.
  return constant({type(x).dtype, {}}, {value});
}

ValueId Builder::unary(UnaryFn fn, ValueId x, std::string name) {
  return emit(Unary{fn}, {x}, std::move(name));
}

ValueId Builder::binary(BinaryFn fn, ValueId a, ValueId b, std::string name) {
  return emit(Binary{fn}, {a, b}, std::move(name));
}

ValueId Builder::compare(CompareFn fn, ValueId a, ValueId b, std::string name) {
  return emit(Compare{fn}, {a, b}, std::move(name));
}

ValueId Builder::select(ValueId condition, ValueId a, ValueId b, std::string name) {
  return emit(Select{}, {condition, a, b}, std::move(name));
}

ValueId Builder::cast(ValueId x, DType dtype, std::string name) {
  return emit(Cast{dtype}, {x}, std::move(name));
}

ValueId Builder::reduce(ReduceFn fn, ValueId x, int64_t axis, std::string name) {
  return emit(Reduce{fn, axis}, {x}, std::move(name));
}

ValueId Builder::softmax(ValueId x, int64_t axis, std::string name) {
  return emit(Softmax{axis}, {x}, std::move(name));
}

ValueId Builder::slice(ValueId x, int64_t axis, int64_t begin, int64_t size, std::string name) {
  return emit(Slice{axis, begin, size}, {x}, std::move(name));
}

ValueId Builder::concat(std::vector<ValueId> parts, int64_t axis, std::string name) {
  return emit(Concat{axis}, std::move(parts), std::move(name));
}

ValueId Builder::reshape(ValueId x, Dims dims, Layout layout, std::string name) {
  return emit(Reshape{std::move(dims), layout}, {x}, std::move(name));
}

ValueId Builder::transpose(ValueId x, std::vector<int64_t> perm, Layout layout, std::string name) {
  return emit(Transpose{std::move(perm), layout}, {x}, std::move(name));
}

ValueId Builder::matmul(ValueId a, ValueId b, std::string name) {
  return emit(MatMul{}, {a, b}, std::move(name));
}

ValueId Builder::linear(ValueId x, ValueId w, std::string name) {
  return emit(Linear{}, {x, w}, std::move(name));
}

Builder::NameScope::NameScope(Builder& builder, std::string prefix)
    : builder_(builder), outer_(builder.scope_) {
  builder_.scope_ = outer_.empty() ? std::move(prefix) : outer_ + "." + prefix;
}

// Restores the outer scope, so scopes nest.
Builder::NameScope::~NameScope() { builder_.scope_ = outer_; }

Shard Builder::finish() { return std::move(shard_); }

namespace {

using ValueMap = IdMap<ValueId, ValueId>;

ValueMap map_inputs(const Builder& b, const Shard& part, const std::vector<ValueId>& inputs) {
  // The states of two spliced parts could have equal names.
  MOEC_CHECK(part.states.empty(), "shard {} has states, a spliced part must not", part.name);
  MOEC_CHECK(part.form == b.shard().form, "shard {} is not in the form of the whole", part.name);
  MOEC_CHECK(inputs.size() == part.inputs.size(), "shard {} has {} inputs, {} were given",
             part.name, part.inputs.size(), inputs.size());
  ValueMap map(part.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId input = part.inputs[i];
    // The body was inferred for this type; its stored sizes would be wrong for another type.
    MOEC_CHECK(b.type(inputs[i]) == part.type(input), "input {} of shard {} got another type",
               part.label(input), part.name);
    map[input] = inputs[i];
  }
  return map;
}

std::vector<ValueId> mapped(const ValueMap& map, const std::vector<ValueId>& values) {
  std::vector<ValueId> found;
  for (ValueId value : values) found.push_back(map[value]);
  return found;
}

}  // namespace

std::vector<ValueId> splice(Builder& b, const Shard& part, const std::vector<ValueId>& inputs,
                            std::string_view scope) {
  ValueMap map = map_inputs(b, part, inputs);
  // Ops are in the order of their definition, so the operands are mapped already.
  for (const Op& op : part.ops) {
    const std::vector<ValueId> results = b.emit_all(op.data, mapped(map, op.operands));
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = part.values[op.results[i]].name;
      if (!name.empty()) b.name_if_unnamed(results[i], fmt::format("{}.{}", scope, name));
      map[op.results[i]] = results[i];
    }
  }
  std::vector<ValueId> outputs;
  for (const Output& output : part.outputs) outputs.push_back(map[output.value]);
  return outputs;
}

}  // namespace moec
