// Options for the stored form of weights and for the selection of experts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/weights/calibration/calibration_index.h"
#include "frontends/export/options/option_row.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

using Options = ExportOptions;
using R = const Resolved&;
using Text = OptionText;
using W = const Words&;

constexpr OptionScope kWeightsOfPlan{"Weights", OptionUsers::planning, OptionFormats::all};
constexpr OptionScope kExpertsGraph{"Experts", OptionUsers::exporting, OptionFormats::graphs};
constexpr OptionScope kWeightsGraph{"Weights", OptionUsers::exporting, OptionFormats::graphs};
constexpr OptionScope kWeightsOnnx{"Weights", OptionUsers::exporting, OptionFormats::onnx};
constexpr OptionScope kWeights{"Weights", OptionUsers::exporting, OptionFormats::all};

const OptionRow kWeightsRows[] = {
    {.name = "--weights",
     .scope = kWeightsOfPlan,
     .value = {.kind = OptionKind::text},
     .help =
         "Quantize matrices: int8, int4:64, int4-lut:g16; 4bit: experts in 4 bits, other matrices "
         "in int8; auto:3.5: like 4bit, with 3.5 bits on average per expert weight, chosen by "
         "--calibration. GGUF files: q8_0, q4_0, mxfp4, tq1_0, tq2_0, copy. By group (experts, "
         "attn, mlp, "
         "shared, head) and layer: experts=int4,attn=int8,experts@0-3=int8 (default: float)",
     .parse = [](W words, Options& options) -> Status {
       MOEC_ASSIGN(options.compile.build.weights,
                   parse_weight_policy(words[0], options.compile.passes.target.four_bits));
       return {};
     },
     .recorded = [](R r) -> Text { return to_string(r.build.weights); }},
    {.name = "--expert-mask",
     .scope = kExpertsGraph,
     .value = {.kind = OptionKind::text},
     .help = "Experts that routers can select, e.g. 'L0:0-7;L1:1,3,5', or @FILE with such text. "
             "Layers without an item keep all experts (default: all)",
     .set = [](W words, Options& options) { options.compile.choice.mask = words[0]; },
     .recorded = [](R r) -> Text {
       // The mask as read, because the text of the option may be @FILE.
       const ExpertSets& mask = r.build.experts.mask;
       return mask.layers.empty() ? std::string("none") : to_string(mask);
     }},
    {.name = "--drop-masked",
     .scope = kExpertsGraph,
     .help = "With --expert-mask: leave the weights of masked experts out of the export",
     .needs = "--expert-mask",
     .set = [](W, Options& options) { options.compile.choice.drop_masked = true; },
     .recorded = [](R r) -> Text {
       return std::string(r.build.experts.drop_masked ? "yes" : "no");
     }},
    {.name = "--calibration",
     .scope = kWeightsGraph,
     .value = {.kind = OptionKind::text},
     .help = "Folder written by moec calibrate: quantize --weights with the least error for its "
             "inputs (default: round to the nearest codes)",
     .set = [](W words, Options& options) { options.compile.calibration = words[0]; },
     .file =
         [](const Options& options) {
           const std::string& folder = options.compile.calibration;
           // The index contains the digest of the moments, so its own digest covers them.
           return folder.empty() ? folder : folder + "/" + kCalibrationIndex;
         }},
    {.name = "--calibration-inputs",
     .scope = kWeightsGraph,
     .value = {.kind = OptionKind::whole},
     .help = "With --calibration: maximum inputs of a matrix per block of moments. Errors are "
             "compensated within a block; smaller blocks need less memory (default: as many as "
             "--memory allows)",
     .set = [](W words,
               Options& options) { options.compile.calibration_inputs = *parse_whole(words[0]); }},
    {.name = "--accuracy-level",
     .scope = kWeightsOnnx,
     .value = {.kind = OptionKind::text, .initial = "0", .choices = "0 4"},
     .help = "Arithmetic of onnxruntime for block-quantized weights. 0: in the type of the "
             "activations; 4: in int8, several times as fast and less exact",
     .set =
         [](W words, Options& options) {
           options.output.onnx.accuracy_level = static_cast<int>(*parse_whole(words[0]));
         },
     .recorded = [](R r) -> Text { return r.options.output.onnx.accuracy_level; }},
    {.name = "--fold-overflow",
     .scope = kWeightsGraph,
     .help = "If an up or down projection overflows f16, move a power of two from it to the other "
             "one. Results do not change. Reads all up and down projections once more",
     .set = [](W, Options& options) { options.compile.fold_overflow = true; },
     .recorded = [](R r) -> Text {
       return std::string(r.options.compile.fold_overflow ? "yes" : "no");
     }},
    {.name = "--allow-overflow",
     .scope = kWeights,
     .help = "Warn instead of failing if a weight overflows the element type, and write it as an "
             "infinity",
     // Not recorded, like --allow-nonfinite: the bytes are the same, only their refusal differs.
     .set = [](W, Options& options) { options.values.overflow = true; }},
    {.name = "--allow-nonfinite",
     .scope = kWeights,
     .help = "Warn instead of failing if a weight is NaN or infinite in the checkpoint",
     .set = [](W, Options& options) { options.values.nonfinite = true; }},
    {.name = "--top-k",
     .scope = kExpertsGraph,
     .value = {.kind = OptionKind::text},
     .help = "Experts per token. Several values, e.g. 1,2, write one graph per value with shared "
             "weights; a value may differ by layer, e.g. 'L0-3:1;L4-:2' (default: the checkpoint's "
             "top-k)",
     .set = [](W words, Options& options) { options.compile.choice.top_k = words[0]; },
     .recorded = [](R r) -> Text {
       std::vector<std::string> forms;
       for (const TopKVariant& form : r.build.experts.top_k) forms.push_back(form.name);
       return forms.empty() ? std::string("own") : fmt::format("{}", fmt::join(forms, ","));
     }},
    {.name = "--top-k-policy",
     .scope = kExpertsGraph,
     .value = {.kind = OptionKind::text},
     .help = "JSON file of rules by which a runtime chooses among the variants of --top-k: by "
             "battery, category or confidence",
     .needs = "--top-k",
     .set = [](W words, Options& options) { options.compile.choice.policy = words[0]; },
     .file = [](const Options& options) { return options.compile.choice.policy; }},
    {.name = "--capacity",
     .scope = kExpertsGraph,
     .value = {.kind = OptionKind::positive},
     .help = "Capacity factor N: an expert processes at most ceil(N*T*k/experts) tokens of a "
             "T-token step and drops later ones. Not exact (default: no limit)",
     .set = [](W words,
               Options& options) { options.compile.passes.capacity = *parse_positive(words[0]); },
     .recorded = [](R r) -> Text {
       const double capacity = r.options.compile.passes.capacity;
       return capacity > 0 ? fmt::format("{}", capacity) : std::string("none");
     }},
};

}  // namespace

std::span<const OptionRow> weight_options() { return kWeightsRows; }

}  // namespace moec
