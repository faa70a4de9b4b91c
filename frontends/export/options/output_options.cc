// Options for reading the checkpoint, writing files and using the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "frontends/export/options/option_bytes.h"
#include "frontends/export/options/option_row.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

using Options = ExportOptions;
using R = const Resolved&;
using Text = OptionText;
using W = const Words&;

constexpr OptionScope kTargetOfPlanCoreml{"Target", OptionUsers::planning, OptionFormats::coreml};
constexpr OptionScope kOutputOfPlanGraph{"Output", OptionUsers::planning, OptionFormats::graphs};
constexpr OptionScope kTargetCoreml{"Target", OptionUsers::exporting, OptionFormats::coreml};
constexpr OptionScope kOutputCoreml{"Output", OptionUsers::exporting, OptionFormats::coreml};
constexpr OptionScope kOutputGguf{"Output", OptionUsers::exporting, OptionFormats::gguf};
constexpr OptionScope kInputGraph{"Input", OptionUsers::exporting, OptionFormats::graphs};
constexpr OptionScope kInputOfPlan{"Input", OptionUsers::planning, OptionFormats::all};
constexpr OptionScope kOutputGraph{"Output", OptionUsers::exporting, OptionFormats::graphs};
constexpr OptionScope kOutput{"Output", OptionUsers::exporting, OptionFormats::all};
constexpr OptionScope kOutputOnnx{"Output", OptionUsers::exporting, OptionFormats::onnx};
constexpr OptionScope kLimits{"Limits", OptionUsers::exporting, OptionFormats::all};

// Restricts the characters of --name, because it becomes part of file names.
Status check_name(const std::string& name) {
  const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
  if (is_plain && !name.empty()) return {};
  return fail("export.flags",
              fmt::format("--name \"{}\": a name consists of letters, digits, _ and -", name),
              "pass a name such as zaya");
}

Status set_share(W words, Options& options) {
  MOEC_ASSIGN(options.output.share, parse_share(words[0], "export.flags"));
  return {};
}

