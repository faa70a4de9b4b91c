#include "frontends/compare/probe_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/manifest/expert_grid.h"
#include "backends/runtime/prompt.h"
#include "backends/runtime/token_windows.h"
#include "frontends/compare/compare_documents.h"
#include "frontends/compare/compare_metrics.h"
#include "frontends/compare/read_groups.h"
#include "frontends/formats/read_shard.h"
#include "frontends/report/report_json.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// What groups keep of the routing of some tokens, as the mean over layers and tokens.
class KeptRouting {
 public:
  explicit KeptRouting(const std::vector<ExpertGroup>& groups) : groups_(groups) {}

  void add(int64_t layer, const Rows& weights) {
    for (int64_t t = 0; t < weights.count(); ++t) {
      const std::span<const float> row = weights.row(t);
      double all = 0;
      std::vector<double> kept(groups_.size(), 0);
      for (int64_t e = 0; e < std::ssize(row); ++e) {
        all += at(row, e);
        for (size_t g = 0; g < groups_.size(); ++g)
          if (groups_[g].experts.has(layer, e)) kept[g] += at(row, e);
      }
      if (all == 0) continue;
      for (size_t g = 0; g < groups_.size(); ++g) sums_[g] += kept[g] / all;
      ++rows_;
    }
  }
  bool empty() const { return rows_ == 0; }
  double share(size_t group) const { return sums_[group] / static_cast<double>(rows_); }

 private:
  const std::vector<ExpertGroup>& groups_;
  std::vector<double> sums_ = std::vector<double>(groups_.size(), 0);
  uint64_t rows_ = 0;
};

class Prober {
 public:
  Prober(Session& session, const std::vector<ExpertGroup>& groups, int64_t prefill)
      : session_(session), groups_(groups), prefill_(prefill) {}

  Result<ProbedDocument> probe(const CompareDocument& document, int64_t window) {
    std::span<const int64_t> tokens(document.tokens);
    tokens = tokens.first(static_cast<size_t>(std::min(window, std::ssize(tokens))));
    const int64_t seen = std::min(prefill_, std::ssize(tokens));
    // Models that label tokens predict nothing that follows.
    const bool predicts = !session_.manifest().tagging;
    ProbedDocument probed{document.category, seen, predicts ? std::ssize(tokens) - seen : 0,
                          std::vector<ProbedGroup>(groups_.size())};
    MOEC_TRY(score(tokens.first(static_cast<size_t>(seen)), probed));
    if (probed.rest > 0) MOEC_TRY(serve(tokens, probed));
    const auto largest = [&](auto value) {
      const auto& groups = probed.groups;
      return static_cast<size_t>(
          std::max_element(groups.begin(), groups.end(),
                           [&](const auto& a, const auto& b) { return value(a) < value(b); }) -
          groups.begin());
    };
    probed.chosen = largest([](const ProbedGroup& group) { return group.score; });
    probed.best = largest([](const ProbedGroup& group) { return group.log_probability; });
    return probed;
  }

 private:
  Status score(std::span<const int64_t> tokens, ProbedDocument& probed) {
    KeptRouting kept(groups_);
    session_.observe_routing(
        [&](int64_t layer, int64_t, const Rows& weights) { kept.add(layer, weights); });
    MOEC_TRY(session_.set_mask({}));
    session_.reset();
    const auto logits = session_.feed(tokens);
    session_.observe_routing({});
    MOEC_TRY(logits);
    if (kept.empty())
      return fail("probe.no_routing", "the graphs do not name their routing weights",
                  "export the model again without --skip-pass");
    for (size_t g = 0; g < groups_.size(); ++g) {
      probed.groups[g].score = kept.share(g);
      if (!std::isfinite(kept.share(g))) return nonfinite("routing weights");
    }
    return {};
  }

  // The first tokens as well, as a node would that gets the session from its start.
  Status serve(std::span<const int64_t> tokens, ProbedDocument& probed) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      MOEC_TRY(session_.set_mask(groups_[g].experts));
      session_.reset();
      MOEC_ASSIGN(const Rows logits, session_.feed(tokens));
      if (!all_finite(logits.data))
        return nonfinite(fmt::format("logits with {}", groups_[g].name));
      double sum = 0;
      for (int64_t t = probed.seen; t < std::ssize(tokens); ++t)
        sum += log_probability(logits.row(t - 1), at(tokens, t));
      probed.groups[g].log_probability = sum / static_cast<double>(probed.rest);
    }
    return {};
  }

  tl::unexpected<Diagnostics> nonfinite(const std::string& what) const {
    return fail("probe.nonfinite", fmt::format("{} are NaN or infinite", what),
                "moec check tells of weights and casts that overflow");
  }

  Session& session_;
  const std::vector<ExpertGroup>& groups_;
  int64_t prefill_;
};

