// Builds a shard op by op. Result types are inferred. An ill-typed op violates an invariant, so
// callers must first rule out every type error that user input can cause.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph/shard.h"

namespace moec {

class Builder {
 public:
  Builder(std::string shard_name, Form form);

  ValueId input(std::string name, Type type);
  void output(std::string name, ValueId value);
  void state(std::string name, Type type);

  // Appends an op and returns its results. `name` names the first result; if the name is taken, a
  // suffix makes it unique.
  std::vector<ValueId> emit_all(OpData data, std::vector<ValueId> operands, std::string name = {});
  // emit_all() for an op whose result types are already inferred from its data and operand types.
  std::vector<ValueId> emit_typed(OpData data, std::vector<ValueId> operands,
                                  std::vector<Type> results, std::string name = {});
  // emit_all() for ops with exactly one result.
  ValueId emit(OpData data, std::vector<ValueId> operands, std::string name = {});

  // Shorthands for single ops.
  ValueId weight(WeightView view, std::string name = {}, Encoding encoding = PlainEncoding{});
  ValueId constant(Type type, std::vector<double> values, std::string name = {});
  // A scalar constant of x's element type.
  ValueId scalar_like(ValueId x, double value);
  ValueId unary(UnaryFn fn, ValueId x, std::string name = {});
  ValueId binary(BinaryFn fn, ValueId a, ValueId b, std::string name = {});
  ValueId add(ValueId a, ValueId b, std::string name = {}) {
    return binary(BinaryFn::add, a, b, std::move(name));
  }
  ValueId sub(ValueId a, ValueId b, std::string name = {}) {
    return binary(BinaryFn::sub, a, b, std::move(name));
  }
  ValueId mul(ValueId a, ValueId b, std::string name = {}) {
    return binary(BinaryFn::mul, a, b, std::move(name));
  }
  ValueId div(ValueId a, ValueId b, std::string name = {}) {
    return binary(BinaryFn::div, a, b, std::move(name));
  }
  ValueId compare(CompareFn fn, ValueId a, ValueId b, std::string name = {});
  ValueId select(ValueId condition, ValueId a, ValueId b, std::string name = {});
  ValueId cast(ValueId x, DType dtype, std::string name = {});
  ValueId reduce(ReduceFn fn, ValueId x, int64_t axis, std::string name = {});
  ValueId softmax(ValueId x, int64_t axis, std::string name = {});
  ValueId slice(ValueId x, int64_t axis, int64_t begin, int64_t size, std::string name = {});
  ValueId concat(std::vector<ValueId> parts, int64_t axis, std::string name = {});
  ValueId reshape(ValueId x, Dims dims, Layout layout = Layout::plain, std::string name = {});
  ValueId transpose(ValueId x, std::vector<int64_t> perm, Layout layout = Layout::plain,
                    std::string name = {});
  ValueId matmul(ValueId a, ValueId b, std::string name = {});
  ValueId linear(ValueId x, ValueId w, std::string name = {});

  // Names a value that has no name yet; ignores open scopes.
  void name_if_unnamed(ValueId id, const std::string& name);
  // Replaces the name of a value; ignores open scopes.
  void rename(ValueId id, const std::string& name);
  // Returns the name prefixed with the open scopes.
  std::string scoped(std::string name) const;

  const Type& type(ValueId id) const { return shard_.type(id); }
  const Shard& shard() const { return shard_; }
  void set_form(Form form) { shard_.form = form; }

  // Prefixes the names that are given while the scope is open: NameScope layer(b, "experts.3");
  // b.mul(x, y, "h") names "experts.3.h".
  class NameScope {
   public:
    NameScope(Builder& builder, std::string prefix);
    ~NameScope();
    NameScope(const NameScope&) = delete;
    NameScope& operator=(const NameScope&) = delete;

   private:
    Builder& builder_;
    std::string outer_;
  };

  // Moves the shard out; the builder must not be used afterwards.
  Shard finish();

 private:
  ValueId define(Type type, std::string name, OpId producer);
  std::string unique_name(std::string name);

  Shard shard_;
  std::string scope_;
  std::unordered_map<std::string, uint32_t> taken_;
};

// ---- Joining shards ----------------------------------------------------------------------------

// Appends the ops of `part`, which must have no states and the builder's form. inputs[i] replaces
// part.inputs[i] and must have the same type. Names get the prefix "SCOPE.", which keeps the names
// of several parts distinct. Returns the values of part.outputs, in order.
std::vector<ValueId> splice(Builder& b, const Shard& part, const std::vector<ValueId>& inputs,
                            std::string_view scope);

}  // namespace moec
