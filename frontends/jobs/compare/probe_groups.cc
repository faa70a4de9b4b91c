#include "frontends/jobs/compare/probe_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "backends/manifest/written_file.h"
#include "backends/runtime/session/routing_mass.h"
#include "backends/runtime/text/prompt.h"
#include "frontends/jobs/compare/read_groups.h"
#include "frontends/measure/compare_metrics.h"
#include "frontends/measure/run_text.h"
#include "ir/base/at.h"
#include "ir/experts/expert_sets.h"
#include "ir/experts/probe_table.h"

namespace moec {

namespace {

// Default of ProbeOptions::prefill if no table is used.
constexpr int64_t kPrefill = 32;

// The groups to choose from, and the criterion.
struct Choice {
  ProbeScore score = ProbeScore::mass;
  std::vector<ExpertGroup> groups;
  ProbeTable table;  // set with ProbeScore::table
};

size_t largest(const std::vector<ProbedGroup>& groups, double ProbedGroup::*value) {
  const auto less = [&](const auto& a, const auto& b) { return a.*value < b.*value; };
  // max_element() returns the first of equal values, as ProbedDocument documents it.
  return static_cast<size_t>(std::max_element(groups.begin(), groups.end(), less) - groups.begin());
}

class Prober {
 public:
  Prober(Session& session, const Choice& choice, int64_t prefill)
      : session_(session), choice_(choice), prefill_(prefill) {}

  Result<ProbedDocument> probe(const Document& document, int64_t window) {
    std::span<const int64_t> tokens(document.tokens);
    tokens = tokens.first(static_cast<size_t>(std::min(window, std::ssize(tokens))));
    const int64_t seen = std::min(prefill_, std::ssize(tokens));
    // Models that label tokens do not predict the next token.
    const bool predicts = !session_.manifest().tagging;
    ProbedDocument probed{.category = document.category,
                          .seen = seen,
                          .rest = predicts ? std::ssize(tokens) - seen : 0,
                          .groups = std::vector<ProbedGroup>(choice_.groups.size())};
    MOEC_ASSIGN(const RoutingMass mass, routing_of(tokens.first(static_cast<size_t>(seen))));
    score(mass, probed);
    if (probed.rest > 0) MOEC_TRY(serve(tokens, probed));
    probed.chosen = largest(probed.groups, &ProbedGroup::score);
    probed.best = largest(probed.groups, &ProbedGroup::log_probability);
    return probed;
  }

 private:
  Result<RoutingMass> routing_of(std::span<const int64_t> tokens) {
    RoutingMass mass;
    // The router sees all experts here: a mask would hide the mass of the others.
    MOEC_TRY(session_.set_mask({}));
    const Text text = cut_tokens({tokens.begin(), tokens.end()}, std::ssize(tokens));
    MOEC_TRY(run_text(session_, text, {.routing = [&](int64_t layer, int64_t, const Rows& weights) {
                        mass.add(layer, weights);
                      }}));
    if (mass.empty())
      return fail("probe.no_routing", "the graphs do not name their routing weights",
                  "export the model again without --skip-pass");
    if (!mass.finite()) return nonfinite("routing weights");
    return mass;
  }

  void score(const RoutingMass& mass, ProbedDocument& probed) const {
    probed.routing = mass.shares(expert_grid(session_.manifest()));
    for (size_t g = 0; g < probed.groups.size(); ++g)
      // `kept` is reported for both criteria, so it is computed even if the table decides.
      probed.groups[g].score = probed.groups[g].kept = mass.kept(choice_.groups[g].experts);
    if (choice_.score == ProbeScore::mass) return;
    const ProbeCategory& nearest = nearest_category(choice_.table, probed.routing);
    probed.nearest = nearest.name;
    for (size_t g = 0; g < probed.groups.size(); ++g)
      probed.groups[g].score = nearest.log_probability[g];
  }

  // Runs the whole document, including the first tokens, as a node does that serves the text from
  // its start.
  Status serve(std::span<const int64_t> tokens, ProbedDocument& probed) {
    for (size_t g = 0; g < probed.groups.size(); ++g) {
      MOEC_TRY(session_.set_mask(choice_.groups[g].experts));
      session_.reset();
      MOEC_ASSIGN(const Rows logits, session_.feed(tokens));
      if (!all_finite(logits.data))
        return nonfinite(fmt::format("logits with {}", choice_.groups[g].name));
      double sum = 0;
      // The logits at t - 1 predict token t; only tokens after the first `seen` count.
      for (int64_t t = probed.seen; t < std::ssize(tokens); ++t)
        sum += log_probability(logits.row(t - 1), at(tokens, t));
      probed.groups[g].log_probability = sum / static_cast<double>(probed.rest);
    }
    return {};
  }

  static tl::unexpected<Diagnostics> nonfinite(const std::string& what) {
    return fail("probe.nonfinite", fmt::format("{} are NaN or infinite", what),
                "run moec check to find weights and casts that overflow");
  }

