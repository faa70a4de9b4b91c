#include "tests/ir_test/test_case.h"

#include <fmt/format.h>

#include <sstream>

namespace moec::ir_test {
namespace {

constexpr std::string_view kSeparator = "// ----";
constexpr std::string_view kExpect = "// expect";

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

std::string_view trimmed(std::string_view line) {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

std::optional<std::string_view> after(std::string_view line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return std::nullopt;
  return line.substr(prefix.size());
}

class CaseReader {
 public:
  explicit CaseReader(uint32_t first_line) { case_.first_line = first_line; }

  void add(std::string_view line, uint32_t number) {
    if (trimmed(line) == kExpect && !case_.expected) {
      case_.expected.emplace();
      return;
    }
    if (case_.expected) {
      *case_.expected += fmt::format("{}\n", line);
      return;
    }
    case_.input += fmt::format("{}\n", line);
    read_header(trimmed(line));
    read_errors(line, number);
  }

  TestCase finish() {
    if (case_.run.empty()) case_.run = "verify";
    return std::move(case_);
  }

 private:
  void read_header(std::string_view line) {
    if (auto run = after(line, "// run:")) {
      std::vector<std::string> all = words(*run);
      if (all.empty() || !case_.run.empty()) return bad(line);
      case_.run = all[0];
      case_.options.assign(all.begin() + 1, all.end());
    } else if (auto check = after(line, "// check:")) {
      if (words(*check) != std::vector<std::string>{"values"}) return bad(line);
      case_.check_values = true;
    } else if (auto code = after(line, "// error-pass:")) {
      if (words(*code).size() != 1) return bad(line);
      case_.pass_error = words(*code)[0];
    }
  }

  void read_errors(std::string_view line, uint32_t number) {
    constexpr std::string_view kError = "// error:";
    const size_t at = line.find(kError);
    if (at == std::string_view::npos) return;
    std::vector<std::string> codes = words(line.substr(at + kError.size()));
    if (codes.empty()) bad(line);
    for (std::string& code : codes) case_.errors.emplace(number, std::move(code));
  }

  void bad(std::string_view line) { case_.bad_headers.emplace_back(line); }

  TestCase case_;
};

}  // namespace

std::vector<TestCase> parse_cases(std::string_view text) {
  std::vector<TestCase> cases;
  CaseReader reader(1);
  uint32_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (trimmed(line) == kSeparator) {
      cases.push_back(reader.finish());
      reader = CaseReader(number + 1);
    } else {
      reader.add(line, number);
    }
  }
  cases.push_back(reader.finish());
  return cases;
}

std::string render_cases(const std::vector<TestCase>& cases) {
  std::string text;
  for (const TestCase& one : cases) {
    if (&one != &cases.front()) text += fmt::format("{}\n", kSeparator);
    text += one.input;
    if (one.expected) text += fmt::format("{}\n{}", kExpect, *one.expected);
  }
  return text;
}

}  // namespace moec::ir_test
