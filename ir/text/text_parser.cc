#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "ir/base/nearest.h"
#include "ir/text/text_cursor.h"

namespace moec {
namespace {

// ---- Attributes --------------------------------------------------------------------------------

template <class T>
Status store(T& out, Result<T> parsed) {
  MOEC_ASSIGN(out, std::move(parsed));
  return {};
}

Status parse_attribute(TextCursor& cursor, int64_t& out) { return store(out, cursor.integer()); }
Status parse_attribute(TextCursor& cursor, double& out) { return store(out, cursor.real()); }
Status parse_attribute(TextCursor& cursor, std::string& out) { return store(out, cursor.string()); }
Status parse_attribute(TextCursor& cursor, DType& out) {
  return store(out, parse_dtype_at(cursor));
}
Status parse_attribute(TextCursor& cursor, Layout& out) {
  return store(out, parse_layout_at(cursor));
}
Status parse_attribute(TextCursor& cursor, Type& out) { return store(out, parse_type_at(cursor)); }

template <class T>
Status parse_attribute(TextCursor& cursor, std::vector<T>& out) {
  MOEC_TRY(cursor.expect('['));
  // The attribute can have a default value, which the text replaces.
  out.clear();
  return parse_list(cursor, ']', [&] { return parse_attribute(cursor, out.emplace_back()); });
}

template <class E>
requires std::is_enum_v<E> Status parse_attribute(TextCursor& cursor, E& out) {
  constexpr auto kNames = enum_names(E{});
  // enum_names() are in the order of the enumerators, so the index is the value.
  MOEC_ASSIGN(size_t index, cursor.one_of("a value of this attribute", kNames));
  out = static_cast<E>(index);
  return {};
}

// Parses `name = value` into the op's field of that name.
template <class OpT>
Status parse_field(TextCursor& cursor, OpT& op, std::vector<std::string_view>& seen) {
  const Token name = cursor.peek();
  MOEC_TRY(cursor.name("an attribute name"));
  // Without this check, a second value would silently replace the first one.
  if (std::find(seen.begin(), seen.end(), name.text) != seen.end())
    return cursor.fail_at(name, "text.redefined",
                          fmt::format("attribute '{}' is given twice", name.text));
  MOEC_TRY(cursor.expect('='));
  std::vector<std::string_view> known;
  std::optional<Status> parsed;
  OpT::each_field(op, [&](std::string_view field, auto& value) {
    known.push_back(field);
    if (field != name.text) return;
    seen.push_back(field);
    parsed = parse_attribute(cursor, value);
  });
  // `parsed` is empty if no field has this name.
  if (parsed) return std::move(*parsed);
  return cursor.fail_at(name, "text.unknown_attribute",
                        fmt::format("the op has no attribute {}{}", quoted(name.text.substr(0, 40)),
                                    did_you_mean(name.text, known)),
                        known.empty() ? "remove the attribute; the op has none"
                                      : fmt::format("write one of {}", fmt::join(known, ", ")));
}

template <class OpT>
Status parse_attributes(TextCursor& cursor, OpT& op) {
  if (!cursor.accept('{')) return {};
  std::vector<std::string_view> seen;
  return parse_list(cursor, '}', [&] { return parse_field(cursor, op, seen); });
}

// A weight op is a view, followed by `as` and the encoding unless the encoding is plain.
Status parse_attributes(TextCursor& cursor, Weight& op) {
  MOEC_ASSIGN(op.view, parse_view_at(cursor));
  if (!cursor.peek().is_word("as")) return {};
  cursor.take();
  return store(op.encoding, parse_encoding_at(cursor));
}

// ---- Ops ---------------------------------------------------------------------------------------

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  auto add = [&](const auto& more) { names.insert(names.end(), more.begin(), more.end()); };
  for (size_t i = 0; i < kOpKinds; ++i) {
    std::string_view name = traits_of(static_cast<OpKind>(i)).name;
    // A kind with functions, such as `binary`, is not a mnemonic.
    if (parse_mnemonic(name)) names.push_back(name);
  }
  add(enum_names(UnaryFn{}));
  add(enum_names(BinaryFn{}));
  add(enum_names(CompareFn{}));
  add(enum_names(ReduceFn{}));
  return names;
}

class ShardParser {
 public:
  ShardParser(std::string_view text, const ParseOptions& options)
      : cursor_(text, options), lines_(options.lines) {}

