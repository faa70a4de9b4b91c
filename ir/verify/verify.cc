#include "ir/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "ir/graph/infer.h"
#include "ir/text/text.h"
#include "ir/text/text_lexer.h"

namespace moec {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_char);
}

// Must hold before a check reads sizes: Type::elements() ends the program for other types.
bool is_well_formed(const Type& type) {
  return type.rank() <= kMaxRank && checked_elements(type.dims) &&
         fits_layout(type.dims, type.layout);
}

class Verifier {
 public:
  explicit Verifier(const Shard& shard) : shard_(shard) {}

  Diagnostics run() {
    // Ids come first, because most later checks use them as indices.
    check_ids();
    check_order_of_ids();
    const bool sound = findings_.empty();
    // These checks accept ids out of range, so they also run on a shard with bad ids.
    check_names();
    check_forms();
    check_state_order();
    // The remaining checks index values by id, which is safe only if the ids are correct.
    if (!sound) return std::move(findings_);
    check_types();
    for (OpId op : op_ids(shard_)) check_op(op);
    return std::move(findings_);
  }

 private:
  // `at` is the subject of the finding: an op, a value, a port, or a label.
  template <class At, class... Args>
  void find(std::string_view code, const At& at, fmt::format_string<Args...> cause,
            Args&&... args) {
    findings_.push_back({Severity::error,
                         std::string(code),
                         fmt::format(cause, std::forward<Args>(args)...),
                         fmt::format("ir/OPS.md explains {}", code),
                         {.shard = shard_.name, .op = label(at)}});
  }

  std::string label(OpId op) const { return op_label(shard_, op); }
  std::string label(ValueId value) const { return shard_.label(value); }
  static std::string label(const State& state) { return state_label(state); }
  static std::string label(const Output& output) { return output_label(output); }
  static std::string label(std::string_view text) { return std::string(text); }

  // shard.s1
  void check_ids() {
    // Ops are visited in the order of execution, so a use before the definition is found.
    std::vector<bool> defined(shard_.values.size(), false);
    auto use = [&](ValueId id, const auto& at) {
      if (!shard_.values.contains(id))
        find("shard.s1", at, "value id {} is out of range", id.index);
      else if (!defined[id.index])
        find("shard.s1", at, "value %{} is used before it is defined", shard_.label(id));
    };
    auto define = [&](ValueId id, const auto& at) {
      if (!shard_.values.contains(id))
        find("shard.s1", at, "value id {} is out of range", id.index);
      else
        defined[id.index] = true;
    };
    for (ValueId id : shard_.inputs) define(id, "");
    for (OpId op : op_ids(shard_)) {
      for (ValueId id : shard_.ops[op].operands) use(id, op);
      for (ValueId id : shard_.ops[op].results) define(id, op);
    }
    for (const Output& output : shard_.outputs) use(output.value, output);
  }

  // shard.s2
  void check_order_of_ids() {
    // Inputs have the first ids, then the results of each op in order. Printing and parsing then
    // keep the ids.
    uint32_t next = 0;
    auto expect = [&](ValueId id, OpId producer, const auto& at) {
      if (id.index != next)
        find("shard.s2", at, "got value id {}, expected {}", id.index, next);
      else if (shard_.values.contains(id) && shard_.values[id].producer != producer)
        find("shard.s2", at, "value %{} names another producer", shard_.label(id));
      ++next;
    };
    for (ValueId id : shard_.inputs) expect(id, OpId{}, "");
    for (OpId op : op_ids(shard_))
      for (ValueId id : shard_.ops[op].results) expect(id, op, op);
    if (next != shard_.values.size())
      find("shard.s2", "", "the shard stores {} values but defines {}", shard_.values.size(), next);
  }

  // shard.s3
  void check_names() {
    if (!is_name(shard_.name))
      find("shard.s3", "", "the shard's name is not made of [A-Za-z0-9_.]");
    check_value_names();
    for (ValueId id : shard_.inputs)
      if (shard_.values.contains(id) && shard_.values[id].name.empty())
        find("shard.s3", id, "an input needs a name");
    std::set<std::string_view> names;
    for (const State& state : shard_.states) check_port(names, "state", state);
    names.clear();
    for (const Output& output : shard_.outputs) check_port(names, "output", output);
  }

