#include "ir/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

namespace moec {
namespace {

using Reader = nlohmann::json;

// An iterator that tracks the lexer's position, because the library's events have no offsets.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** position) : at_(at), position_(position) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *position_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** position_;
};

// Returns the parser's message without the prefix "[…] parse error at line 1, column 2: ".
std::string syntax_message(const std::string& message) {
  size_t colon = message.find(": ");
  return printable(colon == std::string::npos ? message : message.substr(colon + 2));
}

// Builds values from the parser's events and enforces the limits.
class Events {
 public:
  Events(std::string_view text, const JsonSource& source, const JsonLimits& limits,
         const JsonVisitor* visit)
      : text_(text), source_(source), limits_(limits), visit_(visit), position_(text.data()) {}

  Result<JsonValue> run() {
    if (text_.size() > limits_.bytes)
      return fail(
          "json.too_long",
          fmt::format("the text has {} bytes, the limit is {}", text_.size(), limits_.bytes), {},
          {.file = source_.file});
    // The lexer treats a NUL as the end of the text and would ignore everything after it.
    if (const size_t nul = text_.find('\0'); nul != std::string_view::npos) {
      stop_at(nul, "json.syntax", "the text contains a NUL byte", "correct the JSON syntax");
      return fail(std::move(failure_));
    }
    const char* begin = text_.data();
    const char* end = begin + text_.size();
    // Reads the library's SAX events instead of its parsed values, because the limits must apply
    // while the text is read.
    bool read = Reader::sax_parse(CountingIterator(begin, &position_),
                                  CountingIterator(end, &position_), this);
    if (!failure_.empty()) return fail(std::move(failure_));
    if (!read) stop("json.syntax", "the text is not JSON");
    if (!failure_.empty()) return fail(std::move(failure_));
    return std::move(root_);
  }

  bool null() { return add({}); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add_number(value); }
  bool number_unsigned(uint64_t value) {
    // The library reports non-negative integers as unsigned, even if they fit into int64_t.
    if (value <= static_cast<uint64_t>(INT64_MAX)) return add_number(static_cast<int64_t>(value));
    return limits_.long_integers ? add_number(static_cast<double>(value))
                                 : integer_too_big(std::to_string(value));
  }
  bool number_float(double value, const std::string& text) {
    // The library reports an integer that does not fit into 64 bits as a float.
    const bool is_integer = text.find_first_of(".eE") == std::string::npos;
    if (is_integer && !limits_.long_integers) return integer_too_big(text);
    return add_number(value);
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Reader::binary_t&) { return stop("json.syntax", "binary values are not JSON"); }
  bool start_object(std::size_t) { return open(JsonValue::Object{}); }
  bool start_array(std::size_t) { return open(JsonValue::Array{}); }
  bool key(std::string& name) {
    stack_.back().key = std::move(name);
    // With a visitor, members of the outermost object are not stored. sort_members() therefore
    // cannot find their duplicates.
    if (visit_ == nullptr || stack_.size() > 1) return true;
    return seen_.insert(stack_.back().key).second || duplicate(stack_.back().key, offset());
  }
  bool end_object() { return sort_members(std::get<JsonValue::Object>(top())) && close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    return stop("json.syntax", syntax_message(error.what()), "correct the JSON syntax");
  }

 private:
  struct Frame {
    JsonValue::Data data;
    std::string key;
  };

  uint64_t offset() const { return static_cast<uint64_t>(position_ - text_.data()); }
  // The lexer has also consumed the character after a number, which may be on the next line.
  uint64_t number_end() const {
    const uint64_t end = offset();
    return std::isdigit(static_cast<unsigned char>(text_[end - 1])) ? end : end - 1;
  }
  JsonValue::Data& top() { return stack_.back().data; }

  bool stop_at(uint64_t offset, std::string code, std::string cause, std::string next = {}) {
    failure_ = {{Severity::error, std::move(code), std::move(cause), std::move(next),
                 json_place(text_, source_, offset)}};
    return false;
  }
  bool stop(std::string code, std::string cause, std::string next = {}) {
    return stop_at(offset(), std::move(code), std::move(cause), std::move(next));
  }
  bool integer_too_big(const std::string& text) {
    return stop_at(number_end(), "json.number",
                   fmt::format("the integer {} does not fit into 64 bits", printable(text, 40)));
  }
  bool duplicate(const std::string& key, uint64_t at) {
    return stop_at(at, "json.duplicate_key",
                   fmt::format("the key \"{}\" occurs twice in one object", printable(key)),
                   "remove one of the two");
  }

