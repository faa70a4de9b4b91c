#include "frontends/cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr size_t kColumns = 80;  // of the text
constexpr size_t kNames = 30;    // of them for the names of options
constexpr const char* kOther = "Other";

struct CommandRow {
  std::string_view name, task;
  std::vector<std::string_view> common;  // its most used options, at most ten
};

// By task, in the order in which they are listed.
const std::vector<CommandRow>& commands() {
  static const std::vector<CommandRow> rows = {
      {"inspect", "Look", {"--tensors", "--json"}},
      {"plan",
       "Look",
       {"--list", "--target", "--tokens", "--context", "--weights", "--max-shard-mb", "--routing",
        "--resident-budget", "--json"}},
      {"analyze",
       "Look",
       {"--out", "--prompts", "--text", "--tokens", "--window", "--table", "--baseline", "--json"}},
      {"export",
       "Compile",
       {"--out", "--target", "--tokens", "--context", "--weights", "--routing",
        "--experts-per-shard", "--memory", "--force"}},
      {"calibrate", "Compile", {"--text", "--tokens", "--out", "--window", "--sensitivity"}},
      {"upcycle",
       "Compile",
       {"--out", "--experts", "--top-k", "--granularity", "--init", "--router", "--dry-run",
        "--verify", "--force"}},
      {"opt", "Compile", {"--passes", "--list-passes", "--target", "--timing"}},
      {"family", "Compile", {}},
      {"check", "Prove", {"--chip", "--explain", "--ops", "--allow-disputed", "--sarif", "--json"}},
      {"validate", "Prove", {"--golden", "--precision", "--thresholds", "--record", "--json"}},
      {"compare", "Prove", {"--text", "--tokens", "--window", "--max-kl", "--min-top1", "--json"}},
      {"confirm", "Prove", {"--engine", "--chip", "--golden", "--python"}},
      {"run",
       "Run",
       {"--prompt", "--prompt-file", "--prompt-tokens", "--max-tokens", "--temperature", "--seed",
        "--memory", "--engine", "--capacity"}},
      {"serve", "Run", {"--host", "--port", "--sequences", "--max-tokens", "--memory", "--engine"}},
      {"prepack", "Run", {"--profile", "--capacity", "--out"}},
      {"place",
       "Place",
       {"--profile", "--nodes", "--node-memory", "--replicas", "--stages", "--out", "--json"}},
      {"split",
       "Place",
       {"--out", "--place", "--groups", "--expert-list", "--profile", "--dry-run", "--force"}},
      {"probe", "Place", {"--groups", "--prompt", "--prompts", "--text", "--write", "--json"}},
      {"trace", "Learn", {"--out", "--prompts", "--text", "--tokens", "--window", "--format"}},
      {"simulate",
       "Learn",
       {"--capacity", "--policy", "--profile", "--export", "--plot", "--json"}},
      {"discover", "Learn", {"--out", "--prompt", "--prompts", "--text", "--recall"}},
  };
  return rows;
}

struct GroupRow {
  std::string_view name;
  std::vector<std::string_view> options;
};

