#include "frontends/jobs/compare/probe_report.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

// Mean of value(document) over the documents.
template <class Value>
BootstrapMean mean_over(const std::vector<const ProbedDocument*>& documents, Value value) {
  std::vector<PartialSum> parts;
  for (const ProbedDocument* document : documents)
    // Weight 1: each document counts the same, whatever its length.
    parts.push_back({static_cast<double>(value(*document)), 1});
  return bootstrap_mean(parts);
}

std::vector<const ProbedDocument*> with_rest(const std::vector<ProbedDocument>& documents) {
  std::vector<const ProbedDocument*> found;
  // Models that label tokens, and texts shorter than the prefill, have no remaining tokens.
  for (const ProbedDocument& document : documents)
    if (document.rest > 0) found.push_back(&document);
  return found;
}

double mean_regret(const ProbedDocument& document) {
  double sum = 0;
  // The expected regret of a uniformly random choice.
  for (size_t g = 0; g < document.groups.size(); ++g) sum += document.regret(g);
  return sum / static_cast<double>(document.groups.size());
}

ProbeCategory category_of(const std::string& name,
                          const std::vector<const ProbedDocument*>& documents) {
  // All documents have the same groups and the same shape of routing.
  const size_t groups = documents.front()->groups.size();
  ProbeCategory row{name,
                    std::ssize(documents),
                    documents.front()->routing,
                    std::vector<double>(groups),
                    std::vector<double>(groups),
                    std::vector<double>(groups)};
  const auto mean = [&](auto value) { return mean_over(documents, value).mean; };
  for (size_t layer = 0; layer < row.routing.size(); ++layer)
    for (size_t e = 0; e < row.routing[layer].size(); ++e)
      row.routing[layer][e] =
          mean([&](const ProbedDocument& document) { return document.routing[layer][e]; });
  for (size_t g = 0; g < groups; ++g) {
    row.kept[g] = mean([&](const ProbedDocument& document) { return document.groups[g].kept; });
    row.log_probability[g] =
        mean([&](const ProbedDocument& document) { return document.groups[g].log_probability; });
    row.regret[g] = mean([&](const ProbedDocument& document) { return document.regret(g); });
  }
  return row;
}

ordered_json mean_json(const BootstrapMean& value) {
  ordered_json json = {{"mean", value.mean}, {"low", nullptr}, {"high", nullptr}};
  // A single document has no bounds.
  if (value.bounds) json.update({{"low", value.bounds->low}, {"high", value.bounds->high}});
  return json;
}

ordered_json figures_json(const ProbeFigures& figures, const std::vector<ExpertGroup>& groups) {
  ordered_json json = {{"hits", mean_json(figures.hits)},
                       {"regret", mean_json(figures.regret)},
                       {"one", groups[figures.one].name},
                       {"regret_of_one", mean_json(figures.regret_of_one)},
                       {"regret_of_chance", mean_json(figures.regret_of_chance)}};
  for (const BootstrapMean& load : figures.load) json["load"].push_back(mean_json(load));
  return json;
}

ordered_json document_json(const ProbedDocument& document, const std::vector<ExpertGroup>& groups) {
  ordered_json json = {{"category", document.category},
                       {"seen", document.seen},
                       {"rest", document.rest},
                       {"chosen", groups[document.chosen].name}};
  if (!document.nearest.empty()) json["nearest"] = document.nearest;
  for (const ProbedGroup& group : document.groups) {
    json["scores"].push_back(group.score);
    json["kept"].push_back(group.kept);
  }
  json["routing"] = document.routing;
  // Without remaining tokens, all log-probabilities are 0, and the best group is not known.
  if (document.rest == 0) return json;
  json["best"] = groups[document.best].name;
  json["regret"] = document.regret(document.chosen);
  for (const ProbedGroup& group : document.groups)
    json["log_probability"].push_back(group.log_probability);
  return json;
}

std::string range_text(const BootstrapMean& value, double factor, int digits) {
  std::string text = fmt::format("{:.{}f}", factor * value.mean, digits);
  if (value.bounds)
    text += fmt::format(" [{:.{}f}, {:.{}f}]", factor * value.bounds->low, digits,
                        factor * value.bounds->high, digits);
  return text;
}

