#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "ir/base/invariant.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "passes/pass_options.h"
#include "passes/pipeline.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The name of a shard as a single path component.
std::string path_name(const Shard& shard) {
  std::string name = shard.name;
  for (char& c : name) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '-' || c == '_';
    if (!kept) c = '_';
  }
  return name.find_first_not_of('.') == std::string::npos ? "_" + name : name;
}

Status write_text(const fs::path& path, const std::string& text) {
  std::error_code ignored;  // if this fails, the write below fails too
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary);
  if (!file || !(file << text) || !file.flush())
    return fail("passes.write", "the file cannot be written",
                "choose a writable folder with --dump-dir", {.file = path.string()});
  return {};
}

// Creates a folder in the system's temporary folder that only this user can read.
Result<fs::path> make_temporary_folder() {
  std::error_code failure;
  const fs::path parent = fs::temp_directory_path(failure);
  std::string name = (parent / "moec-XXXXXX").string();
  if (failure || mkdtemp(name.data()) == nullptr)
    return fail("passes.write", "cannot create a temporary folder",
                "pass a folder with --dump-dir");
  return fs::path(name);
}

// True if two shards are equal except for their form.
bool same_content(const Shard& a, const Shard& b) {
  return a.inputs == b.inputs && a.states == b.states && a.outputs == b.outputs &&
         a.values == b.values && a.ops == b.ops;
}

class PipelineRun {
 public:
  PipelineRun(PassContext& context, const RunOptions& options)
      : context_(context), options_(options) {}

  Result<PipelineResult> run(const Shard& shard, const std::vector<const Pass*>& passes) {
    PipelineResult result{shard, {}};
    for (const Pass* pass : passes) {
      MOEC_ASSIGN(Shard next, run_pass(*pass, result.shard));
      MOEC_TRY(dump(*pass, next, result.passes.size() + 1));
      result.passes.push_back(report_);
      result.shard = std::move(next);
    }
    return result;
  }

 private:
  // Runs the pass, verifies its result and fills the report.
  Result<Shard> run_pass(const Pass& pass, const Shard& shard) {
    ReproducerScope reproducer([&] { return write_reproducer(pass, shard).value_or(""); });
    const auto start = std::chrono::steady_clock::now();
    Result<Shard> next = pass.run(shard, context_);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!next) return failed(pass, shard, std::move(next.error()));
    const bool changed = !same_content(shard, *next);
    if (Diagnostics findings = check(pass, shard, *next, changed); has_error(findings))
      return failed(pass, shard, std::move(findings));
    report_ = {std::string(pass.name), elapsed.count(), changed, shard.ops.size(),
               next->ops.size()};
    return next;
  }

  // The input is verified, so a result that equals it is not verified again.
  static Diagnostics check(const Pass& pass, const Shard& before, const Shard& next, bool changed) {
    Diagnostics findings;
    if (changed || next.form != before.form || next.name != before.name) findings = verify(next);
    if (next.form != pass.to)
      findings.push_back({Severity::error,
                          "passes.form",
                          fmt::format("{} returned form {} instead of {}", pass.name,
                                      form_name(next.form), form_name(pass.to)),
                          "",
                          {.shard = next.name}});
    return findings;
  }

  fs::path dump_folder() const { return fs::path(options_.dump_dir) / options_.subfolder; }

  // The folder for reproducers: --dump-dir or a temporary folder. Never the working directory,
  // because the user did not request files there.
  Result<fs::path> reproducer_folder() const {
    if (!options_.dump_dir.empty()) return dump_folder();
    return make_temporary_folder();
  }

  Result<std::string> write_reproducer(const Pass& pass, const Shard& shard) const {
    MOEC_ASSIGN(const fs::path folder, reproducer_folder());
    const fs::path path = folder / fmt::format("{}.{}.repro.ir", path_name(shard), pass.name);
    MOEC_TRY(write_text(path, fmt::format("// run: {} {}\n{}", pass.name,
                                          to_string(context_.options), print(shard))));
    return path.string();
  }

  tl::unexpected<Diagnostics> failed(const Pass& pass, const Shard& shard,
                                     Diagnostics findings) const {
    auto path = write_reproducer(pass, shard);
    findings.push_back({Severity::note,
                        "passes.reproducer",
                        path ? fmt::format("the input of {} is saved as {}", pass.name, *path)
                             : fmt::format("the input of {} cannot be saved: {}", pass.name,
                                           path.error().front().cause),
                        path ? fmt::format("moec opt {} --passes {}", *path, pass.name) : "",
                        {.shard = shard.name}});
    return fail(std::move(findings));
  }

  Status dump(const Pass& pass, const Shard& shard, size_t number) const {
    if (!contains(options_.dump_after, "all") && !contains(options_.dump_after, pass.name))
      return {};
    const std::string file =
        fmt::format("{:04}.{}.{}.ir", number, pass.name, report_.changed ? "changed" : "unchanged");
    return write_text(dump_folder() / path_name(shard) / file, print(shard));
  }

  PassContext& context_;
  const RunOptions& options_;
  PassReport report_;
};

// Returns an error if `skip` or `dump_after` contains a name that is not a pass.
Status check_names(const RunOptions& options) {
  for (const std::string& name : options.skip) MOEC_TRY(parse_pipeline(name));
  for (const std::string& name : options.dump_after)
    if (name != "all") MOEC_TRY(parse_pipeline(name));
  return {};
}

std::vector<const Pass*> chosen_passes(std::span<const Pass* const> passes,
                                       const RunOptions& options) {
  const size_t count = std::min(passes.size(), options.bisect.value_or(passes.size()));
  std::vector<const Pass*> chosen;
  for (const Pass* pass : passes.first(count))
    if (!contains(options.skip, pass->name)) chosen.push_back(pass);
  return chosen;
}

}  // namespace

Result<PipelineResult> run_pipeline(const Shard& shard, std::span<const Pass* const> passes,
                                    PassContext& context, const RunOptions& options) {
  MOEC_TRY(check_names(options));
  const std::vector<const Pass*> chosen = chosen_passes(passes, options);
  MOEC_TRY(check_pipeline(chosen, shard.form));
  if (Diagnostics findings = verify(shard); has_error(findings)) return fail(std::move(findings));
  return PipelineRun(context, options).run(shard, chosen);
}

}  // namespace moec
