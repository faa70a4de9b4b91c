#include "frontends/cli/flags/upcycle_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "frontends/cli/flags/family_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/export/options/option_bytes.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

void add_shape_flags(CLI::App& command, UpcycleFlags& flags) {
  ExpertShape& shape = flags.options.shape;
  command.add_option("--experts", shape.experts, "Experts of each layer (default: 8 groups)")
      ->check(whole_from(1));
  command.add_option("--top-k", shape.top_k, "Experts that a token picks (default: two groups)")
      ->check(whole_from(1));
  command
      .add_option("--granularity", shape.granularity,
                  "Experts of a group, each with so small a part of the hidden units")
      ->check(whole_from(1));
  command
      .add_option("--shared-width", shape.shared_width,
                  "Hidden units, the first ones, of an expert that every token takes")
      ->check(whole_from(0));
  command.add_option("--layers", flags.layers, "Layers that get experts: 6,12,18 or all");
  command.add_option("--arch", shape.arch,
                     "Architecture: mixtral, qwen3_moe, qwen2_moe, granitemoeshared, deepseek_v3, "
                     "nemotron_h (default: the first that can hold the model)");
}

void add_start_flags(CLI::App& command, UpcycleFlags& flags) {
  ExpertStart& start = flags.options.start;
  command.add_option("--init", flags.init,
                     "How experts begin: copy, virtual-group, partition, or drop:R with a share R "
                     "of the units drawn anew");
  command.add_option("--router", flags.router,
                     "How router rows begin: virtual (one for each group), random:STD (one for "
                     "each expert), zero; virtual:STD sets the spread (0.02)");
  command
      .add_option("--scale", flags.scale,
                  "Where the factor of a group's experts goes: down, sqrt-up-down, megatron")
      ->check(one_of_enum<ScaleRule>());
  command.add_flag("--unnormalised", flags.unnormalised,
                   "Routing weights are shares of all experts and not normalised");
  command
      .add_option("--noise", start.noise,
                  "Standard deviation of noise on each weight of an expert; with --from-moe on the "
                  "router rows of copies")
      ->check(finite_from_zero());
  command.add_option("--seed", start.seed, "Seed of all random numbers")
      ->check(whole_from(0))
      ->capture_default_str();
}

void add_source_flags(CLI::App& command, UpcycleFlags& flags) {
  ExpertSources& sources = flags.options.sources;
  command
      .add_option("--expert", sources.experts,
                  "A model of the dense one's shape, whose feed-forward parts become experts; "
                  "repeated for each")
      ->allow_extra_args(false);
  command
      .add_option("--adapter", sources.adapters,
                  "A folder of low-rank adapters (PEFT) of the dense model, which becomes experts; "
                  "repeated for each")
      ->allow_extra_args(false);
  CLI::Option* from_moe =
      command.add_flag("--from-moe", flags.from_moe, "The model has experts: multiply them");
  command.add_option("--multiply", sources.multiply, "With --from-moe: copies of each expert")
      ->check(whole_from(1))
      ->needs(from_moe);
  add_family_options(command, flags.options.family);
}

void add_output_flags(CLI::App& command, UpcycleFlags& flags) {
  UpcycleOutput& output = flags.options.output;
  command.add_option("-o,--out", output.folder, "Folder of the new checkpoint");
  command.add_option("--max-shard-mb", flags.max_shard,
                     "Largest file, in MiB or with a unit: 2GB, 512MiB (default: 5GiB)");
  command.add_option("--dtype", flags.dtype, "Element type of all tensors (default: as stored)")
      ->check(one_of({"f32", "f16", "bf16"}));
  command.add_flag("--force", output.force, "Replace an earlier result in the folder");
  command.add_flag("--dry-run", flags.options.dry_run, "Plan and report, write nothing");
}

void add_verify_flags(CLI::App& command, UpcycleFlags& flags) {
  VerifyOptions& verify = flags.options.verify;
  command.add_flag("--verify", verify.run,
                   "Run both models side by side and fail where their logits differ");
  CLI::Option* texts = command.add_option("--text", verify.texts, "Text files for --verify")
                           ->delimiter(',')
                           ->allow_extra_args(false);
  command
      .add_option("--tokens", verify.tokens_file,
                  "A file of token ids for --verify (default: bundled ones)")
      ->excludes(texts);
  command.add_option("--window", verify.window, "Tokens of --verify that see one another")
      ->check(whole_from(1))
      ->capture_default_str();
  command
      .add_option("--max-error", verify.max_error,
                  "Largest relative difference of logits that --verify allows")
      ->check(finite_from_zero())
      ->capture_default_str();
}

// ---- Values ------------------------------------------------------------------------------------

tl::unexpected<Diagnostics> bad_value(std::string_view flag, std::string_view value,
                                      std::string_view form) {
  return fail("cli.value", fmt::format("{} does not take '{}'", flag, value),
              fmt::format("give {}", form));
}

// "NAME" or "NAME:NUMBER".
struct NamedNumber {
  std::string_view name;
  std::optional<double> number;
  bool has_number = false;
};

NamedNumber split_number(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, std::nullopt, false};
  return {text.substr(0, colon), parse_positive(text.substr(colon + 1)), true};
}

Status set_init(const std::string& text, ExpertShape& shape, ExpertStart& start) {
  if (text.empty()) {
    start.init = shape.granularity > 1 ? ExpertInit::virtual_group : ExpertInit::copy;
    return {};
  }
  constexpr std::string_view kForm = "copy, virtual-group, partition, or drop:R";
  const NamedNumber given = split_number(text);
  const auto init = parse_enum<ExpertInit>(given.name);
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
  const bool takes_number = router && *router != RouterInit::zero;
  if (!router || (given.has_number && (!takes_number || !given.number)))
    return bad_value("--router", text, kForm);
  start.router = *router;
  if (given.number) start.router_std = *given.number;
  return {};
}

Status set_layers(const std::string& text, ExpertShape& shape) {
  if (text == "all") return {};
  return for_each_part(text, ",", [&](std::string_view word) -> Status {
    const auto layer = parse_whole(word);
    if (!layer) return bad_value("--layers", text, "numbers with commas between them, or all");
    shape.layers.push_back(*layer);
    return {};
  });
}

Status set_sources(const UpcycleFlags& flags, UpcycleOptions& options) {
  if (flags.from_moe && options.sources.multiply == 0)
    return fail("cli.missing", "--from-moe needs --multiply",
                "give --multiply M, the copies of each expert");
  return {};
}

}  // namespace

void add_upcycle_flags(CLI::App& command, UpcycleFlags& flags) {
  command.add_option("DENSE", flags.options.source, "A checkpoint folder")->required();
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
    return fail("cli.missing", "--out is required", "give --out FOLDER, or --dry-run");
  MOEC_TRY(set_init(flags.init, options.shape, options.start));
  MOEC_TRY(set_router(flags.router, options.start));
  MOEC_TRY(set_layers(flags.layers, options.shape));
  MOEC_TRY(set_sources(flags, options));
  if (!flags.scale.empty()) options.start.scale = *parse_enum<ScaleRule>(flags.scale);
  options.start.normalised = !flags.unnormalised;
  if (!flags.dtype.empty()) options.output.dtype = parse_dtype(flags.dtype);
  if (flags.max_shard.empty()) return options;
  MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--max-shard-mb", flags.max_shard));
  options.output.max_shard_bytes = static_cast<uint64_t>(bytes);
  return options;
}

}  // namespace moec