  // Arrays and objects are counted when they are opened, so that the limit applies before they
  // grow.
  bool count() {
    if (++values_ <= limits_.values) return true;
    return stop("json.values", fmt::format("the text has more than {} values", limits_.values));
  }
  bool open(JsonValue::Data data) {
    if (stack_.size() >= limits_.depth)
      return stop("json.depth", fmt::format("nesting is deeper than {}", limits_.depth),
                  "download the file again");
    // A visitor receives the members of the outermost value, which must therefore be an object.
    if (stack_.empty() && visit_ != nullptr && !std::holds_alternative<JsonValue::Object>(data))
      return not_object();
    stack_.push_back({std::move(data), {}});
    return count();
  }
  bool not_object() { return stop("json.not_object", "the text must be one JSON object"); }
  bool add(JsonValue::Data data) { return count() && place({std::move(data), offset()}); }
  bool add_number(JsonValue::Data data) {
    return count() && place({std::move(data), number_end()});
  }
  bool close() {
    JsonValue value{std::move(top()), offset()};
    stack_.pop_back();
    return place(std::move(value));
  }
  bool place(JsonValue value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return visit_ == nullptr || root_.object() != nullptr || not_object();
    }
    if (visit_ != nullptr && stack_.size() == 1) return visit(value);
    if (auto* array = std::get_if<JsonValue::Array>(&top()))
      array->push_back(std::move(value));
    else
      std::get<JsonValue::Object>(top()).push_back(
          {std::move(stack_.back().key), std::move(value)});
    return true;
  }
  bool visit(const JsonValue& value) {
    // JsonLimits::values applies per member here, because a visited member is not kept in memory.
    values_ = 0;
    Status status = (*visit_)(stack_.back().key, value);
    if (!status) failure_ = std::move(status.error());
    return status.has_value();
  }
  bool sort_members(JsonValue::Object& members) {
    // A stable sort keeps equal keys in the order of the text, so the second one is the duplicate.
    std::stable_sort(members.begin(), members.end(),
                     [](const JsonMember& a, const JsonMember& b) { return a.key < b.key; });
    auto twice =
        std::adjacent_find(members.begin(), members.end(),
                           [](const JsonMember& a, const JsonMember& b) { return a.key == b.key; });
    return twice == members.end() || duplicate(twice->key, std::next(twice)->value.offset);
  }

  std::string_view text_;
  const JsonSource& source_;
  const JsonLimits& limits_;
  const JsonVisitor* visit_;
  const char* position_;
  std::vector<Frame> stack_;
  std::set<std::string>
      seen_;  // keys of the outermost object, whose members are visited, not stored
  size_t values_ = 0;
  JsonValue root_;
  Diagnostics failure_;
};

}  // namespace

std::optional<double> JsonValue::number() const {
  if (const int64_t* whole = integer()) return static_cast<double>(*whole);
  if (const double* fraction = std::get_if<double>(&data)) return *fraction;
  return std::nullopt;
}

const JsonValue* JsonValue::find(std::string_view key) const {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  // sort_members() has sorted the members by key.
  auto found = std::lower_bound(members->begin(), members->end(), key,
                                [](const JsonMember& a, std::string_view b) { return a.key < b; });
  return found != members->end() && found->key == key ? &found->value : nullptr;
}

Result<JsonValue> parse_json(std::string_view text, const JsonSource& source,
                             const JsonLimits& limits) {
  return Events(text, source, limits, nullptr).run();
}

Status parse_json_members(std::string_view text, const JsonSource& source, const JsonLimits& limits,
                          const JsonVisitor& visit) {
  MOEC_TRY(Events(text, source, limits, &visit).run());
  return {};
}

Place json_place(std::string_view text, const JsonSource& source, uint64_t offset) {
  Place place{.file = source.file, .offset = source.first_offset + offset};
  if (!source.has_lines) return place;
  std::string_view before = text.substr(0, offset);
  // Values store offsets only; lines are counted here, when a message needs them.
  place.line = static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n') + 1);
  size_t line_start = before.rfind('\n');
  place.column = static_cast<uint32_t>(
      before.size() - (line_start == std::string_view::npos ? 0 : line_start + 1) + 1);
  return place;
}

}  // namespace moec
