// Options for the target, for the forms that passes produce, and for debugging passes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/targets/find_target.h"
#include "backends/targets/load_target.h"
#include "frontends/export/options/option_row.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

using Options = ExportOptions;
using R = const Resolved&;
using Text = OptionText;
using W = const Words&;

constexpr OptionScope kTargetOfAll{"Target", OptionUsers::passes, OptionFormats::all};
constexpr OptionScope kFormOfAllGraph{"Form", OptionUsers::passes, OptionFormats::graphs};
constexpr OptionScope kDebuggingOfAllGraph{"Debugging", OptionUsers::passes, OptionFormats::graphs};

template <class E>
Words names_of() {
  const auto names = enum_names(E{});
  return {names.begin(), names.end()};
}

template <class E>
std::string text_of(E value) {
  return std::string(enum_name(value));
}

const OptionRow kPassesRows[] = {
    {.name = "--target",
     .scope = kTargetOfAll,
     .value = {.kind = OptionKind::text, .initial = "onnx"},
     .help =
         "Target whose rules and preferences apply: {}, or the path of a target file "
         "NAME.json. moec export accepts several, e.g. onnx,ane: each gets a subfolder of --out "
         "with its name, and weights with the same bytes are read once (with --dtype f16 "
         "nearly all)",
     // preferred() applies --target and --chip, because all other rows start from the target.
     .recorded = [](R r) -> Text { return r.options.compile.passes.target.name; },
     .file = [](const Options& options) { return options.compile.target_file.value_or(""); }},
    {.name = "--chip",
     .scope = kTargetOfAll,
     .value = {.kind = OptionKind::text},
     .help = "Apply only the target's rules for this chip, e.g. m1 (default: the rules of all "
             "chips)",
     .recorded = [](R r) -> Text {
       const std::string& chip = r.options.compile.chip;
       return chip.empty() ? "all" : chip;
     }},
    {.name = "--routing",
     .scope = kFormOfAllGraph,
     .value = {.kind = OptionKind::text, .initial = "rank", .names = names_of<RoutingForm>},
     .help = "Implementation of the router's selection. rank: compares each score with all others; "
             "iterate: finds the maximum top-k times; topk: uses the TopK op; host: puts the "
             "router into a separate shard, whose outputs are inputs of the experts; full_softmax: "
             "uses the softmax weights of all experts, which is not exact; op: topk, and one op of "
             "onnxruntime for all experts of a shard, which computes only chosen experts (CPU)",
     .set =
         [](W words, Options& options) {
           options.compile.passes.routing = *parse_enum<RoutingForm>(words[0]);
         },
     .recorded = [](R r) -> Text { return r.options.compile.passes.routing; }},
    {.name = "--experts",
     .scope = kFormOfAllGraph,
     .value = {.kind = OptionKind::text, .initial = "unrolled", .names = names_of<ExpertForm>},
     .help = "Tensor operations of experts. unrolled: three projections per expert; bank: one "
             "gate, one up and one down projection for all experts of a shard",
     .set =
         [](W words, Options& options) {
           options.compile.passes.experts = *parse_enum<ExpertForm>(words[0]);
         },
     .recorded = [](R r) -> Text { return r.options.compile.passes.experts; }},
    {.name = "--attention",
     .scope = kFormOfAllGraph,
     .value = {.kind = OptionKind::text, .names = names_of<AttentionForm>},
     .help = "Form of attention. batched: one matmul for all heads; per_head: one per head "
             "(default: the one that the target prefers)",
     .set =
         [](W words, Options& options) {
           options.compile.passes.attention = *parse_enum<AttentionForm>(words[0]);
         },
     .recorded = [](R r) -> Text { return r.options.compile.passes.attention; }},
    {.name = "--form",
     .scope = kFormOfAllGraph,
     .value = {.kind = OptionKind::text, .names = names_of<ProjectionForm>},
     .help = "Form of linear projections (default: the one that the target prefers)",
     .set =
         [](W words, Options& options) {
           options.compile.passes.target.projection = *parse_enum<ProjectionForm>(words[0]);
         },
     .recorded = [](R r) -> Text { return r.options.compile.passes.target.projection; }},
    {.name = "--sum",
     .scope = kFormOfAllGraph,
     .value = {.kind = OptionKind::text, .names = names_of<SumForm>},
     .help = "Order in which the outputs of experts are added. chain: one after the other; tree: "
             "in pairs (default: the one that the target prefers)",
     .set =
         [](W words, Options& options) {
           options.compile.passes.target.sum = *parse_enum<SumForm>(words[0]);
         },
     .recorded = [](R r) -> Text { return r.options.compile.passes.target.sum; }},
    {.name = "--bank-channel-limit",
     .scope = kFormOfAllGraph,
     .value = {.kind = OptionKind::whole, .initial = "16384"},
     .help = "With --experts bank: maximum output channels of one projection; wider banks are "
             "split",
     .set =
         [](W words, Options& options) {
           options.compile.passes.bank_channel_limit = *parse_whole(words[0]);
         },
     .recorded = [](R r) -> Text { return r.options.compile.passes.bank_channel_limit; }},
    {.name = "--skip-pass",
     .scope = kDebuggingOfAllGraph,
     .value = {.kind = OptionKind::list},
     .help = "Skip these passes, separated by commas or spaces",
     .parse = [](W words, Options& options) -> Status {
       options.compile.run.skip = words;
       // The result is discarded: parsing reports unknown passes.
       for (const std::string& name : words) MOEC_TRY(parse_pipeline(name));
       return {};
     },
     .recorded = [](R r) -> Text {
       return fmt::format("[{}]", fmt::join(r.options.compile.run.skip, ","));
     }},
    {.name = "--dump-after",
     .scope = kDebuggingOfAllGraph,
     .value = {.kind = OptionKind::list},
     .help = "Write the IR after each of these passes to --dump-dir; \"all\": after every pass",
     // Not recorded: dumps lie outside of the export's files.
     .set = [](W words, Options& options) { options.compile.run.dump_after = words; }},
    {.name = "--dump-dir",
     .scope = kDebuggingOfAllGraph,
     .value = {.kind = OptionKind::text},
     .help = "Folder for the IR of --dump-after (default: the current one) and for reproducers of "
             "failing passes (default: a new temporary folder)",
     .set = [](W words, Options& options) { options.compile.run.dump_dir = words[0]; }},
    {.name = "--bisect",
     .scope = kDebuggingOfAllGraph,
     .value = {.kind = OptionKind::whole, .least = 0},
     .help = "Run only the first N passes of the pipeline",
     .set =
         [](W words, Options& options) {
           options.compile.run.bisect = static_cast<size_t>(*parse_whole(words[0]));
         },
     .recorded = [](R r) -> Text {
       const auto& bisect = r.options.compile.run.bisect;
       // 0 is a valid number of passes, so an absent value has a name.
       return bisect ? std::to_string(*bisect) : std::string("all");
     }},
};

}  // namespace

std::span<const OptionRow> target_options() { return kPassesRows; }

}  // namespace moec
