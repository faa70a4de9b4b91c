#include "backends/tokenizer/regex_syntax.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "ir/base/json.h"

namespace moec {
namespace {

// \w of Oniguruma: property Word of UTS 18, annex C, without U+200C and U+200D.
constexpr const char* kWordItems = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

// Class escapes and the equivalent items of a PCRE2 class.
constexpr std::array<std::pair<char, const char*>, 4> kClasses = {{
    {'s', R"(\p{White_Space})"},
    {'d', R"(\p{Nd})"},
    {'w', kWordItems},
    {'h', "0-9a-fA-F"},
}};

// Escapes with the same meaning in both syntaxes. Letters and digits without a translation are
// refused, because an escape with another meaning would change tokens silently.
constexpr std::string_view kSameEscapes = "tnrfvae0AzZ";

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Translation {
 public:
  Translation(std::string_view pattern, bool (*is_script)(std::string_view))
      : pattern_(pattern), is_script_(is_script) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) MOEC_TRY(element());
    return std::move(out_);
  }

 private:
  tl::unexpected<Diagnostics> refuse(std::string_view what) const {
    return fail("tokenizer.pattern",
                fmt::format("unsupported regular expression \"{}\": {} at character {}",
                            printable(pattern_), what, at_ + 1),
                "report the pattern");
  }

