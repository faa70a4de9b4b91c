#include "tests/ir_test/run_case.h"

#include <fmt/format.h>

#include <filesystem>

#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "passes/pass_options.h"
#include "passes/pipeline.h"
#include "tests/ir_test/compare_values.h"
#include "tests/ir_test/line_diff.h"

namespace moec::ir_test {
namespace {

class CaseRun {
 public:
  CaseRun(const TestCase& test, const std::string& file) : test_(test), file_(file) {}

  Outcome run() {
    for (const std::string& line : test_.bad_headers) failed("unknown header '{}'", line);
    ParseOptions options{file_, test_.first_line, &lines_};
    auto shard = parse_shard(test_.input, options);
    const bool sound = shard ? expect_findings(verify(*shard)) : expect_findings(shard.error());
    if (!shard || !sound) return finish();
    expect_round_trip(*shard);
    if (test_.run == "print")
      compare(print(*shard));
    else if (test_.run != "verify")
      run_passes(*shard);
    return finish();
  }

 private:
  template <class... Args>
  void failed(fmt::format_string<Args...> message, Args&&... args) {
    outcome_.failures.push_back(fmt::format("{}:{}: {}", file_, test_.first_line,
                                            fmt::format(message, std::forward<Args>(args)...)));
  }

  Outcome finish() {
    if (test_.expected && !outcome_.printed && outcome_.failures.empty())
      failed("the case has '// expect' but prints nothing");
    return std::move(outcome_);
  }

  uint32_t line_of(const Place& place) const {
    if (place.line) return *place.line;
    auto found = lines_.find(place.op);
    return found == lines_.end() ? test_.first_line : found->second;
  }

  // Returns true if there are no findings. Reports findings that differ from those named in the
  // file.
  bool expect_findings(const Diagnostics& findings) {
    std::set<ExpectedError> found;
    for (const Diagnostic& finding : findings) {
      const ExpectedError error{line_of(finding.place), finding.code};
      found.insert(error);
      if (!test_.errors.contains(error))
        failed("line {}: unexpected {}", error.first, render(finding));
    }
    for (const ExpectedError& error : test_.errors)
      if (!found.contains(error))
        failed("line {}: expected finding {}, got none", error.first, error.second);
    return findings.empty();
  }

  void expect_round_trip(const Shard& shard) {
    auto again = parse_shard(print(shard));
    if (!again || *again != shard || print(*again) != print(shard))
      failed("the printed shard does not round-trip:\n{}", print(shard));
  }

  void run_passes(const Shard& shard) {
    PassContext context;
    for (const std::string& option : test_.options)
      if (auto set = set_pass_option(context.options, option); !set)
        return failed("{}", render(set.error()));
    auto passes = parse_pipeline(test_.run);
    if (!passes) return failed("{}", render(passes.error()));
    // The folder for reproducers of failing passes.
    const auto scratch = std::filesystem::temp_directory_path() / "moec_ir_test";
    auto result = run_pipeline(shard, *passes, context, {.dump_dir = scratch.string()});
    if (!test_.pass_error.empty()) return expect_pass_error(result);
    if (!result) return failed("{}", render(result.error()));
    compare(print(result->shard));
    if (test_.check_values)
      for (const std::string& difference : compare_values(shard, result->shard))
        failed("{}", difference);
  }

  void expect_pass_error(const Result<PipelineResult>& result) {
    if (result) return failed("expected {}, the passes succeeded", test_.pass_error);
    for (const Diagnostic& finding : result.error())
      if (finding.code == test_.pass_error) return;
    failed("expected {}, got\n{}", test_.pass_error, render(result.error()));
  }

  void compare(const std::string& text) {
    outcome_.printed = text;
    if (!test_.expected)
      failed("'// expect' is missing; add it with --update");
    else if (*test_.expected != text)
      failed("the result differs from '// expect'\n{}", line_diff(*test_.expected, text));
  }

  const TestCase& test_;
  const std::string& file_;
  LineMap lines_;
  Outcome outcome_;
};

}  // namespace

Outcome run_case(const TestCase& test, const std::string& file) {
  return CaseRun(test, file).run();
}

}  // namespace moec::ir_test