  Result<Shard> parse() {
    MOEC_TRY(parse_head());
    while (!cursor_.accept('}')) MOEC_TRY(parse_statement());
    MOEC_TRY(cursor_.expect_end());
    return std::move(shard_);
  }

 private:
  // The sections of a shard, in their required order.
  enum Section { inputs, states, ops, outputs };

  Status parse_head() {
    if (!cursor_.peek().is_word("shard")) return cursor_.unexpected("'shard'");
    note_line("", cursor_.take().line);
    MOEC_ASSIGN(shard_.name, cursor_.name("the shard's name"));
    std::vector<std::string_view> forms;
    for (Form form : {Form::model, Form::lowered, Form::static_ops, Form::placed})
      forms.push_back(form_name(form));
    MOEC_ASSIGN(size_t form, cursor_.one_of("a form", forms));
    shard_.form = static_cast<Form>(form);
    return cursor_.expect('{');
  }

  Status parse_statement() {
    const Token first = cursor_.peek();
    if (first.is_word("input")) return parse_input();
    if (first.is_word("state")) return parse_state();
    if (first.is_word("output")) return parse_output();
    if (first.kind == TokenKind::value || first.kind == TokenKind::word) return parse_op();
    return cursor_.unexpected("a statement or '}'");
  }

  Status enter(Section section, std::string_view what) {
    // The order of the sections numbers the values as shard.s2 requires.
    if (section < section_)
      return cursor_.fail_at(cursor_.peek(), "text.order", fmt::format("{} is out of order", what),
                             "write inputs, then states, then ops, then outputs");
    section_ = section;
    return {};
  }

  Status parse_input() {
    MOEC_TRY(enter(inputs, "an input"));
    cursor_.take();
    // `name` is a copy, because take() replaces the token that peek() refers to.
    const Token name = cursor_.peek();
    if (name.kind != TokenKind::value) return cursor_.unexpected("a %value");
    cursor_.take();
    MOEC_TRY(cursor_.expect(':'));
    MOEC_ASSIGN(Type type, parse_type_at(cursor_));
    MOEC_ASSIGN(ValueId id, define(name, std::move(type), OpId{}));
    shard_.inputs.push_back(id);
    return {};
  }

  Status parse_state() {
    MOEC_TRY(enter(states, "a state"));
    const uint32_t line = cursor_.take().line;
    State state;
    MOEC_ASSIGN(state.name, cursor_.name("a state name"));
    MOEC_TRY(cursor_.expect(':'));
    MOEC_ASSIGN(state.type, parse_type_at(cursor_));
    note_line(state_label(state), line);
    shard_.states.push_back(std::move(state));
    return {};
  }

  Status parse_output() {
    MOEC_TRY(enter(outputs, "an output"));
    const uint32_t line = cursor_.take().line;
    Output output;
    MOEC_ASSIGN(output.name, cursor_.name("an output name"));
    MOEC_TRY(cursor_.expect('='));
    MOEC_ASSIGN(output.value, use());
    note_line(output_label(output), line);
    shard_.outputs.push_back(std::move(output));
    return {};
  }

  Status parse_op() {
    MOEC_TRY(enter(ops, "an op"));
    const uint32_t line = cursor_.peek().line;
    MOEC_ASSIGN(auto results, parse_result_names());
    MOEC_ASSIGN(OpData data, parse_mnemonic_at());
    MOEC_ASSIGN(auto operands, parse_operands());
    MOEC_TRY(std::visit([&](auto& op) { return parse_attributes(cursor_, op); }, data));
    const OpId op = shard_.ops.push({std::move(data), std::move(operands), {}});
    // The op is stored before its results, because each value names its producer.
    MOEC_TRY(parse_result_types(op, results));
    note_line(op_label(shard_, op), line);
    return {};
  }

