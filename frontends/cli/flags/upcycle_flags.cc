#include "frontends/cli/flags/upcycle_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "frontends/cli/flags/family_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/cli/flags/source_flag.h"
#include "frontends/export/options/option_bytes.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

void add_shape_flags(CLI::App& command, UpcycleFlags& flags) {
  ExpertShape& shape = flags.options.shape;
  command
      .add_option("--experts", shape.experts,
                  "Experts per layer (default: 8 groups of --granularity)")
      ->check(whole_from(1));
  command
      .add_option("--top-k", shape.top_k, "Experts per token (default: 2 groups of --granularity)")
      ->check(whole_from(1));
  command
      .add_option("--granularity", shape.granularity,
                  "Experts per group, G; each has 1/G of the hidden units")
      ->check(whole_from(1));
  command
      .add_option(
          "--shared-width", shape.shared_width,
          "Hidden units of a shared expert, which copies the first hidden units of the dense model")
      ->check(whole_from(0));
  // A text, because the value is `all` or a list of numbers.
  command.add_option("--layers", flags.layers, "Layers that get experts, e.g. 6,12,18, or all");
  command.add_option("--arch", shape.arch,
                     "Architecture: mixtral, qwen3_moe, qwen2_moe, granitemoeshared, deepseek_v3, "
                     "nemotron_h (default: the first that can represent the model)");
}

void add_start_flags(CLI::App& command, UpcycleFlags& flags) {
  ExpertStart& start = flags.options.start;
  command.add_option("--init", flags.init,
                     "Initial experts: copy, virtual-group, partition, or drop:R (copies with a "
                     "fraction R of the units redrawn at random)");
  command.add_option(
      "--router", flags.router,
      "Initial router rows: virtual or virtual:STD (one per group), random or random:STD (one per "
      "expert), or zero; STD is their standard deviation (default: 0.02)");
  command
      .add_option("--scale", flags.scale,
                  "Matrices to multiply by the scale factor of a group's experts: down, "
                  "sqrt-up-down or megatron")
      ->check(one_of_enum<ScaleRule>());
  command.add_flag("--unnormalised", flags.unnormalised,
                   "Do not normalise the routing weights of the chosen experts to a sum of 1");
  command
      .add_option("--noise", start.noise,
                  "Standard deviation of the noise added to each weight of an expert, or with "
                  "--from-moe to the router rows of the copies")
      ->check(finite_from_zero());
  command.add_option("--seed", start.seed, "Seed of all random numbers")
      ->check(whole_from(0))
      ->capture_default_str();
}

void add_source_flags(CLI::App& command, UpcycleFlags& flags) {
  ExpertSources& sources = flags.options.sources;
  command
      .add_option("--expert", sources.experts,
                  "A model with the same shape as DENSE, whose feed-forward parts become experts; "
                  "repeatable")
      // One word per occurrence. CLI11 would otherwise append further words, for example DENSE.
      ->allow_extra_args(false);
  command
      .add_option("--adapter", sources.adapters,
                  "A folder of low-rank adapters (PEFT) for DENSE; the adapted feed-forward parts "
                  "become experts; repeatable")
      ->allow_extra_args(false);
  CLI::Option* from_moe = command.add_flag(
      "--from-moe", flags.from_moe, "DENSE is a Mixture-of-Experts model: multiply its experts");
  command.add_option("--multiply", sources.multiply, "With --from-moe: copies per expert")
      ->check(whole_from(1))
      ->needs(from_moe);
  add_family_options(command, flags.options.family);
}

void add_output_flags(CLI::App& command, UpcycleFlags& flags) {
  CheckpointOutput& output = flags.options.output;
  command.add_option("-o,--out", output.folder, "Folder of the new checkpoint");
  command.add_option("--max-shard-mb", flags.max_shard,
                     "Maximum size of a file, in MiB or with a unit, e.g. 2GB (default: 5GiB)");
  command.add_option("--dtype", flags.dtype, "Element type of all tensors (default: as stored)")
      ->check(one_of({"f32", "f16", "bf16"}));
  command.add_flag("--force", output.force, "Replace an earlier result in the folder");
  command.add_flag("--dry-run", flags.options.dry_run, "Plan and report only; write nothing");
}

void add_verify_flags(CLI::App& command, UpcycleFlags& flags) {
  VerifyOptions& verify = flags.options.verify;
  command.add_flag("--verify", verify.run,
                   "Run both models on the same tokens and fail if their logits differ by more "
                   "than --max-error");
  CLI::Option* texts = command.add_option("--text", verify.texts, "Text files for --verify")
                           ->delimiter(',')
                           ->allow_extra_args(false);
  command
      .add_option("--tokens", verify.tokens_file,
                  "A file of token ids for --verify (default: bundled token ids)")
      ->excludes(texts);
  command
      .add_option("--window", verify.window,
                  "Tokens per window of --verify; attention does not cross windows")
      ->check(whole_from(1))
      ->capture_default_str();
  command
      .add_option("--max-error", verify.max_error,
                  "Maximum relative difference of logits that --verify allows (default: 1e-5; if "
                  "weights are rounded, 0.05 for f16 and 0.4 for bf16)")
      ->check(finite_from_zero());
}