  void check_value_names() {
    // Views of the names suffice, because the shard outlives this function.
    std::unordered_set<std::string_view> taken(shard_.values.size());
    for (const Value& value : shard_.values) {
      if (value.name.empty()) continue;
      // The parser would read a number as the label of a value without a name.
      if (!is_name(value.name) || is_all_digits(value.name))
        find("shard.s3", value.name, "value name {} is not made of [A-Za-z0-9_.] or is a number",
             quoted(value.name));
      if (!taken.insert(value.name).second)
        find("shard.s3", value.name, "two values are named {}", value.name);
    }
  }

  template <class Port>
  void check_port(std::set<std::string_view>& taken, std::string_view what, const Port& port) {
    if (!is_name(port.name))
      find("shard.s3", port, "{} name {} is not made of [A-Za-z0-9_.]", what, quoted(port.name));
    if (!taken.insert(port.name).second)
      find("shard.s3", port, "two {}s are named {}", what, port.name);
  }

  // shard.s6
  void check_forms() {
    for (OpId op : op_ids(shard_)) {
      const OpData& data = shard_.ops[op].data;
      const Form last = traits_of(data).last_form;
      if (last < shard_.form)
        find("shard.s6", op, "{} is not legal in form {}, only up to {}", mnemonic(data),
             form_name(shard_.form), form_name(last));
    }
  }

  // shard.s7
  void check_state_order() {
    std::set<std::string_view> written;
    for (OpId op : op_ids(shard_)) {
      const OpData& data = shard_.ops[op].data;
      const std::string* state = state_of(data);
      if (state == nullptr) continue;
      const bool writes = writes_state(data);
      if (writes ? !written.insert(*state).second : written.contains(*state))
        find("shard.s7", op, "state {} is {}", quoted(*state),
             writes ? "written twice" : "read after it was written");
    }
  }

  // shard.s4
  void check_types() {
    auto check = [&](const Type& type, const auto& at) {
      if (!is_well_formed(type))
        find("shard.s4", at,
             "{} is not a valid type: expected at most {} positive sizes that fit the layout and "
             "at most 2^48 "
             "elements",
             to_string(type), kMaxRank);
    };
    for (const State& state : shard_.states) check(state.type, state);
    for (uint32_t i = 0; i < shard_.values.size(); ++i) check(shard_.type(ValueId{i}), ValueId{i});
  }

  // Checks the op's numbered constraints and shard.s5. Operand types must be well-formed.
  void check_op(OpId id) {
    const Op& op = shard_.ops[id];
    std::vector<Type> operands;
    for (ValueId operand : op.operands) operands.push_back(shard_.type(operand));
    // infer() requires well-formed operands; check_types() has reported ill-formed types.
    if (!std::all_of(operands.begin(), operands.end(), is_well_formed)) return;
    const Inferred inferred = infer(op.data, operands, [&](std::string_view name) -> const Type* {
      const State* state = shard_.find_state(name);
      return state ? &state->type : nullptr;
    });
    for (const Violation& violation : inferred.violations)
      find(violation.code, id, "{}: {}", mnemonic(op.data), violation.message);
    // After a violation, the inferred results can be incomplete.
    if (inferred.violations.empty()) check_results(id, inferred.results);
  }

  void check_results(OpId id, const std::vector<Type>& inferred) {
    const std::vector<ValueId>& results = shard_.ops[id].results;
    if (results.size() != inferred.size()) {
      find("shard.s5", id, "{} has {} results, the shard stores {}", mnemonic(shard_.ops[id].data),
           inferred.size(), results.size());
      return;
    }
    for (size_t i = 0; i < results.size(); ++i)
      if (shard_.type(results[i]) != inferred[i])
        find("shard.s5", id, "{} has type {}, the shard stores {}", mnemonic(shard_.ops[id].data),
             to_string(inferred[i]), to_string(shard_.type(results[i])));
  }

  const Shard& shard_;
  Diagnostics findings_;
};

}  // namespace

Diagnostics verify(const Shard& shard) { return Verifier(shard).run(); }

}  // namespace moec