// An option has one meaning in all commands, and so one group.
const std::vector<GroupRow>& groups() {
  static const std::vector<GroupRow> rows = {
      {"Input",
       {"--family-file", "--layers",       "--seeded-weights", "--text",          "--tokens-file",
        "--prompt",      "--prompts",      "--prompt-file",    "--prompt-tokens", "--window",
        "--golden",      "--from-imatrix", "--profile",        "--config",        "--checkpoint",
        "--function",    "--list",         "--thresholds",     "--baseline",      "--place",
        "--groups",      "--expert-list",  "--against",        "--export",        "--prefill",
        "--adapter",     "--from-moe"}},
      {"Output",
       {"--out",
        "--force",
        "--dry-run",
        "--digest",
        "--onnx-checksum",
        "--name",
        "--compat",
        "--max-file-size",
        "--tokenizer",
        "--format",
        "--plot",
        "--sarif",
        "--record",
        "--write",
        "--tensors",
        "--imatrix",
        "--coactivation",
        "--expected",
        "--context-binaries",
        "--measured",
        "--log-gates",
        "--log-layers",
        "--memory-report",
        "--json",
        "--quiet",
        "--redact",
        "--table",
        "--timing",
        "--ops",
        "--digests",
        "--state"}},
      {"Target", {"--target", "--chip", "--widths", "--multi-function", "--spec-version"}},
      {"Form",
       {"--tokens", "--context", "--dtype", "--layout", "--kv", "--mla", "--routing", "--experts",
        "--attention", "--form", "--sum", "--bank-channel-limit", "--passes", "--list-passes"}},
      {"Weights",
       {"--weights", "--calibration", "--calibration-inputs", "--accuracy-level", "--fold-overflow",
        "--allow-overflow", "--allow-nonfinite", "--sensitivity"}},
      {"Shards",
       {"--max-shard-mb", "--allow-over-budget", "--experts-per-shard", "--expert-groups",
        "--layers-per-shard", "--head-slices", "--expert-align"}},
      {"Experts",
       {"--expert-mask", "--top-k",        "--top-k-policy",  "--battery",         "--category",
        "--confidence",  "--pin-top-k",    "--expert-memory", "--capacity",        "--policy",
        "--on-miss",     "--expert-reads", "--prepacked",     "--cache-bias",      "--keep-top",
        "--pool",        "--step-tokens",  "--expert-bytes",  "--allow-uncovered", "--recall",
        "--score"}},
      {"Devices",
       {"--device", "--trunk", "--loads", "--replicas", "--nodes", "--node-memory", "--stages",
        "--resident-budget", "--working-set"}},
      {"Model",
       {"--granularity", "--shared-width", "--arch", "--init", "--router", "--scale",
        "--unnormalised", "--noise", "--expert", "--multiply"}},
      {"Run", {"--max-tokens",   "--stop-token", "--ignore-eos",      "--temperature",
               "--sample-top-k", "--seed",       "--precision",       "--engine",
               "--engine-cache", "--repeats",    "--energy-per-byte", "--energy-per-mac",
               "--no-run",       "--python",     "--script",          "--host",
               "--port",         "--sequences",  "--waiting",         "--connections",
               "--max-body"}},
      {"Limits",
       {"--memory", "--group-memory", "--jobs", "--max-kl", "--min-top1", "--min-coverage",
        "--max-error", "--verify", "--allow-disputed", "--explain"}},
      {"Debugging", {"--skip-pass", "--dump-after", "--dump-dir", "--bisect"}},
  };
  return rows;
}

template <class Rows>
const auto* find_row(const Rows& rows, std::string_view name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

std::string long_name(const CLI::Option& option) { return "--" + option.get_single_name(); }

std::string group_of(const CLI::Option& option) {
  for (const GroupRow& group : groups())
    if (std::find(group.options.begin(), group.options.end(), long_name(option)) !=
        group.options.end())
      return std::string(group.name);
  return kOther;
}

// Breaks a text into lines of at most `width` characters, at spaces.
std::string wrapped(std::string_view text, size_t width) {
  std::string lines;
  while (text.size() > width) {
    size_t end = text.rfind(' ', width);
    if (end == std::string_view::npos) end = text.find(' ');
    if (end == std::string_view::npos) break;
    lines += std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(end + 1);
  }
  return lines + std::string(text);
}

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kNames); }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    const CommandRow* row = find_row(commands(), app->get_name());
    if (!row || mode != CLI::AppFormatMode::Normal)
      return CLI::Formatter::make_help(app, std::move(name), mode);
    return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) +
           common_options(*app, *row) + make_subcommands(app, mode) + "\n" + make_footer(app);
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(CLI::Formatter::make_option_desc(option), kColumns - kNames);
  }

 private:
  std::string common_options(const CLI::App& app, const CommandRow& row) const {
    std::vector<const CLI::Option*> shown;
    for (const std::string_view name : row.common)
      if (const CLI::Option* option = app.get_option_no_throw(std::string(name)))
        shown.push_back(option);
    const auto all = app.get_options([&](const CLI::Option* option) {
      return option->nonpositional() && option != app.get_help_ptr() &&
             option != app.get_help_all_ptr();
    });
    const std::string text = shown.empty() ? "" : make_group("Options", false, shown);
    if (all.size() == shown.size()) return text;
    return text + fmt::format("\n{} more: moec {} --help-all\n", all.size() - shown.size(),
                              app.get_name());
  }
};

void arrange_command(CLI::App& command) {
  command.set_help_all_flag("--help-all", "Print all options by group and exit");
  for (CLI::Option* option : command.get_options())
    if (option->nonpositional()) option->group(group_of(*option));
}

}  // namespace

void arrange_help(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const CommandRow* row = find_row(commands(), command->get_name());
    MOEC_CHECK(row, "command {} has no row in help.cc", command->get_name());
    command->group(std::string(row->task));
    command->formatter(app.get_formatter());
    arrange_command(*command);
    for (CLI::App* inner : command->get_subcommands([](const CLI::App*) { return true; }))
      arrange_command(*inner);
  }
}

}  // namespace moec
