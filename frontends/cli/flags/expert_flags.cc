#include "frontends/cli/flags/expert_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "backends/residency/pinned_experts.h"
#include "backends/runtime/experts/prepacked_file.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/export/options/option_bytes.h"
#include "ir/base/output_apart.h"
#include "ir/experts/expert_profile.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> fail_flags(std::string cause, std::string next) {
  return fail("run.flags", std::move(cause), std::move(next));
}

// Flags that say how slots are used need slots.
Status check_without_slots(const ExpertFlags& flags) {
  const std::pair<bool, const char*> others[] = {
      {!flags.policy.empty(), "--policy"},           {!flags.on_miss.empty(), "--on-miss"},
      {!flags.reads.empty(), "--expert-reads"},      {!flags.profile.empty(), "--profile"},
      {flags.pin_top_k > 0, "--pin-top-k"},          {!flags.state.empty(), "--state"},
      {flags.cache_bias.has_value(), "--cache-bias"}};
  for (const auto& [given, flag] : others)
    if (given)
      return fail_flags(fmt::format("{} is for experts in slots, of which there are none", flag),
                        "give --capacity or --expert-memory, or leave the flag out");
  return {};
}

// A profile says which experts are pinned, else a file of prepacked ones does.
Status choose_policy(const ExpertFlags& flags, ExpertStoreOptions& options) {
  const bool pins = options.policy == PolicyKind::pinned, has_profile = !flags.profile.empty();
  if (pins && !has_profile && options.pinned.empty())
    return fail_flags("--policy pinned has no profile to choose experts by",
                      "give --profile with a profile.json of moec analyze");
  if (flags.pin_top_k > 0 && !has_profile)
    return fail_flags("--pin-top-k has no profile to choose experts by",
                      "give --profile with a profile.json of moec analyze");
  if (has_profile && !pins)
    return fail_flags("--profile and --pin-top-k are for --policy pinned",
                      "leave them out, or give --policy pinned");
  if (!has_profile) return {};
  MOEC_ASSIGN(const ExpertProfile profile, read_expert_profile(flags.profile));
  options.pinned = most_chosen(profile, profile.experts);
  return {};
}

// Slots as many as the file was made for, unless another number is given, and its pinned experts.
Status read_prepacked(const ExpertFlags& flags, ExpertStoreOptions& options) {
  if (flags.prepacked.empty()) return {};
  if (!flags.state.empty())
    return fail_flags("--prepacked and --state both say what is in the slots at first",
                      "leave one of them out");
  MOEC_ASSIGN(const PrepackedFile pack, PrepackedFile::open(flags.prepacked));
  if (flags.memory.empty() && flags.capacity == 0) options.capacity = pack.table().capacity;
  for (const PrepackedExpert& expert : pack.table().resident)
    if (expert.pinned) options.pinned.push_back(expert.key);
  return {};
}

PolicyKind default_policy(const ExpertFlags& flags, const ExpertStoreOptions& options) {
  const bool pins = flags.pin_top_k > 0 || !options.pinned.empty();
  return pins ? PolicyKind::pinned : PolicyKind::lru;
}

}  // namespace

void add_expert_flags(CLI::App& command, ExpertFlags& flags) {
  CLI::Option* memory = command.add_option(
      "--expert-memory", flags.memory,
      "Keep as many experts in memory as fit here, the same number of each layer, in MiB or with a "
      "unit: 2GB. The others are read from the files when tokens choose them");
  command
      .add_option("--capacity", flags.capacity,
                  "The same with a number of experts of each layer, at least 1")
      ->check(whole_from(1))
      ->excludes(memory);
  command
      .add_option("--policy", flags.policy,
                  "Which expert leaves for another. lru: the one not used for longest; lfu: the "
                  "one used least; lcp: use counts that decay; pinned: those that --profile wants "
                  "most stay, of the others as lru (default: lru)")
      ->check(one_of_enum<PolicyKind>());
  command
      .add_option("--on-miss", flags.on_miss,
                  "What becomes of a chosen expert that is missing while all slots are taken. "
                  "load: it is read, exact; skip: the token goes without it; stop: an error "
                  "(default: load)")
      ->check(one_of_enum<OnMiss>());
  command
      .add_option("--expert-reads", flags.reads,
                  "ahead: all missing experts of a layer are read while the first ones compute; "
                  "foresee: and those that the next layer is likely to want; serial: each when it "
                  "is needed (default: ahead)")
      ->check(one_of_enum<ExpertReads>());
  command.add_option("--profile", flags.profile,
                     "With --policy pinned: a profile.json of moec analyze or moec discover");
  command
      .add_option("--pin-top-k", flags.pin_top_k,
                  "Pin so many experts of each layer, those that most tokens of --profile chose "
                  "(default with --policy pinned: as many as leave a token's others room)")
      ->check(whole_from(1));
  command.add_option("--state", flags.state,
                     "Begin with the experts that this file names, if it is there, and write to it "
                     "which experts were in memory at the end");
  command.add_option("--prepacked", flags.prepacked,
                     "Begin with the experts of this file, which moec prepack wrote");
}

void add_cache_bias_flags(CLI::App& command, ExpertFlags& flags) {
  CLI::Option* bias = command.add_option_function<double>(
      "--cache-bias",
      [&flags](double value) {
        if (!flags.cache_bias) flags.cache_bias.emplace();
        flags.cache_bias->bias = value;
      },
      "Inexact: raise the logits of experts in memory by this part of their range, so that tokens "
      "choose them rather than others: 0.1");
  bias->check(finite_from_zero());
  command
      .add_option_function<int64_t>(
          "--keep-top",
          [&flags](int64_t value) {
            if (!flags.cache_bias) flags.cache_bias.emplace();
            flags.cache_bias->keep_top = value;
          },
          "With --cache-bias: the best experts that a token always keeps (default: 1)")
      ->check(whole_from(0))
      ->needs(bias);
}

Result<std::optional<ExpertStoreOptions>> expert_store_options(const ExpertFlags& flags,
                                                               const std::string& folder) {
  if (flags.memory.empty() && flags.capacity == 0 && flags.prepacked.empty()) {
    MOEC_TRY(check_without_slots(flags));
    return std::nullopt;
  }
  ExpertStoreOptions options;
  options.capacity = flags.capacity;
  if (!flags.memory.empty()) {
    MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--expert-memory", flags.memory));
    options.memory_bytes = static_cast<uint64_t>(bytes);
  }
  MOEC_TRY(read_prepacked(flags, options));
  options.policy = parse_enum<PolicyKind>(flags.policy).value_or(default_policy(flags, options));
  options.on_miss = parse_enum<OnMiss>(flags.on_miss).value_or(OnMiss::load);
  options.reads = parse_enum<ExpertReads>(flags.reads).value_or(ExpertReads::ahead);
  options.pin_top_k = flags.pin_top_k;
  options.prepacked = flags.prepacked;
  options.state = flags.state;
  MOEC_TRY(choose_policy(flags, options));
  if (!flags.state.empty()) MOEC_TRY(check_apart_from(folder, flags.state, "--state"));
  return options;
}

}  // namespace moec