const OptionRow kOutputRows[] = {
    {.name = "--widths",
     .scope = kTargetOfPlanCoreml,
     .value = {.kind = OptionKind::text,
               .initial = "auto",
               .choices = "auto separate functions range"},
     .help = "Core ML: packaging of several token widths. separate: one package per width; "
             "functions: one package with one function per width, which share the weights; range: "
             "one package whose token dimension is a range; auto: functions for shards without "
             "states if the export needs specification version 9 (iOS 18) anyway, else separate",
     .set =
         [](W words, Options& options) {
           options.compile.coreml.packaging = *parse_enum<WidthPackaging>(words[0]);
         },
     .recorded = [](R r) -> Text { return r.options.compile.coreml.packaging; }},
    {.name = "--compat",
     .scope = kOutputOfPlanGraph,
     .value = {.kind = OptionKind::text, .choices = "ane-book genai"},
     .help = "Also write the files of another runtime. ane-book: file names and metadata of the "
             "ane-book's runtimes, for Core ML; genai: a pipeline of onnxruntime-genai, for ONNX "
             "with --tokens 1,W",
     .set = [](W words,
               Options& options) { options.output.compat = *parse_enum<Compat>(words[0]); },
     .recorded = [](R r) -> Text { return std::string(enum_name(r.options.output.compat)); }},
    {.name = "--multi-function",
     .scope = kTargetCoreml,
     // Recorded by the row of --widths, which sets the same field.
     .help = "Same as --widths functions",
     .excludes = "--widths",
     .set = [](W,
               Options& options) { options.compile.coreml.packaging = WidthPackaging::functions; }},
    {.name = "--spec-version",
     .scope = kTargetCoreml,
     .value = {.kind = OptionKind::whole, .least = 6, .most = 9},
     .help = "Core ML: specification version of the packages, 6 (iOS 15) to 9 (iOS 18) (default: "
             "the lowest that supports the shards)",
     .set =
         [](W words, Options& options) {
           options.compile.coreml.spec_version = static_cast<int>(*parse_whole(words[0]));
         },
     .recorded = [](R r) -> Text { return r.options.compile.coreml.spec_version; }},
    {.name = "--name",
     .scope = kOutputCoreml,
     .value = {.kind = OptionKind::text},
     .help = "With --compat: model name in the file names, e.g. zaya for zaya_ane/ and "
             "zaya_runtime_meta.json (default: the name of CHECKPOINT)",
     .needs = "--compat",
     .parse = [](W words, Options& options) -> Status {
       options.output.book_model = words[0];
       return check_name(words[0]);
     },
     .recorded = [](R r) -> Text { return r.options.output.book_model; }},
    {.name = "--max-file-size",
     .scope = kOutputGguf,
     .value = {.kind = OptionKind::text},
     .help = "GGUF: maximum bytes per file, e.g. 4GB; a larger model is split into "
             "NAME-00001-of-0000N.gguf and so on (default: one file)",
     .parse = [](W words, Options& options) -> Status {
       // Recorded by export_gguf(), as is --tokenizer.
       MOEC_ASSIGN(const int64_t most, bytes_of_flag("--max-file-size", words[0]));
       options.output.gguf.max_file_bytes = static_cast<uint64_t>(most);
       return {};
     }},
    {.name = "--tokenizer",
     .scope = kOutputGguf,
     .value = {.kind = OptionKind::text, .choices = "none"},
     .help = "GGUF: \"none\" omits the tokenizer, so that the files accept token ids, not text "
             "(default: the checkpoint's tokenizer)",
     .set = [](W, Options& options) { options.output.gguf.tokenizer = false; }},
    {.name = "--layers",
     .scope = kInputGraph,
     .value = {.kind = OptionKind::whole},
     .help = "Export only the first N layers, to try out a large model. moec check accepts the "
             "result; moec validate and moec run do not (default: all layers)",
     .set = [](W words, Options& options) { options.source.layers = *parse_whole(words[0]); },
     .recorded = [](R r) -> Text {
       const int64_t layers = r.options.source.layers;
       return layers > 0 ? std::to_string(layers) : std::string("all");
     }},
    {.name = "--seeded-weights",
     .scope = kInputGraph,
     .value = {.kind = OptionKind::whole, .least = 0},
     .help = "Fill the shards with random weights from this seed instead of the checkpoint's "
             "weights, to measure sizes and times. CHECKPOINT may then be a config.json",
     .set =
         [](W words, Options& options) {
           options.source.weight_seed = static_cast<uint64_t>(*parse_whole(words[0]));
         },
     .recorded = [](R r) -> Text {
       const auto& seed = r.options.source.weight_seed;
       return seed ? std::to_string(*seed) : std::string("none");
     }},
    {.name = "--family-file",
     .scope = kInputOfPlan,
     .value = {.kind = OptionKind::text},
     .help = "Read the config with this family descriptor instead of a built-in one "
             "(models/families/README.md)",
     .set = [](W words, Options& options) { options.source.family.file = words[0]; },
     .file = [](const Options& options) { return options.source.family.file.value_or(""); }},
    {.name = "--ignore-key",
     .scope = kInputOfPlan,
     .value = {.kind = OptionKind::repeated},
     .help = "Ignore this key of the config, which the family does not know (repeatable)",
     .set =
         [](W words, Options& options) {
           options.source.family.ignored_keys.assign(words.begin(), words.end());
         },
     .recorded = [](R r) -> Text {
       return fmt::format("{}", fmt::join(r.options.source.family.ignored_keys, " "));
     }},
    {.name = "--digest",
     .scope = kOutput,
     .value = {.kind = OptionKind::text, .choices = "sha256"},
     .help = "Record this digest of each file in the manifest, in addition to XXH3",
     .set = [](W, Options& options) { options.output.sha256 = true; },
     .recorded = [](R r) -> Text {
       return std::string(r.options.output.sha256 ? "sha256" : "none");
     }},
    {.name = "--onnx-checksum",
     .scope = kOutputOnnx,
     .help = "ONNX: write the SHA-1 of each data file into the graphs, as `checksum`",
     .set = [](W, Options& options) { options.output.onnx.checksum = true; },
     .recorded = [](R r) -> Text {
       return std::string(r.options.output.onnx.checksum ? "sha1" : "none");
     }},
    {.name = "--part",
     .scope = kOutputGraph,
     .value = {.kind = OptionKind::text},
     .help =
         "Export only share I of N, counted from 0, into OUT/.parts/I, for processes on several "
         "nodes. --join completes the export",
     // Not recorded, as is --join: the bytes do not depend on the process that writes them.
     .parse = set_share},
    {.name = "--join",
     .scope = kOutputGraph,
     .help = "Complete an export with the shares that --part wrote; missing ones are exported",
     .excludes = "--part",
     .set = [](W, Options& options) { options.output.join = true; }},
    {.name = "-j,--jobs",
     .scope = kLimits,
     .value = {.kind = OptionKind::whole, .most = 256},
     .help = "Shards compiled at the same time, 1 to 256. Each job has threads that read, convert "
             "and write. The output does not depend on the number (default: 4, or fewer if "
             "--memory requires it)",
     .set =
         [](W words, Options& options) {
           // Not recorded: the bytes do not depend on the number of jobs.
           options.resources.jobs = static_cast<int>(*parse_whole(words[0]));
         }},
    {.name = "--memory",
     .scope = kLimits,
     .value = {.kind = OptionKind::text, .initial = "256"},
     .help = "Maximum memory of the whole export, in MiB or with a unit: 2GB, 512MiB. An export "
             "that needs more is refused before it writes anything",
     .parse = [](W words, Options& options) -> Status {
       // Not recorded: memory changes the bytes only through blocks of moments, which plan_export()
       // records.
       MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--memory", words[0]));
       options.resources.memory_bytes = static_cast<uint64_t>(bytes);
       return {};
     }},
};

}  // namespace

std::span<const OptionRow> output_options() { return kOutputRows; }

}  // namespace moec