  Session& session_;
  const Choice& choice_;
  int64_t prefill_;
};

Result<std::vector<Document>> documents_of(const ProbeOptions& options, const Manifest& manifest) {
  const ModelTokenizer tokenizer = export_tokenizer(options.model, manifest);
  if (options.prompt.empty())
    return read_documents(
        {"compare", options.model, options.texts, given_file(options.tokens_file), options.prompts},
        tokenizer);
  MOEC_ASSIGN(Prompt prompt, prompt_of_text(options.prompt, manifest, tokenizer));
  if (prompt.tokens.empty())
    return fail("probe.prompt", "the prompt has no tokens", "write text that the tokenizer encodes",
                {.file = options.model});
  return std::vector<Document>{{"prompt", std::move(prompt.tokens)}};
}

Result<ProbeTable> table_of(const std::string& folder, const Manifest& manifest) {
  if (manifest.find_side_file(kProbeTableFile) == nullptr)
    return fail("probe.no_table", "the export has no probe table",
                "pass --groups to choose by mass, or write a table with "
                "moec probe OUT --groups G.json --prompts SUITE --write",
                {.file = folder});
  return read_probe_table(folder + "/" + kProbeTableFile, expert_grid(manifest));
}

Result<Choice> choice_of(const ProbeOptions& options, const Manifest& manifest) {
  const bool own = options.groups.empty();
  Choice choice{.score = options.score.value_or(own ? ProbeScore::table : ProbeScore::mass)};
  if (own || choice.score == ProbeScore::table) {
    MOEC_ASSIGN(choice.table, table_of(options.model, manifest));
    choice.groups = choice.table.groups;
    if (own) return choice;
  }
  MOEC_ASSIGN(choice.groups, read_expert_groups(options.groups, expert_grid(manifest)));
  // The choice by table requires groups that equal the table's, because its rows are per group.
  if (choice.score == ProbeScore::mass || choice.groups == choice.table.groups) return choice;
  return fail("probe.other_groups", "the export's probe table has other groups",
              "write a table of these groups with --write, or leave out --groups",
              {.file = options.groups});
}

// Rejects a node or a masked export that lacks experts of a group, because the scores would be
// wrong.
Status check_has_groups(const Manifest& manifest, const std::vector<ExpertGroup>& groups,
                        const std::string& folder) {
  MOEC_ASSIGN(const ExpertSets held, node_experts_of(manifest));
  MOEC_ASSIGN(const ExpertSets mask, expert_mask_of(manifest));
  const ExpertGrid grid = expert_grid(manifest);
  for (const ExpertGroup& group : groups)
    for (const auto& [layer, experts] : in_both(held, mask).layers)
      for (int64_t expert = 0; expert < grid.experts; ++expert)
        if (group.experts.has(layer, expert) &&
            !std::binary_search(experts.begin(), experts.end(), expert))
          return fail(
              "probe.not_whole",
              fmt::format("the export lacks expert {} of layer {}, which belongs to group {}: "
                          "it is {}",
                          expert, layer, group.name, manifest.node ? "a node" : "masked"),
              "probe the original export, or one without --expert-mask", {.file = folder});
  return {};
}

}  // namespace

Result<ProbeReport> probe_groups(const ProbeOptions& options) {
  SessionOptions maskable = options.session;
  // Masks are set for each group, so the graphs must accept them.
  maskable.maskable = true;
  MOEC_ASSIGN(Session session, Session::open(options.model, read_shard, maskable));
  const Manifest& manifest = session.manifest();
  MOEC_ASSIGN(const Choice choice, choice_of(options, manifest));
  MOEC_TRY(check_has_groups(manifest, choice.groups, options.model));
  MOEC_ASSIGN(const std::vector<Document> documents, documents_of(options, manifest));
  const int64_t window = std::min(options.window, longest_window(manifest));
  // A table was measured with its own number of first tokens, so it sets the default.
  const int64_t prefill = choice.score == ProbeScore::table ? choice.table.prefill : kPrefill;
  ProbeReport report{.score = choice.score,
                     .prefill = std::min(options.prefill.value_or(prefill), window),
                     .grid = expert_grid(manifest),
                     .groups = choice.groups};
  Prober prober(session, choice, report.prefill);
  for (const Document& document : documents) {
    if (options.progress) options.progress(report.documents.size(), documents.size());
    MOEC_ASSIGN(ProbedDocument probed, prober.probe(document, window));
    report.documents.push_back(std::move(probed));
  }
  report.figures = probe_figures(report.documents);
  return report;
}

Status write_probe_table(const ProbeReport& report, const std::string& folder) {
  MOEC_ASSIGN(const ProbeTable table, probe_table_of(report));
  MOEC_ASSIGN(Manifest manifest, read_manifest(folder));
  // Adds a SHA-256 only if the files of the export have one, too.
  const bool sha256 = !manifest.embedding.file.sha256.empty();
  MOEC_ASSIGN(manifest::FileRef file, manifest::write_listed_file(folder, kProbeTableFile,
                                                                  probe_table_text(table), sha256));
  std::erase_if(manifest.side_files,
                [](const manifest::FileRef& other) { return other.path == kProbeTableFile; });
  manifest.side_files.push_back(std::move(file));
  return write_manifest(manifest, folder);
}

}  // namespace moec