  // Returns '\0' after the end of the pattern, so callers need no range checks.
  char peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }

  // Translates one element. An interval applies to the element before it, so `atom_` keeps the
  // start of that element for interval(). A group starts at its opening parenthesis.
  Status element() {
    const char c = peek();
    if (c == '{') return interval();
    if (c == ')' && !groups_.empty()) {
      atom_ = groups_.back();
      groups_.pop_back();
      out_ += pattern_[at_++];
      return {};
    }
    if (c == '*' || c == '+' || c == '?' || c == '|') {
      out_ += pattern_[at_++];
      return {};
    }
    atom_ = out_.size();
    if (c == '(') return group();
    if (c == '[') return bracket();
    if (c == '\\') return escape();
    out_ += pattern_[at_++];
    return {};
  }

  // Copies the opening of a group, including lookarounds and flags. Their syntax is the same,
  // except that Ruby's flag m lets the dot match newlines, which is s in PCRE2.
  Status group() {
    if (peek(1) == '?' && peek(2) == '#') return refuse("a comment");
    groups_.push_back(out_.size());
    out_ += pattern_[at_++];
    if (peek() != '?') return {};
    while (peek() == '?' || peek() == ':' || peek() == '=' || peek() == '!' || peek() == '<' ||
           peek() == '>' || peek() == 'i' || peek() == 'm' || peek() == '-') {
      out_ += peek() == 'm' ? 's' : peek();
      ++at_;
    }
    return {};
  }

  // {n,m}, or {n,m}+, which repeats the interval in Ruby and is possessive in PCRE2.
  Status interval() {
    const size_t end = pattern_.find('}', at_);
    const std::string_view inside =
        end == std::string_view::npos ? "" : pattern_.substr(at_, end + 1 - at_);
    if (inside.size() < 3 || inside.find_first_not_of("0123456789,{}") != std::string_view::npos)
      return refuse("a brace that is not an interval");
    out_ += inside;
    at_ = end + 1;
    if (peek() != '+') return {};
    out_.insert(atom_, "(?:");
    out_ += ')';
    return {};
  }

  // An upper-case letter negates a class. \b and \B become lookarounds, because PCRE2's \b uses
  // another set of word characters.
  Status escape() {
    const char c = peek(1);
    for (const auto& [name, items] : kClasses)
      if (c == name || c == name - 'a' + 'A') {
        out_ += fmt::format("[{}{}]", c == name ? "" : "^", items);
        at_ += 2;
        return {};
      }
    if (c == 'b' || c == 'B') {
      const std::string word = fmt::format("[{}]", kWordItems);
      const bool at_edge = c == 'b';
      out_ += fmt::format("(?:(?<={0})(?{1}{0})|(?<!{0})(?{2}{0}))", word, at_edge ? '!' : '=',
                          at_edge ? '=' : '!');
      at_ += 2;
      return {};
    }
    MOEC_ASSIGN(const std::string same, common_escape());
    out_ += same;
    return {};
  }

  // An escape that is valid inside and outside of classes.
  Result<std::string> common_escape() {
    const char c = peek(1);
    if (c == 'p' || c == 'P') return property();
    if (c == 'x' || c == 'u') return code_point();
    if (c == '\0' || (is_alphanumeric(c) && kSameEscapes.find(c) == std::string_view::npos))
      return refuse("an unknown escape");
    at_ += 2;
    return std::string{'\\', c};
  }

  // \P{^…} is a double negation. Only a name that PCRE2 knows as a script gets the prefix "sc:".
  Result<std::string> property() {
    const bool negative = peek(1) == 'P';
    const size_t end = pattern_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) return refuse("a property without braces");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool inverted = name.starts_with('^');
    if (inverted) name.remove_prefix(1);
    const char letter = negative != inverted ? 'P' : 'p';
    at_ = end + 1;
    return fmt::format("\\{}{{{}{}}}", letter, is_script_(name) ? "sc:" : "", name);
  }

  // \xhh up to 7f, \x{h…} and \uhhhh. Above 7f, Oniguruma reads \xhh as a raw byte.
  Result<std::string> code_point() {
    if (peek(1) == 'u') return code_point_of({2, 4, 0});
    if (peek(2) == '{') return code_point_of({3, 8, 1});
    if (peek(2) >= '8' && std::isxdigit(peek(3)) != 0)
      return refuse("a byte that is not a code point");
    return code_point_of({2, 2, 0});
  }

  // The offset of the digits, their maximum number, and the length of the closing brace.
  struct Digits {
    size_t begin, most, behind;
  };
  Result<std::string> code_point_of(const Digits& at) {
    const size_t begin = at_ + at.begin;
    size_t end = begin;
    while (end < pattern_.size() && end - begin < at.most && std::isxdigit(pattern_[end]) != 0)
      ++end;
    if (end == begin || (at.behind > 0 && (end == pattern_.size() || pattern_[end] != '}')))
      return refuse("an unknown escape");
    at_ = end + at.behind;
    return fmt::format("\\x{{{}}}", pattern_.substr(begin, end - begin));
  }

  // The items of a class up to its closing bracket or to &&.
  Result<std::string> class_items() {
    std::string items;
    while (at_ < pattern_.size() && peek() != ']') {
      if (peek() == '&' && peek(1) == '&') return items;
      if (peek() == '[') return refuse("a class within a class");
      if (peek() == '\\') {
        MOEC_ASSIGN(const std::string item, class_escape());
        items += item;
      } else {
        items += pattern_[at_++];
      }
    }
    return items;
  }

  // A negated class becomes \P{…}, which works only for a single property. \W and \H have several
  // items and are refused.
  Result<std::string> class_escape() {
    const char c = peek(1);
    for (const auto& [name, items] : kClasses) {
      const bool negative = c == name - 'a' + 'A';
      if (c != name && !negative) continue;
      if (negative && (c == 'W' || c == 'H')) return refuse("a negative class within a class");
      at_ += 2;
      if (!negative) return std::string(items);
      return fmt::format("\\P{}", std::string_view(items).substr(2));
    }
    if (c == 'b') return refuse("an unknown escape");
    return common_escape();
  }

  // [items], [items&&[items]] or [items&&items]. The second operand becomes a lookahead. The
  // lookahead tests the same character as the class after it, so both must match.
  Status bracket() {
    MOEC_ASSIGN(const std::string first, simple_class());
    if (peek() != '&') {
      out_ += first;
      return {};
    }
    at_ += 2;
    std::string second;
    if (peek() == '[') {
      MOEC_ASSIGN(second, simple_class());
    } else {
      MOEC_ASSIGN(const std::string items, class_items());
      second = fmt::format("[{}]", items);
    }
    if (peek() != ']') return refuse("more than two classes in one");
    ++at_;
    out_ += fmt::format("(?:(?={}){})", second, first);
    return {};
  }

  // Parses from "[" through "]", or up to "&&".
  Result<std::string> simple_class() {
    ++at_;
    const bool negative = peek() == '^';
    if (negative) ++at_;
    std::string_view closing;  // a leading ] is an item
    if (peek() == ']') {
      closing = "\\]";
      ++at_;
    }
    MOEC_ASSIGN(const std::string items, class_items());
    if (at_ == pattern_.size()) return refuse("an unterminated class");
    if (peek() == ']') {
      ++at_;
    } else if (negative) {
      return refuse("a negative class with &&");
    }
    return fmt::format("[{}{}{}]", negative ? "^" : "", closing, items);
  }

  std::string_view pattern_;
  bool (*is_script_)(std::string_view);
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // offset of the current element in `out_`
  std::vector<size_t> groups_;  // offsets of the open groups in `out_`
};

}  // namespace

Result<std::string> pcre2_pattern(std::string_view pattern, bool (*is_script)(std::string_view)) {
  return Translation(pattern, is_script).run();
}

}  // namespace moec
