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

constexpr std::string_view kPeer = "peer";

tl::unexpected<Diagnostics> fail_flags(std::string cause, std::string next) {
  return fail("run.flags", std::move(cause), std::move(next));
}

bool asks_peers(const ExpertFlags& flags) { return flags.on_miss == kPeer; }

// Rejects flags for expert slots if no flag creates slots.
Status check_without_slots(const ExpertFlags& flags) {
  // CLI11's needs() requires all named flags, but any of three flags creates the slots.
  const std::pair<bool, const char*> others[] = {
      {!flags.policy.empty(), "--policy"},
      {!flags.on_miss.empty() && !asks_peers(flags), "--on-miss"},
      {!flags.reads.empty(), "--expert-reads"},
      {!flags.profile.empty(), "--profile"},
      {flags.pin_top_k > 0, "--pin-top-k"},
      {!flags.state.empty(), "--state"},
      {flags.cache_bias.has_value(), "--cache-bias"}};
  for (const auto& [given, flag] : others)
    if (given)
      return fail_flags(fmt::format("{} requires expert slots, but no flag creates them", flag),
                        "pass --capacity or --expert-memory, or omit the flag");
  return {};
}

// Sets the pinned experts from --profile. Without --profile, those of the prepacked file remain.
Status choose_policy(const ExpertFlags& flags, ExpertStoreOptions& options) {
  const bool pins = options.policy == PolicyKind::pinned, has_profile = !flags.profile.empty();
  if (pins && !has_profile && options.pinned.empty())
    return fail_flags("--policy pinned requires a profile of the use of experts",
                      "pass --profile with a profile.json from moec analyze");
  if (flags.pin_top_k > 0 && !has_profile)
    return fail_flags("--pin-top-k requires a profile of the use of experts",
                      "pass --profile with a profile.json from moec analyze");
  if (has_profile && !pins)
    return fail_flags("--profile and --pin-top-k require --policy pinned",
                      "omit both flags, or pass --policy pinned");
  if (!has_profile) return {};
  MOEC_ASSIGN(const ExpertProfile profile, read_expert_profile(flags.profile));
  // Ranks all experts by use. The store pins the first ones: `pin_top_k`, or as many as fit.
  options.pinned = most_chosen(profile, profile.experts);
  return {};
}

// Adopts the pinned experts of the prepacked file, and its capacity unless a flag sets the
// capacity.
Status read_prepacked(const ExpertFlags& flags, ExpertStoreOptions& options) {
  if (flags.prepacked.empty()) return {};
  if (!flags.state.empty())
    return fail_flags("--prepacked and --state both define the initial experts in the slots",
                      "omit one of the two flags");
  MOEC_ASSIGN(const PrepackedFile pack, PrepackedFile::open(flags.prepacked));
  if (flags.memory.empty() && flags.capacity == 0) options.capacity = pack.table().capacity;
  for (const PrepackedExpert& expert : pack.table().resident)
    // The pins of the prepacked file apply without --profile, so a run needs only one file.
    if (expert.pinned) options.pinned.push_back(expert.key);
  return {};
}

PolicyKind default_policy(const ExpertFlags& flags, const ExpertStoreOptions& options) {
  // Pins without the policy `pinned` would have no effect.
  const bool pins = flags.pin_top_k > 0 || !options.pinned.empty();
  return pins ? PolicyKind::pinned : PolicyKind::lru;
}

}  // namespace

