#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/text/text.h"
#include "ir/text/text_lexer.h"

namespace moec {
namespace {

// ---- Attributes --------------------------------------------------------------------------------

std::string print_attribute(int64_t value) { return fmt::format("{}", value); }
// fmt prints the shortest text that round-trips, so parsing returns the same double.
std::string print_attribute(double value) { return fmt::format("{}", value); }
std::string print_attribute(const std::string& value) { return quoted(value); }
std::string print_attribute(DType value) { return std::string(dtype_name(value)); }
std::string print_attribute(Layout value) { return std::string(layout_name(value)); }
std::string print_attribute(const Type& value) { return to_string(value); }
template <class T>
std::string print_attribute(const std::vector<T>& value) {
  return fmt::format("[{}]", fmt::join(value, ", "));
}
template <class E>
requires std::is_enum_v<E> std::string print_attribute(E value) {
  return std::string(enum_name(value));
}

template <class OpT>
std::string print_attributes(const OpT& op) {
  std::vector<std::string> parts;
  OpT::each_field(op, [&](std::string_view name, const auto& value) {
    parts.push_back(fmt::format("{} = {}", name, print_attribute(value)));
  });
  return parts.empty() ? "" : fmt::format(" {{{}}}", fmt::join(parts, ", "));
}

// A weight op has no operands. Its view is printed without braces, and so is its encoding unless it
// is plain.
std::string print_attributes(const Weight& op) {
  std::string text = " " + to_string(op.view);
  if (!is_plain(op.encoding)) text += " as " + to_string(op.encoding);
  return text;
}

// ---- Statements --------------------------------------------------------------------------------

// Accepts ids out of range, so that a broken shard can be printed.
std::string label_of(const Shard& shard, ValueId id) {
  return shard.values.contains(id) ? shard.label(id) : fmt::format("?{}", id.index);
}

std::string print_values(const Shard& shard, const std::vector<ValueId>& ids) {
  std::vector<std::string> labels;
  for (ValueId id : ids) labels.push_back("%" + label_of(shard, id));
  return fmt::format("{}", fmt::join(labels, ", "));
}

std::string print_types(const Shard& shard, const std::vector<ValueId>& ids) {
  std::vector<std::string> types;
  for (ValueId id : ids)
    types.push_back(shard.values.contains(id) ? to_string(shard.type(id)) : "?");
  return fmt::format("{}", fmt::join(types, ", "));
}

std::string print_op(const Shard& shard, const Op& op) {
  std::string text;
  if (!op.results.empty()) text = print_values(shard, op.results) + " = ";
  text += mnemonic(op.data);
  if (!op.operands.empty()) text += " " + print_values(shard, op.operands);
  text += std::visit([](const auto& data) { return print_attributes(data); }, op.data);
  if (!op.results.empty()) text += " : " + print_types(shard, op.results);
  return text;
}

// Calls statement(labels, text) for each line of the body; ir/text/text.h defines the labels.
template <class F>
void each_statement(const Shard& shard, F&& statement) {
  for (ValueId id : shard.inputs)
    statement({label_of(shard, id)},
              fmt::format("input {} : {}", print_values(shard, {id}), print_types(shard, {id})));
  for (const State& state : shard.states)
    statement({state_label(state)},
              fmt::format("state {} : {}", state.name, to_string(state.type)));
  for (OpId op : op_ids(shard)) {
    // A finding can refer to an op or to one of its results.
    std::vector<std::string> labels = {op_label(shard, op)};
    for (ValueId id : shard.ops[op].results) labels.push_back(label_of(shard, id));
    statement(labels, print_op(shard, shard.ops[op]));
  }
  for (const Output& output : shard.outputs)
    statement({output_label(output)},
              fmt::format("output {} = {}", output.name, print_values(shard, {output.value})));
}

std::string open_line(const Shard& shard) {
  return fmt::format("shard {} {} {{\n", shard.name, form_name(shard.form));
}

// One line of comment. Line breaks are replaced, because a name in the cause may contain one.
std::string finding_line(const Diagnostic& finding) {
  std::string cause = finding.cause;
  std::replace_if(
      cause.begin(), cause.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return fmt::format("  // ^ {}[{}]: {}\n", severity_name(finding.severity), finding.code, cause);
}

}  // namespace

std::string op_label(const Shard& shard, OpId op) {
  const std::vector<ValueId>& results = shard.ops[op].results;
  return results.empty() ? fmt::format("#{}", op.index) : label_of(shard, results.front());
}

std::string output_label(const Output& output) { return "output " + output.name; }

std::string state_label(const State& state) { return "state " + state.name; }

std::string print(const Shard& shard) {
  std::string text = open_line(shard);
  each_statement(shard, [&](const std::vector<std::string>&, const std::string& line) {
    text += "  " + line + "\n";
  });
  return text + "}\n";
}

std::string print_with_findings(const Shard& shard, const Diagnostics& findings) {
  std::vector<bool> shown(findings.size(), false);
  std::string body;
  each_statement(shard, [&](const std::vector<std::string>& labels, const std::string& line) {
    body += "  " + line + "\n";
    for (size_t i = 0; i < findings.size(); ++i) {
      // Several statements can share a label; a finding is shown at the first one.
      if (shown[i] || std::find(labels.begin(), labels.end(), findings[i].place.op) == labels.end())
        continue;
      body += finding_line(findings[i]);
      shown[i] = true;
    }
  });
  std::string text = open_line(shard);
  // Findings that match no statement concern the whole shard.
  for (size_t i = 0; i < findings.size(); ++i)
    if (!shown[i]) text += finding_line(findings[i]);
  return text + body + "}\n";
}

}  // namespace moec