std::optional<ProbeReport::Figures> figures_of(const std::vector<ProbedDocument>& documents,
                                               size_t groups) {
  std::vector<PartialSum> hits, regrets;
  std::vector<double> always(groups, 0);
  for (const ProbedDocument& document : documents) {
    if (document.rest == 0) continue;
    hits.push_back({document.chosen == document.best ? 1.0 : 0.0, 1});
    regrets.push_back({document.regret(), 1});
    for (size_t g = 0; g < groups; ++g)
      always[g] +=
          document.groups[document.best].log_probability - document.groups[g].log_probability;
  }
  if (hits.empty()) return std::nullopt;
  const auto count = static_cast<double>(hits.size());
  double sum = 0;
  for (const double regret : always) sum += regret;
  return ProbeReport::Figures{bootstrap_mean(hits), bootstrap_mean(regrets),
                              *std::min_element(always.begin(), always.end()) / count,
                              sum / count / static_cast<double>(groups)};
}

Result<std::vector<CompareDocument>> documents_of(const ProbeOptions& options,
                                                  const Manifest& manifest) {
  const TextVocabulary vocabulary{manifest.tokenizer, manifest.model.vocab};
  std::vector<CompareDocument> documents;
  if (options.prompt.empty()) {
    MOEC_ASSIGN(documents,
                read_documents({options.prompts, options.texts, options.tokens_file, options.model},
                               vocabulary));
  } else {
    MOEC_ASSIGN(Prompt prompt, prompt_of_text(options.prompt, manifest));
    documents.push_back({"prompt", std::move(prompt.tokens)});
  }
  return documents;
}

std::string range_text(const BootstrapMean& value, double factor, int digits) {
  std::string text = fmt::format("{:.{}f}", factor * value.mean, digits);
  if (value.bounds)
    text += fmt::format(" [{:.{}f}, {:.{}f}]", factor * value.bounds->low, digits,
                        factor * value.bounds->high, digits);
  return text;
}

}  // namespace

Result<ProbeReport> probe_groups(const ProbeOptions& options) {
  SessionOptions maskable = options.session;
  maskable.maskable = true;
  MOEC_ASSIGN(Session session, Session::open(options.model, read_shard, maskable));
  const Manifest& manifest = session.manifest();
  MOEC_ASSIGN(const std::vector<ExpertGroup> groups,
              read_expert_groups(options.groups, expert_grid(manifest)));
  MOEC_ASSIGN(const std::vector<CompareDocument> documents, documents_of(options, manifest));
  ProbeReport report;
  for (const ExpertGroup& group : groups) report.groups.push_back(group.name);
  const int64_t window = std::min(options.window, longest_window(manifest));
  Prober prober(session, groups, std::min(options.prefill, window));
  for (const CompareDocument& document : documents) {
    if (options.progress) options.progress(report.documents.size(), documents.size());
    MOEC_ASSIGN(ProbedDocument probed, prober.probe(document, window));
    report.documents.push_back(std::move(probed));
  }
  report.figures = figures_of(report.documents, groups.size());
  return report;
}

nlohmann::ordered_json probe_json(const ProbeReport& report) {
  using nlohmann::ordered_json;
  auto documents = ordered_json::array();
  for (const ProbedDocument& document : report.documents) {
    ordered_json json = {{"category", document.category},
                         {"seen", document.seen},
                         {"rest", document.rest},
                         {"chosen", report.groups[document.chosen]}};
    for (const ProbedGroup& group : document.groups) json["scores"].push_back(group.score);
    if (document.rest > 0) {
      json["best"] = report.groups[document.best];
      json["regret"] = document.regret();
      for (const ProbedGroup& group : document.groups)
        json["log_probability"].push_back(group.log_probability);
    }
    documents.push_back(std::move(json));
  }
  ordered_json fields = {{"groups", report.groups}, {"documents", std::move(documents)}};
  if (report.figures)
    fields["figures"] = {{"hits", report.figures->hits.mean},
                         {"regret", report.figures->regret.mean},
                         {"regret_of_one", report.figures->regret_of_one},
                         {"regret_of_chance", report.figures->regret_of_chance}};
  return report_json(true, fields);
}

std::string probe_table(const ProbeReport& report) {
  std::string text;
  for (const ProbedDocument& document : report.documents) {
    text += fmt::format("{:<12} {:>4} tokens:", document.category, document.seen);
    for (size_t g = 0; g < report.groups.size(); ++g)
      text += fmt::format(" {} {:.1f} %", report.groups[g], 100 * document.groups[g].score);
    text += fmt::format(" -> {}", report.groups[document.chosen]);
    if (document.rest > 0)
      text +=
          fmt::format(", best {}, regret {:.4f}", report.groups[document.best], document.regret());
    text += '\n';
  }
  if (report.figures)
    text += fmt::format(
        "\nthe best group was chosen for {} % of the documents\n"
        "regret in nats a token: {}; always the same group {:.4f}, any by chance {:.4f}\n",
        range_text(report.figures->hits, 100, 1), range_text(report.figures->regret, 1, 4),
        report.figures->regret_of_one, report.figures->regret_of_chance);
  return text;
}

}  // namespace moec
