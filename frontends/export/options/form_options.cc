// Options for the interface of shards, the cuts of the model, and the devices that hold the shards.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backends/files/digest.h"
#include "frontends/export/options/option_row.h"
#include "frontends/export/options/option_words.h"
#include "ir/base/parse_number.h"
#include "ir/experts/expert_groups.h"

namespace moec {
namespace {

using Options = ExportOptions;
using R = const Resolved&;
using Text = OptionText;
using W = const Words&;

constexpr OptionScope kFormOfPlanGraph{"Form", OptionUsers::planning, OptionFormats::graphs};
constexpr OptionScope kFormOfPlan{"Form", OptionUsers::planning, OptionFormats::all};
constexpr OptionScope kShardsOfPlanGraph{"Shards", OptionUsers::planning, OptionFormats::graphs};
constexpr OptionScope kShardsGraph{"Shards", OptionUsers::exporting, OptionFormats::graphs};
constexpr OptionScope kDevicesOfPlanGraph{"Devices", OptionUsers::device, OptionFormats::graphs};

std::string_view kv_name(CacheForm cache) {
  if (!has_cache(cache)) return "none";
  return updates_cache(cache) ? "state" : "io";
}

const OptionRow kFormRows[] = {
    {.name = "--tokens",
     .scope = kFormOfPlanGraph,
     .value = {.kind = OptionKind::wholes, .initial = "1"},
     .help = "Static token widths, e.g. 1,64 or 1 64 for decode and prefill: one graph per width",
     .set =
         [](W words, Options& options) {
           std::vector<int64_t>& tokens = options.compile.build.tokens;
           tokens.clear();
           for (const std::string& word : words) tokens.push_back(*parse_whole(word));
           // Ascending, because the first and the last width serve as the smallest and the largest
           // one.
           std::sort(tokens.begin(), tokens.end());
         },
     .recorded = [](R r) -> Text { return fmt::format("{}", fmt::join(r.build.tokens, ",")); }},
    {.name = "--context",
     .scope = kFormOfPlanGraph,
     .value = {.kind = OptionKind::whole},
     .help = "Length of the KV cache in tokens, the maximum length of a text (default: the model's "
             "number of positions, at most 2048)",
     .set = [](W words,
               Options& options) { options.compile.build.context = *parse_whole(words[0]); },
     .recorded = [](R r) -> Text { return r.build.context; }},
    {.name = "--dtype",
     .scope = kFormOfPlan,
     .value = {.kind = OptionKind::text, .choices = "f32 f16 bf16"},
     .help = "Element type of weights and activations; bf16 only for GGUF files (default: the one "
             "that the target prefers)",
     .parse = [](W words, Options& options) -> Status {
       // preferred() sets the target before any row is applied.
       const Target& target = options.compile.passes.target;
       if (words[0] == "bf16" && target.format != ShardFormat::gguf)
         return fail("export.flags",
                     fmt::format("target {} does not support graphs in bf16", target.name),
                     "pass --dtype f16 or f32, or --target gguf");
       options.compile.build.dtype = *parse_dtype(words[0]);
       return {};
     },
     .recorded = [](R r) -> Text { return dtype_name(r.build.dtype); }},
    {.name = "--layout",
     .scope = kFormOfPlanGraph,
     .value = {.kind = OptionKind::text, .choices = "channels bc1s"},
     .help = "Shape of activations with C channels and T tokens. channels: [1,C,T,1]; bc1s: "
             "[1,C,1,T] (default: channels)",
     .set = [](W words,
               Options& options) { options.compile.build.layout = *parse_layout(words[0]); },
     .recorded = [](R r) -> Text { return layout_name(r.build.layout); }},
    {.name = "--kv",
     .scope = kFormOfPlanGraph,
     .value = {.kind = OptionKind::text, .choices = "state io"},
     .help = "Place of the KV cache. state: in states of the shard; io: the cache is an input and "
             "its new rows are an output (default: state if the target has states)",
     .parse = [](W words, Options& options) -> Status {
       const Target& target = options.compile.passes.target;
       if (words[0] == "state" && !target.has_state)
         return fail("export.flags", fmt::format("target {} does not support states", target.name),
                     "omit --kv, or pass --target ane");
       options.compile.kv = words[0];
       return {};
     },
     .recorded = [](R r) -> Text { return kv_name(r.build.cache); }},
    {.name = "--mla",
     .scope = kFormOfPlanGraph,
     .value = {.kind = OptionKind::text, .choices = "latent expanded"},
     .help = "Cache of models with latent attention. latent: the latent that all heads share; "
             "expanded: keys and values per head (default: latent, or expanded if only that fits "
             "the target)",
     .set =
         [](W words, Options& options) {
           // The text records that the form was given. Otherwise, the plan may choose `expanded`
           // for the target.
           options.compile.mla = words[0];
           options.compile.build.mla = *parse_enum<MlaForm>(words[0]);
         },
     .recorded = [](R r) -> Text { return r.build.mla; }},
};

// The manifest lists all budgets, even those that cause no cut, so a different budget changes the
// bytes.
std::string budgets_text(const Budgets& budgets) {
  std::string text;
  for (size_t kind = 0; kind < budgets.size(); ++kind)
    if (const int64_t bytes = budgets[kind].bytes; bytes > 0)
      text += fmt::format("{}{}={}", text.empty() ? "" : " ",
                          enum_name(static_cast<ShardKind>(kind)), bytes);
  return text.empty() ? "none" : text;
}

const OptionRow kShardsRows[] = {
    {.name = "--max-shard-mb",
     .scope = kShardsOfPlanGraph,
     .value = {.kind = OptionKind::list},
     .help = "Maximum weight bytes per shard, in MB of 10^6 bytes: one number for all kinds of "
             "shards, or KIND=MB for some, e.g. moe=200,attn=1000 or moe=200 attn=1000. Kinds: "
             "attn, moe, mlp, router, lm_head, layers. \"none\" lifts all budgets (default: those "
             "of the target's rules)",
     .parse = [](W words, Options& options) -> Status {
       MOEC_ASSIGN(options.compile.cuts.budgets,
                   parse_budgets(words, options.compile.passes.target));
       return {};
     },
     .recorded = [](R r) -> Text { return budgets_text(r.options.compile.cuts.budgets); }},
    {.name = "--allow-over-budget",
     .scope = kShardsOfPlanGraph,
     .help = "Report a shard above its budget as a warning instead of an error",
     // Not recorded: the flag changes the severity of a finding, not a byte.
     .set = [](W, Options& options) { options.compile.cuts.allow_over_budget = true; }},
    {.name = "--experts-per-shard",
     .scope = kShardsOfPlanGraph,
     .value = {.kind = OptionKind::whole},
     .help = "Cut the experts of a layer into groups of at most N, each a shard that a runtime may "
             "skip (default: as many as the budget allows)",
     .set =
         [](W words, Options& options) {
           options.compile.cuts.experts_per_shard = *parse_whole(words[0]);
         },
     .recorded = [](R r) -> Text { return r.build.experts_per_shard; }},
    {.name = "--expert-groups",
     .scope = kShardsOfPlanGraph,
     .value = {.kind = OptionKind::text},
     .help = "File of expert groups, e.g. from moec place: experts of the same groups share "
             "shards, so that moec split can assign whole shards to nodes. --experts-per-shard and "
             "budgets cut these groups further",
     .set = [](W words, Options& options) { options.compile.cuts.expert_groups = words[0]; },
     .recorded = [](R r) -> Text {
       // Records the digest of the groups, not of the file, because two files can spell the same
       // groups differently.
       const auto& parts = r.build.experts.parts;
       return parts.empty() ? std::string("none") : digest_text(to_string(parts));
     }},
    {.name = "--layers-per-shard",
     .scope = kShardsOfPlanGraph,
     .value = {.kind = OptionKind::text},
     .help = "Put whole layers into one shard: at most N, or \"fit\" for as many as the budget of "
             "kind layers allows. Caches are then inputs, as with --kv io (default: separate "
             "shards for attention and experts)",
     .parse = [](W words, Options& options) -> Status {
       return parse_layers_per_shard(words[0], options.compile.cuts);
     },
     .recorded = [](R r) -> Text { return r.build.layers_per_shard; }},
    {.name = "--head-slices",
     .scope = kShardsOfPlanGraph,
     .value = {.kind = OptionKind::whole},
     .help = "Cut the output head into N slices of the vocabulary (default: as few as target and "
             "budget allow)",
     .set = [](W words,
               Options& options) { options.compile.cuts.head_slices = *parse_whole(words[0]); },
     .recorded = [](R r) -> Text { return r.build.head_slices; }},
    {.name = "--expert-align",
     .scope = kShardsGraph,
     .value = {.kind = OptionKind::text},
     .help = "Align each expert in a weight file to this power of two, e.g. 64K, "
             "for runtimes that read one expert at a time (default: 64K with --experts-per-shard, "
             "else the format's alignment)",
     .parse = [](W words, Options& options) -> Status {
       MOEC_ASSIGN(options.output.expert_alignment, parse_alignment(words[0]));
       return {};
     },
     .recorded = [](R r) -> Text { return r.options.output.expert_alignment; }},
};

const OptionRow kDevicesRows[] = {
    {.name = "--device",
     .scope = kDevicesOfPlanGraph,
     .value = {.kind = OptionKind::repeated},
     .help = "A device to assign shards to: NAME=MEMORY or NAME=MEMORY,BANDWIDTH, in bytes and "
             "bytes/s with an optional unit, e.g. gpu0=24GB,936GB (repeatable)",
     .parse = [](W words, Options& options) -> Status {
       MOEC_ASSIGN(options.compile.devices.devices, parse_devices(words));
       return {};
     },
     .recorded = [](R r) -> Text {
       // Omits the bandwidth, because it affects only the times that moec plan prints.
       std::string named;
       for (const Device& device : r.options.compile.devices.devices)
         named += fmt::format("{}{}={}", named.empty() ? "" : " ", device.name, device.bytes);
       return named.empty() ? "none" : named;
     }},
    {.name = "--trunk",
     .scope = kDevicesOfPlanGraph,
     .value = {.kind = OptionKind::text, .initial = "layers", .choices = "layers replicated"},
     .help = "With --device: placement of attention, routers and head. layers: split by layers; "
             "replicated: a copy on each device",
     .set =
         [](W words, Options& options) {
           options.compile.devices.trunk = *parse_enum<TrunkPlacement>(words[0]);
         },
     .recorded = [](R r) -> Text { return r.options.compile.devices.trunk; }},
    {.name = "--loads",
     .scope = kDevicesOfPlanGraph,
     .value = {.kind = OptionKind::text},
     .help = "With --device: a CSV file with columns layer,expert,load. Expert groups with a high "
             "load are replicated, and each device gets a copy of the trunk",
     // `file` records the digest of the file, because the path may differ.
     .set = [](W words, Options& options) { options.compile.devices.loads = words[0]; },
     .file = [](const Options& options) { return options.compile.devices.loads; }},
    {.name = "--replicas",
     .scope = kDevicesOfPlanGraph,
     .value = {.kind = OptionKind::whole},
     .help = "With --loads: expert groups per layer on all devices together, copies included "
             "(default: chosen by the load)",
     .needs = "--loads",
     .set = [](W words,
               Options& options) { options.compile.devices.replicas = *parse_whole(words[0]); },
     .recorded = [](R r) -> Text { return r.options.compile.devices.replicas; }},
};

}  // namespace

std::span<const OptionRow> form_options() { return kFormRows; }
std::span<const OptionRow> shard_options() { return kShardsRows; }
std::span<const OptionRow> device_options() { return kDevicesRows; }

}  // namespace moec
