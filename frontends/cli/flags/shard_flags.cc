#include "frontends/cli/flags/shard_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "ir/base/at.h"
#include "ir/base/nearest.h"
#include "ir/base/parse_number.h"
#include "ir/target/target.h"
#include "ir/target/weight_support.h"
#include "models/plan/cut_shards.h"
#include "models/plan/target_budgets.h"

namespace moec {

namespace {

// --max-shard-mb: the budgets of shards by kind.

constexpr double kMega = 1e6;
constexpr std::array<std::string_view, 6> kNames = {"attn",   "moe",     "mlp",
                                                    "router", "lm_head", "layers"};

// A group of experts and a shared expert are parts of an MoE layer, so the budget of that layer
// limits them, too.
std::vector<ShardKind> kinds_named(std::string_view name) {
  if (name == "attn") return {ShardKind::attention};
  if (name == "moe") return {ShardKind::moe, ShardKind::shared, ShardKind::experts};
  return {*parse_enum<ShardKind>(name)};
}

Result<Budget> parse_budget(const std::string& text) {
  const auto megabytes = parse_positive(text);
  if (!megabytes || *megabytes > 1e9 || *megabytes * kMega < 1)
    return fail("plan.budget_value",
                fmt::format("--max-shard-mb: \"{}\" is not a number of MB", text),
                "give a number of at least 0.000001, for example --max-shard-mb moe=200,attn=1000");
  return Budget{std::llround(*megabytes * kMega)};
}

Status check_kind(const std::string& name, std::set<std::string>& seen) {
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
    return fail("plan.budget_kind",
                fmt::format("--max-shard-mb: there is no kind of shard \"{}\"{}", name,
                            did_you_mean(name, kNames)),
                fmt::format("the kinds are {}", fmt::join(kNames, ", ")));
  if (!seen.insert(name).second)
    return fail("plan.budget_kind", fmt::format("kind {} has two budgets", name),
                "give each kind once");
  return {};
}

// The budgets of the target's rules (models/plan/target_budgets.h), replaced by those in `words`,
// in MB of 10^6 bytes:
//   200                 for each kind of shard
//   moe=200,attn=1000   for some kinds: attn, moe (also groups of experts and
//                       shared experts), mlp, router, lm_head,
//                       layers (shards of whole layers)
//   none                no budget for any kind
// Errors: plan.budget_kind (an unknown kind, or one given twice), plan.budget_value (not a number
// above 0).
Result<Budgets> parse_budgets(const std::vector<std::string>& words, const Target& target) {
  if (words.size() == 1 && words[0] == "none") return Budgets{};
  Budgets budgets = target_budgets(target);
  std::set<std::string> seen;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string name = equals == std::string::npos ? "" : word.substr(0, equals);
    MOEC_ASSIGN(const Budget budget,
                parse_budget(equals == std::string::npos ? word : word.substr(equals + 1)));
    if (equals == std::string::npos && words.size() == 1) {
      budgets.fill(budget);
      return budgets;
    }
    MOEC_TRY(check_kind(name, seen));
    for (const ShardKind kind : kinds_named(name)) at(budgets, kind) = budget;
  }
  return budgets;
}

Status check_flags(const ShardFlags& flags, const Target& target) {
  if (flags.dtype == "bf16" && target.format != ShardFormat::gguf)
    return fail("export.flags", fmt::format("target {} has no graphs in bf16", target.name),
                "give --dtype f16 or f32, or --target gguf");
  if (flags.kv == "state" && !target.has_state)
    return fail("export.flags", fmt::format("target {} has no states", target.name),
                "leave --kv out, or give --target ane");
  if (!flags.layout.empty() && target.projection == ProjectionForm::matmul)
    return fail("export.flags", "--layout has no effect with --form matmul",
                "leave one of the two out; some forms of --weights imply --form matmul");
  return {};
}

Layout choose_layout(const ShardFlags& flags, const Target& target) {
  if (target.projection == ProjectionForm::matmul) return Layout::rows;
  return flags.layout.empty() ? Layout::channels : *parse_layout(flags.layout);
}

void add_cut_flags(CLI::App& command, ShardFlags& flags) {
  command
      .add_option(
          "--max-shard-mb", flags.max_shard_mb,
          "The most weight bytes of a shard, in MB of 10^6 bytes: one number for all kinds of "
          "shards, or KIND=MB for some, e.g. moe=200,attn=1000 or moe=200 attn=1000. Kinds: "
          "attn, moe, mlp, router, lm_head, layers. \"none\" lifts all budgets (default: those of "
          "the target's rules)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_flag("--allow-over-budget", flags.allow_over_budget,
                   "A shard above its budget is a warning instead of an error");
  command
      .add_option("--experts-per-shard", flags.experts_per_shard,
                  "Cut the experts of a layer into groups of at most N, each a shard that a "
                  "runtime may skip (default: as many as the budget allows)")
      ->check(whole_from(1));
  command.add_option("--expert-groups", flags.expert_groups,
                     "A file of groups of experts, such as moec place writes: experts that are in "
                     "the same groups share shards, so that moec split can give each node whole "
                     "shards. --experts-per-shard and budgets cut them further");
  command.add_option("--layers-per-shard", flags.layers_per_shard,
                     "Put whole layers into one shard: at most N, or \"fit\" for as many as the "
                     "budget of kind layers allows. Caches are then inputs, as with --kv io "
                     "(default: shards of attention and of experts)");
  command
      .add_option("--head-slices", flags.head_slices,
                  "Cut the output head into N slices of the vocabulary (default: as few as target "
                  "and budget allow)")
      ->check(whole_from(1));
}

Status parse_layers_per_shard(const std::string& text, CutOptions& cuts) {
  cuts.fit_layers = text == "fit";
  if (text.empty() || cuts.fit_layers) return {};
  const auto count = parse_count(text);
  if (!count)
    return fail("plan.layers_per_shard",
                fmt::format("--layers-per-shard {}: not a number of layers", text),
                "give a number of at least 1, or fit");
  cuts.layers_per_shard = *count;
  return {};
}

}  // namespace