void add_expert_flags(CLI::App& command, ExpertFlags& flags) {
  CLI::Option* memory = command.add_option(
      "--expert-memory", flags.memory,
      "Memory for resident experts, in MiB or with a unit, e.g. 2GB. All layers have the same "
      "number of slots. Other experts are read from the files when tokens choose them");
  command
      .add_option("--capacity", flags.capacity,
                  "Number of resident experts per layer, at least 1, instead of --expert-memory")
      ->check(whole_from(1))
      ->excludes(memory);
  command
      .add_option("--policy", flags.policy,
                  "Eviction policy. lru: least recently used; lfu: least frequently used; lcp: "
                  "lowest decayed use count; pinned: keep the experts most used in --profile, "
                  "evict others as lru (default: pinned if experts are pinned, else lru)")
      ->check(one_of_enum<PolicyKind>());
  command
      .add_option(
          "--on-miss", flags.on_miss,
          "Action if a chosen expert is not resident while all slots are in use. load: "
          "read it (exact); skip: compute the token without it; stop: fail (default: load). "
          "peer: on a node of a cluster without slots, let one of --peers compute the "
          "experts that the node lacks (exact), instead of masking them")
      ->check(one_of({"load", "skip", "stop", std::string(kPeer)}));
  command.add_option("--peers", flags.peers,
                     "With --on-miss peer: the file of nodes, as for moec route --nodes");
  command
      .add_option(
          "--expert-reads", flags.reads,
          "When to read missing experts. ahead: all of a layer, while the first ones "
          "compute; prefetch: also experts that the next layers will probably need; serial: "
          "each expert when it is needed (default: ahead)")
      // The name of `prefetch` in version 0.1, accepted for one more release.
      ->transform([](const std::string& reads) -> std::string {
        return reads == "foresee" ? "prefetch" : reads;
      })
      ->check(one_of_enum<ExpertReads>());
  command.add_option("--profile", flags.profile,
                     "With --policy pinned: a profile.json from moec analyze or moec discover");
  command
      .add_option("--pin-top-k", flags.pin_top_k,
                  "Number of experts per layer to pin, the most chosen ones in --profile (default "
                  "with --policy pinned: as many as leave slots for a token's other experts)")
      ->check(whole_from(1));
  command.add_option("--state", flags.state,
                     "Start with the experts that this file lists, if it exists, and save the list "
                     "of resident experts to it at the end");
  command.add_option("--prepacked", flags.prepacked,
                     "Start with the experts of this file, written by moec prepack");
}

void add_cache_bias_flags(CLI::App& command, ExpertFlags& flags) {
  CLI::Option* bias = command.add_option_function<double>(
      "--cache-bias",
      [&flags](double value) {
        // Callbacks, because the optional exists only if one of the two flags is given.
        if (!flags.cache_bias) flags.cache_bias.emplace();
        flags.cache_bias->bias = value;
      },
      "Inexact: raise the logits of resident experts by this fraction of the logits' range, e.g. "
      "0.1, so that tokens prefer them");
  bias->check(finite_from_zero());
  command
      .add_option_function<int64_t>(
          "--keep-top",
          [&flags](int64_t value) {
            if (!flags.cache_bias) flags.cache_bias.emplace();
            flags.cache_bias->keep_top = value;
          },
          "With --cache-bias: number of best experts that a token always keeps (default: 1)")
      ->check(whole_from(0))
      ->needs(bias);
}

Result<std::shared_ptr<NodePeers>> node_peers(const ExpertFlags& flags) {
  if (asks_peers(flags) == flags.peers.empty())
    return fail_flags(flags.peers.empty() ? "--on-miss peer requires the file of nodes"
                                          : "--peers requires --on-miss peer",
                      "pass both flags, or neither");
  if (flags.peers.empty()) return nullptr;
  MOEC_ASSIGN(const NodeServers servers, read_node_servers(flags.peers));
  return std::make_shared<NodePeers>(servers.nodes);
}

Result<std::optional<ExpertStoreOptions>> expert_store_options(const ExpertFlags& flags,
                                                               const std::string& folder) {
  if (flags.memory.empty() && flags.capacity == 0 && flags.prepacked.empty()) {
    MOEC_TRY(check_without_slots(flags));
    return std::nullopt;
  }
  if (asks_peers(flags))
    return fail_flags("--on-miss peer cannot be combined with expert slots",
                      "omit --on-miss peer, or the flags that create slots");
  ExpertStoreOptions options;
  // 0 lets the store derive the slots from memory_bytes.
  options.capacity = flags.capacity;
  if (!flags.memory.empty()) {
    MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--expert-memory", flags.memory));
    options.memory_bytes = static_cast<uint64_t>(bytes);
  }
  // Before the policy, whose default depends on the pins of the file.
  MOEC_TRY(read_prepacked(flags, options));
  options.policy = parse_enum<PolicyKind>(flags.policy).value_or(default_policy(flags, options));
  options.on_miss = parse_enum<OnMiss>(flags.on_miss).value_or(OnMiss::load);
  options.reads = parse_enum<ExpertReads>(flags.reads).value_or(ExpertReads::ahead);
  options.pin_top_k = flags.pin_top_k;
  options.prepacked = flags.prepacked;
  options.state = flags.state;
  MOEC_TRY(choose_policy(flags, options));
  // A state inside the export would be a foreign file there.
  if (!flags.state.empty()) MOEC_TRY(check_apart_from(folder, flags.state, "--state"));
  return options;
}

}  // namespace moec
