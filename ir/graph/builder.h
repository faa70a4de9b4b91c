// Builds a shard op by op. Result types are inferred. An ill-typed op is a broken invariant of the
// caller, who must have checked everything that input can cause.
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
  // The same for ops with exactly one result.
  ValueId emit(OpData data, std::vector<ValueId> operands, std::string name = {});

  // Short forms.
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
  // Gives a value another name; ignores open scopes.
  void rename(ValueId id, const std::string& name);
  // The name with the prefix of the open scopes.
  std::string scoped(std::string name) const;

  const Type& type(ValueId id) const { return shard_.type(id); }
  const Shard& shard() const { return shard_; }
  void set_form(Form form) { shard_.form = form; }

  // Names given while a scope is open get its prefix: NameScope layer(b, "experts.3"); b.mul(x, y,
  // "h") names "experts.3.h".
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

  // Hands over the shard; the builder must not be used afterwards.
  Shard finish();

 private:
  ValueId define(Type type, std::string name, OpId producer);
  std::string unique_name(std::string name);

  Shard shard_;
  std::string scope_;
  std::unordered_map<std::string, uint32_t> taken_;
};

// Joins shards: appends the ops of one shard to another that is being built.

// Appends the ops of `part`, which has no states and the builder's form. inputs[i] stands for
// part.inputs[i] and has its type. Names get the prefix "SCOPE.", which keeps those of several
// parts apart. Returns the values of part.outputs, in order.
std::vector<ValueId> splice(Builder& b, const Shard& part, const std::vector<ValueId>& inputs,
                            std::string_view scope);

}  // namespace moec