std::string document_text(const ProbedDocument& document, const std::vector<ExpertGroup>& groups) {
  std::string text = fmt::format("{:<12} {:>4} tokens:", document.category, document.seen);
  for (size_t g = 0; g < groups.size(); ++g)
    text += fmt::format(" {} {:.1f} %", groups[g].name, 100 * document.groups[g].kept);
  if (!document.nearest.empty()) text += fmt::format(", as {}", document.nearest);
  text += fmt::format(" -> {}", groups[document.chosen].name);
  if (document.rest > 0)
    text += fmt::format(", best {}, regret {:.4f}", groups[document.best].name,
                        document.regret(document.chosen));
  return text + '\n';
}

std::string figures_text(const ProbeFigures& figures, const std::vector<ExpertGroup>& groups) {
  std::string text = fmt::format(
      "\nthe best group was chosen for {} % of the documents\n"
      "regret in nats per token: {}; always {} {}, random group {}\n"
      "documents per group in %:",
      range_text(figures.hits, 100, 1), range_text(figures.regret, 1, 4), groups[figures.one].name,
      range_text(figures.regret_of_one, 1, 4), range_text(figures.regret_of_chance, 1, 4));
  for (size_t g = 0; g < groups.size(); ++g)
    text += fmt::format("{} {} {}", g == 0 ? "" : ",", groups[g].name,
                        range_text(figures.load[g], 100, 1));
  return text + '\n';
}

}  // namespace

std::optional<ProbeFigures> probe_figures(const std::vector<ProbedDocument>& documents) {
  const std::vector<const ProbedDocument*> known = with_rest(documents);
  // If no document has remaining tokens, the figures are absent instead of 0.
  if (known.empty()) return std::nullopt;
  ProbeFigures figures;
  figures.hits = mean_over(known, [](const auto& found) { return found.chosen == found.best; });
  figures.regret = mean_over(known, [](const auto& found) { return found.regret(found.chosen); });
  figures.regret_of_chance = mean_over(known, mean_regret);
  for (size_t g = 0; g < known.front()->groups.size(); ++g) {
    // The best single group in hindsight: a baseline that uses the same documents.
    const BootstrapMean regret =
        mean_over(known, [g](const auto& found) { return found.regret(g); });
    // Ties go to the first group.
    if (g == 0 || regret.mean < figures.regret_of_one.mean) {
      figures.one = g;
      figures.regret_of_one = regret;
    }
    figures.load.push_back(mean_over(known, [g](const auto& found) { return found.chosen == g; }));
  }
  return figures;
}

Result<ProbeTable> probe_table_of(const ProbeReport& report) {
  ProbeTable table{report.prefill, report.grid.layers, report.grid.experts, report.groups, {}};
  // A map sorts the categories by name, so the table does not depend on the order of documents.
  std::map<std::string, std::vector<const ProbedDocument*>> categories;
  for (const ProbedDocument* document : with_rest(report.documents))
    categories[document->category].push_back(document);
  for (const auto& [name, documents] : categories)
    table.categories.push_back(category_of(name, documents));
  if (table.categories.empty())
    return fail("probe.no_rest",
                fmt::format("no document has tokens after the first {}", report.prefill),
                "pass longer documents with --prompts or --text, or a smaller --prefill");
  return table;
}

ordered_json probe_json(const ProbeReport& report) {
  auto names = ordered_json::array(), documents = ordered_json::array();
  for (const ExpertGroup& group : report.groups) names.push_back(group.name);
  for (const ProbedDocument& document : report.documents)
    documents.push_back(document_json(document, report.groups));
  ordered_json fields = {{"score", enum_name(report.score)},
                         {"prefill", report.prefill},
                         {"groups", std::move(names)},
                         {"documents", std::move(documents)}};
  if (report.figures) fields["figures"] = figures_json(*report.figures, report.groups);
  return report_json(true, fields);
}

std::string probe_text(const ProbeReport& report) {
  std::string text;
  for (const ProbedDocument& document : report.documents)
    text += document_text(document, report.groups);
  if (report.figures) text += figures_text(*report.figures, report.groups);
  return text;
}

}  // namespace moec
