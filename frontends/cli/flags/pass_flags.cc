#include "frontends/cli/flags/pass_flags.h"

#include <CLI/CLI.hpp>

#include "backends/targets/find_target.h"
#include "frontends/cli/flags/number_check.h"

namespace moec {
namespace {

template <class E>
CLI::IsMember names_of() {
  auto names = enum_names(E{});
  return CLI::IsMember(std::vector<std::string>(names.begin(), names.end()));
}

}  // namespace

void add_pass_flags(CLI::App& command, PassFlags& flags) {
  command
      .add_option("--target", flags.target,
                  "Target whose rules and preferences apply: a name, or a file NAME.json of yours")
      ->capture_default_str();
  command.add_option("--chip", flags.chip,
                     "Only the target's rules for this chip, e.g. m1 (default: those of all)");
  command.add_option("--routing", flags.routing, "How routers become tensor math")
      ->check(names_of<RoutingForm>())
      ->capture_default_str();
  command
      .add_option("--experts", flags.experts, "Expert form: three projections an expert, or banks")
      ->check(names_of<ExpertForm>())
      ->capture_default_str();
  command.add_option("--attention", flags.attention, "Attention form (default: the target's)")
      ->check(names_of<AttentionForm>());
  command.add_option("--form", flags.form, "Projection form (default: the target's)")
      ->check(names_of<ProjectionForm>());
  command.add_option("--sum", flags.sum, "How expert outputs are added (default: the target's)")
      ->check(names_of<SumForm>());
  command
      .add_option("--bank-channel-limit", flags.bank_channel_limit,
                  "Widest projection of an expert bank")
      ->check(whole_from(1))
      ->capture_default_str();
  command.add_option("--skip-pass", flags.skip, "Leave a pass out (repeatable)")
      ->group("Debugging");
  command.add_option("--dump-after", flags.dump_after, "Write the IR after this pass, or \"all\"")
      ->group("Debugging");
  command
      .add_option("--dump-dir", flags.dump_dir,
                  "Folder for dumps (default: the current one) and for reproducers of failing "
                  "passes (default: a new folder for temporary files)")
      ->group("Debugging");
  command.add_option("--bisect", flags.bisect, "Run only the first N passes")
      ->check(whole_from(0))
      ->group("Debugging");
}

Result<PassOptions> pass_options(const PassFlags& flags) {
  PassOptions options;
  MOEC_ASSIGN(options.target, find_target(flags.target));
  if (!flags.chip.empty()) {
    MOEC_ASSIGN(options.target, for_chip(std::move(options.target), flags.chip));
  }
  options.routing = *parse_enum<RoutingForm>(flags.routing);
  options.experts = *parse_enum<ExpertForm>(flags.experts);
  options.attention = flags.attention.empty() ? options.target.attention
                                              : *parse_enum<AttentionForm>(flags.attention);
  options.bank_channel_limit = flags.bank_channel_limit;
  if (!flags.form.empty()) options.target.projection = *parse_enum<ProjectionForm>(flags.form);
  if (!flags.sum.empty()) options.target.sum = *parse_enum<SumForm>(flags.sum);
  return options;
}

Result<RunOptions> run_options(const PassFlags& flags) {
  for (const std::string& name : flags.skip)
    if (!find_pass(name))
      return fail("passes.unknown", "there is no pass named '" + name + "'",
                  "moec opt --list-passes names them");
  RunOptions options{.skip = flags.skip,
                     .bisect = std::nullopt,
                     .dump_after = flags.dump_after,
                     .dump_dir = flags.dump_dir,
                     .subfolder = {}};
  if (flags.bisect >= 0) options.bisect = static_cast<size_t>(flags.bisect);
  return options;
}

}  // namespace moec