void add_shard_flags(CLI::App& command, ShardFlags& flags) {
  command
      .add_option("--tokens", flags.tokens,
                  "Numbers of tokens that a shard takes at once, e.g. 1,64 or 1 64 for decode "
                  "and prefill")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_from(1))
      ->capture_default_str();
  command
      .add_option("--context", flags.context,
                  "Length of the KV cache in tokens, which is the longest text (default: the "
                  "model's number of positions, at most 2048)")
      ->check(whole_from(1));
  command
      .add_option(
          "--dtype", flags.dtype,
          "Element type of weights and activations; bf16 is for GGUF files (default: the one that "
          "the target prefers)")
      ->check(one_of({"f32", "f16", "bf16"}));
  command.add_option(
      "--weights", flags.weights,
      "Store the matrices of experts, attn, mlp, shared and head in few bits: int8, int4:64, "
      "int4-lut:g16, 4bit (experts in 4 bits, the others in int8), auto:3.5 (the same with bits "
      "chosen by a calibration, so many on average), q8_0, q4_0, mxfp4 or copy in GGUF files, or "
      "by "
      "group and layer: "
      "experts=int4,attn=int8,experts@0-3=int8 (default: float)");
  command
      .add_option("--layout", flags.layout,
                  "Shape of activations, with C channels and T tokens. channels: [1,C,T,1]; bc1s: "
                  "[1,C,1,T] (default: channels)")
      ->check(one_of({"channels", "bc1s"}));
  command
      .add_option("--kv", flags.kv,
                  "Where the KV cache is kept. state: in states of the shard; io: the cache is an "
                  "input and its new rows are an output (default: state if the target has states)")
      ->check(one_of({"state", "io"}));
  command
      .add_option("--mla", flags.mla,
                  "Models with latent attention: what is cached. latent: the latent that all heads "
                  "share; expanded: the keys and values of each head (default: latent, or expanded "
                  "where only that fits the target)")
      ->check(one_of({"latent", "expanded"}));
  add_cut_flags(command, flags);
}

Status choose_projection(const ShardFlags& flags, const std::string& form, Target& target) {
  MOEC_ASSIGN(const WeightPolicy policy, parse_weight_policy(flags.weights, target.four_bits));
  if (form.empty()) target.projection = projection_for(target, policy);
  return check_weight_forms(target, policy);
}

Result<BuildOptions> build_options(const ShardFlags& flags, const PassOptions& passes) {
  const Target& target = passes.target;
  MOEC_TRY(check_flags(flags, target));
  BuildOptions build;
  build.dtype = flags.dtype.empty() ? target.dtype : *parse_dtype(flags.dtype);
  MOEC_ASSIGN(build.weights, parse_weight_policy(flags.weights, target.four_bits));
  build.wide_router = build.dtype == DType::f16 && !target.limits.no_casts;
  build.layout = choose_layout(flags, target);
  build.tokens = flags.tokens;
  std::sort(build.tokens.begin(), build.tokens.end());
  build.context = flags.context;
  build.cache = target.has_state && flags.kv != "io" ? CacheForm::blend : CacheForm::append;
  if (!flags.mla.empty()) build.mla = *parse_enum<MlaForm>(flags.mla);
  build.host_routing = passes.routing == RoutingForm::host;
  build.head_slices = 0;
  return build;
}

// K, M and G stand for KiB, MiB and GiB, as in the names of such alignments.
Result<uint64_t> expert_alignment(const ShardFlags& flags) {
  constexpr uint64_t kUsual = uint64_t{64} << 10, kLeast = 64, kMost = uint64_t{1} << 30;
  std::string text = flags.expert_align;
  if (text.empty()) return flags.experts_per_shard > 0 ? kUsual : 0;
  if (std::string_view("KMG").find(text.back()) != std::string_view::npos) text += "iB";
  const auto bytes = static_cast<uint64_t>(parse_bytes(text).value_or(0));
  if (std::has_single_bit(bytes) && bytes >= kLeast && bytes <= kMost) return bytes;
  return fail(
      "export.flags",
      fmt::format("--expert-align {}: not a power of two from 64 to 1G", flags.expert_align),
      "give one, as 64K");
}

Result<CutOptions> cut_options(const ShardFlags& flags, const Target& target) {
  CutOptions cuts;
  cuts.experts_per_shard = flags.experts_per_shard;
  cuts.expert_groups = flags.expert_groups;
  cuts.head_slices = flags.head_slices;
  cuts.allow_over_budget = flags.allow_over_budget;
  MOEC_TRY(parse_layers_per_shard(flags.layers_per_shard, cuts));
  MOEC_ASSIGN(cuts.budgets, parse_budgets(flags.max_shard_mb, target));
  return cuts;
}

}  // namespace moec
