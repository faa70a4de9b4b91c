#include "frontends/cli/flags/pass_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "backends/targets/find_target.h"
#include "backends/targets/load_target.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"

namespace moec {
namespace {

template <class E>
CLI::Validator names_of() {
  auto names = enum_names(E{});
  return one_of(std::vector<std::string>(names.begin(), names.end()));
}

void add_debugging_flags(CLI::App& command, PassFlags& flags) {
  command.add_option("--skip-pass", flags.skip, "Do not run this pass, or these: a,b or a b")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group("Debugging");
  command
      .add_option("--dump-after", flags.dump_after,
                  "Write the IR after this pass, or these, to --dump-dir; \"all\": after each")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group("Debugging");
  command
      .add_option(
          "--dump-dir", flags.dump_dir,
          "Folder for the IR of --dump-after (default: the current one) and for reproducers of "
          "failing passes (default: a new temporary folder)")
      ->group("Debugging");
  command.add_option("--bisect", flags.bisect, "Run only the first N passes of the pipeline")
      ->check(whole_from(0))
      ->group("Debugging");
}

}  // namespace

void add_pass_flags(CLI::App& command, PassFlags& flags) {
  command
      .add_option(
          "--target", flags.target,
          fmt::format("Target whose rules and preferences apply: {}, or the path of a target "
                      "file NAME.json",
                      fmt::join(builtin_target_names(), ", ")))
      ->capture_default_str();
  command.add_option("--chip", flags.chip,
                     "Apply only the target's rules for this chip, e.g. m1 (default: the rules of "
                     "all chips)");
  command
      .add_option(
          "--routing", flags.routing,
          "How a router chooses experts. rank: compares each score with all others; iterate: "
          "takes the maximum top-k times; topk: uses the TopK op; host: is a shard of its "
          "own, whose weights are inputs of the experts; full_softmax: gives every expert "
          "its softmax weight, which is inexact")
      ->check(names_of<RoutingForm>())
      ->capture_default_str();
  command
      .add_option("--experts", flags.experts,
                  "How experts become tensor operations. unrolled: three projections per expert; "
                  "bank: one gate, one up and one down projection for all experts of a shard")
      ->check(names_of<ExpertForm>())
      ->capture_default_str();
  command
      .add_option(
          "--attention", flags.attention,
          "Attention. batched: one matmul for all heads; per_head: one for each head (default: as "
          "the target prefers)")
      ->check(names_of<AttentionForm>());
  command
      .add_option("--form", flags.form,
                  "Form of linear projections (default: the one that the target prefers)")
      ->check(names_of<ProjectionForm>());
  command
      .add_option(
          "--sum", flags.sum,
          "How the outputs of experts are added. chain: one after the other; tree: in pairs "
          "(default: as the target prefers)")
      ->check(names_of<SumForm>());
  command
      .add_option("--bank-channel-limit", flags.bank_channel_limit,
                  "With --experts bank: the most output channels of one projection; wider "
                  "banks are split")
      ->check(whole_from(1))
      ->capture_default_str();
  add_debugging_flags(command, flags);
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
  for (const std::string& name : flags.skip) MOEC_TRY(parse_pipeline(name));
  RunOptions options{.skip = flags.skip,
                     .bisect = std::nullopt,
                     .dump_after = flags.dump_after,
                     .dump_dir = flags.dump_dir,
                     .subfolder = {}};
  if (flags.bisect >= 0) options.bisect = static_cast<size_t>(flags.bisect);
  return options;
}

}  // namespace moec