  Result<std::vector<Token>> parse_result_names() {
    std::vector<Token> names;
    // Ops without results, such as a state write, begin with their mnemonic.
    if (cursor_.peek().kind != TokenKind::value) return names;
    do {
      if (cursor_.peek().kind != TokenKind::value) return cursor_.unexpected("a %value");
      names.push_back(cursor_.take());
    } while (cursor_.accept(','));
    MOEC_TRY(cursor_.expect('='));
    return names;
  }

  Result<OpData> parse_mnemonic_at() {
    const Token name = cursor_.peek();
    if (name.kind != TokenKind::word) return cursor_.unexpected("an op");
    auto data = parse_mnemonic(name.text);
    // did_you_mean() is slow, so it is called only for a message.
    if (!data)
      return cursor_.fail_at(name, "text.unknown_op",
                             fmt::format("unknown op {}{}", quoted(name.text.substr(0, 40)),
                                         did_you_mean(name.text, op_names())),
                             "use an op of ir/OPS.md");
    cursor_.take();
    return std::move(*data);
  }

  Result<std::vector<ValueId>> parse_operands() {
    std::vector<ValueId> operands;
    // Some ops, such as weights and constants, have no operands.
    if (cursor_.peek().kind != TokenKind::value) return operands;
    do {
      MOEC_ASSIGN(ValueId operand, use());
      operands.push_back(operand);
    } while (cursor_.accept(','));
    return operands;
  }

  Status parse_result_types(OpId op, const std::vector<Token>& names) {
    for (size_t i = 0; i < names.size(); ++i) {
      MOEC_TRY(cursor_.expect(i == 0 ? ':' : ','));
      MOEC_ASSIGN(Type type, parse_type_at(cursor_));
      MOEC_ASSIGN(ValueId id, define(names[i], std::move(type), op));
      shard_.ops[op].results.push_back(id);
    }
    return {};
  }

  // Defines a new value. A value labelled with a number has no name.
  Result<ValueId> define(const Token& name, Type type, OpId producer) {
    // Bounds the memory that a text from a user can occupy.
    if (shard_.values.size() >= kMaxTextValues)
      return cursor_.fail_at(name, "text.too_many_values",
                             fmt::format("the text defines more than {} values", kMaxTextValues));
    const std::string value_name = is_all_digits(name.text) ? std::string() : name.text;
    const ValueId id = shard_.values.push({std::move(type), value_name, producer});
    // The key is the label, because values without a name are referred to by number.
    if (!ids_.emplace(name.text, id).second)
      return cursor_.fail_at(name, "text.redefined",
                             fmt::format("value %{} is defined twice", name.text.substr(0, 40)));
    note_line(shard_.label(id), name.line);
    return id;
  }

  Result<ValueId> use() {
    const Token name = cursor_.peek();
    if (name.kind != TokenKind::value) return cursor_.unexpected("a %value");
    auto found = ids_.find(name.text);
    // Values must be defined before they are used, so a text has no cycles.
    if (found == ids_.end())
      return cursor_.fail_at(
          name, "text.unknown_value",
          fmt::format("value %{} is not defined above", name.text.substr(0, 40)));
    cursor_.take();
    return found->second;
  }

  void note_line(std::string label, uint32_t line) {
    // If several statements share a label, emplace() keeps the first line.
    if (lines_) lines_->emplace(std::move(label), line);
  }

  TextCursor cursor_;
  LineMap* lines_;
  Shard shard_;
  Section section_ = inputs;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

Result<Shard> parse_shard(std::string_view text, const ParseOptions& options) {
  return ShardParser(text, options).parse();
}

}  // namespace moec
