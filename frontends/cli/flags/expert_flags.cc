#include "frontends/cli/flags/expert_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "frontends/cli/flags/byte_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "ir/plan/expert_profile.h"

namespace moec {
namespace {

template <class E>
std::vector<std::string> names_of_enum() {
  std::vector<std::string> names;
  for (const std::string_view name : enum_names(E{})) names.emplace_back(name);
  return names;
}

tl::unexpected<Diagnostics> fail_flags(std::string cause, std::string next) {
  return fail("run.flags", std::move(cause), std::move(next));
}

// Flags that say how slots are used need slots.
Status check_without_slots(const ExpertFlags& flags) {
  const std::pair<const std::string&, const char*> others[] = {{flags.policy, "--policy"},
                                                               {flags.on_miss, "--on-miss"},
                                                               {flags.reads, "--expert-reads"},
                                                               {flags.profile, "--profile"}};
  for (const auto& [value, flag] : others)
    if (!value.empty())
      return fail_flags(fmt::format("{} is for experts in slots, of which there are none", flag),
                        "give --capacity or --expert-memory, or leave the flag out");
  return {};
}

// The experts of each layer, those that most tokens chose first.
std::vector<ExpertKey> most_wanted(const ExpertProfile& profile) {
  std::vector<ExpertKey> wanted;
  for (const LayerProfile& layer : profile.layers) {
    const auto first = std::ssize(wanted);
    for (int64_t expert = 0; expert < profile.experts; ++expert)
      wanted.push_back({layer.layer, expert});
    const auto count = [&](ExpertKey key) {
      return layer.selections[static_cast<size_t>(key.expert)];
    };
    std::stable_sort(wanted.begin() + first, wanted.end(),
                     [&](ExpertKey a, ExpertKey b) { return count(a) > count(b); });
  }
  return wanted;
}

Status read_pinned(const ExpertFlags& flags, ExpertStoreOptions& options) {
  const bool pins = options.policy == PolicyKind::pinned;
  if (pins != !flags.profile.empty())
    return fail_flags(pins ? "--policy pinned has no profile to choose experts by"
                           : "--profile is for --policy pinned",
                      pins ? "give --profile with a profile.json of moec analyze"
                           : "leave it out, or give --policy pinned");
  if (!pins) return {};
  MOEC_ASSIGN(const ExpertProfile profile, read_expert_profile(flags.profile));
  options.pinned = most_wanted(profile);
  return {};
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
      ->check(one_of(names_of_enum<PolicyKind>()));
  command
      .add_option("--on-miss", flags.on_miss,
                  "What becomes of a chosen expert that is missing while all slots are taken. "
                  "load: it is read, exact; skip: the token goes without it; stop: an error "
                  "(default: load)")
      ->check(one_of(names_of_enum<OnMiss>()));
  command
      .add_option("--expert-reads", flags.reads,
                  "ahead: all missing experts of a layer are read while the first ones compute; "
                  "foresee: and those that the next layer is likely to want; serial: each when it "
                  "is needed (default: ahead)")
      ->check(one_of(names_of_enum<ExpertReads>()));
  command.add_option("--profile", flags.profile,
                     "With --policy pinned: a profile.json of moec analyze");
}

Result<std::optional<ExpertStoreOptions>> expert_store_options(const ExpertFlags& flags) {
  if (flags.memory.empty() && flags.capacity == 0) {
    MOEC_TRY(check_without_slots(flags));
    return std::nullopt;
  }
  ExpertStoreOptions options;
  options.capacity = flags.capacity;
  if (!flags.memory.empty()) {
    MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--expert-memory", flags.memory));
    options.memory_bytes = static_cast<uint64_t>(bytes);
  }
  options.policy = parse_enum<PolicyKind>(flags.policy).value_or(PolicyKind::lru);
  options.on_miss = parse_enum<OnMiss>(flags.on_miss).value_or(OnMiss::load);
  options.reads = parse_enum<ExpertReads>(flags.reads).value_or(ExpertReads::ahead);
  MOEC_TRY(read_pinned(flags, options));
  return options;
}

}  // namespace moec