// ---- Values ------------------------------------------------------------------------------------

tl::unexpected<Diagnostics> bad_value(std::string_view flag, std::string_view value,
                                      std::string_view form) {
  return fail("cli.value", fmt::format("{} does not accept '{}'", flag, value),
              fmt::format("pass {}", form));
}

// "NAME" or "NAME:NUMBER".
struct NamedNumber {
  std::string_view name;
  std::optional<double> number;
  // Distinguishes `NAME` from `NAME:` with a malformed number; `number` is absent in both cases.
  bool has_number = false;
};

NamedNumber split_number(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, std::nullopt, false};
  return {text.substr(0, colon), parse_positive(text.substr(colon + 1)), true};
}

Status set_init(const std::string& text, ExpertShape& shape, ExpertStart& start) {
  if (text.empty()) {
    // With a granularity above 1, an expert has 1/G of the hidden units, so it cannot copy the
    // whole MLP.
    start.init = shape.granularity > 1 ? ExpertInit::virtual_group : ExpertInit::copy;
    return {};
  }
  constexpr std::string_view kForm = "copy, virtual-group, partition, or drop:R";
  const NamedNumber given = split_number(text);
  const auto init = parse_enum<ExpertInit>(given.name);
  // drop requires its number; the other forms have none.
  const bool takes_number = init == ExpertInit::drop;
  if (!init || takes_number != given.has_number || (takes_number && !given.number))
    return bad_value("--init", text, kForm);
  start.init = *init;
  if (takes_number) start.drop = *given.number;
  return {};
}

Status set_router(const std::string& text, ExpertStart& start) {
  if (text.empty()) return {};
  constexpr std::string_view kForm = "virtual, virtual:STD, random:STD, or zero";
  const NamedNumber given = split_number(text);
  const auto router = parse_enum<RouterInit>(given.name);
  // The number is optional: without it, the standard deviation keeps its default.
  const bool takes_number = router && *router != RouterInit::zero;
  if (!router || (given.has_number && (!takes_number || !given.number)))
    return bad_value("--router", text, kForm);
  start.router = *router;
  if (given.number) start.router_std = *given.number;
  return {};
}

Status set_layers(const std::string& text, ExpertShape& shape) {
  // An empty list of layers means all of them.
  if (text == "all") return {};
  return for_each_part(text, ",", [&](std::string_view word) -> Status {
    const auto layer = parse_whole(word);
    if (!layer) return bad_value("--layers", text, "comma-separated numbers, or all");
    shape.layers.push_back(*layer);
    return {};
  });
}

Status set_sources(const UpcycleFlags& flags, UpcycleOptions& options) {
  if (flags.from_moe && options.sources.multiply == 0)
    return fail("cli.missing", "--from-moe requires --multiply",
                "pass --multiply M, the number of copies per expert");
  return {};
}

}  // namespace

void add_upcycle_flags(CLI::App& command, UpcycleFlags& flags) {
  add_source(command, "DENSE", flags.options.source, "A checkpoint folder or a GGUF file")
      ->required();
  add_shape_flags(command, flags);
  add_start_flags(command, flags);
  add_source_flags(command, flags);
  add_output_flags(command, flags);
  add_verify_flags(command, flags);
  command.add_flag("-q,--quiet", flags.quiet, "Print no progress and no notes");
  command.add_flag("--json", flags.json, "Print the report as JSON");
}

Result<UpcycleOptions> upcycle_options(const UpcycleFlags& flags) {
  UpcycleOptions options = flags.options;
  if (options.output.folder.empty() && !options.dry_run)
    return fail("cli.missing", "--out is required", "pass --out FOLDER or --dry-run");
  // set_init() depends on --granularity, which CLI11 has already written into the shape.
  MOEC_TRY(set_init(flags.init, options.shape, options.start));
  MOEC_TRY(set_router(flags.router, options.start));
  MOEC_TRY(set_layers(flags.layers, options.shape));
  MOEC_TRY(set_sources(flags, options));
  if (!flags.scale.empty()) options.start.scale = *parse_enum<ScaleRule>(flags.scale);
  options.start.normalised = !flags.unnormalised;
  if (!flags.dtype.empty()) options.dtype = parse_dtype(flags.dtype);
  if (flags.max_shard.empty()) return options;
  MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--max-shard-mb", flags.max_shard));
  options.output.max_shard_bytes = static_cast<uint64_t>(bytes);
  return options;
}

}  // namespace moec
