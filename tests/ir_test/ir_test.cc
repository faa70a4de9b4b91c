// ir_test FILE.ir…            runs `.ir` tests (test_case.h has the format)
// ir_test --update FILE.ir…   rewrites their expectations in place
// ir_test --self-test         checks that wrong cases fail
// Exit codes: 0 success, 1 a test failed, 2 a usage error or an unreadable file.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "tests/ir_test/run_case.h"
#include "tests/ir_test/self_test.h"

namespace moec::ir_test {
namespace {

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return text.str();
}

int run_file(const std::string& path, bool update) {
  auto text = read_file(path);
  if (!text) {
    fmt::print(stderr, "{} cannot be read\n", path);
    return 2;
  }
  std::vector<TestCase> cases = parse_cases(*text);
  size_t failures = 0;
  for (TestCase& test : cases) {
    if (update) test.expected = run_case(test, path).printed;
    for (const std::string& failure : run_case(test, path).failures) {
      fmt::print("{}\n", failure);
      ++failures;
    }
  }
  const std::string updated = render_cases(cases);
  if (update && updated != *text && !(std::ofstream(path, std::ios::binary) << updated)) return 2;
  fmt::print("{}: {} cases, {} failures\n", path, cases.size(), failures);
  return failures == 0 ? 0 : 1;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"--self-test"}) return self_test();
  const bool update = !arguments.empty() && arguments[0] == "--update";
  if (arguments.size() <= (update ? 1 : 0)) {
    fmt::print(stderr, "usage: ir_test [--update] FILE.ir… | --self-test\n");
    return 2;
  }
  int worst = 0;
  for (size_t i = update ? 1 : 0; i < arguments.size(); ++i)
    worst = std::max(worst, run_file(arguments[i], update));
  return worst;
}

}  // namespace
}  // namespace moec::ir_test

int main(int count, char** arguments) {
  return moec::ir_test::run({arguments + 1, arguments + count});
}
