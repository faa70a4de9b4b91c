#include "frontends/jobs/compare/group_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

constexpr const char* kAll = "all";

// Writes null for the mean over zero tokens.
ordered_json to_json(const BootstrapMean& value, uint64_t tokens) {
  if (tokens == 0) return {{"mean", nullptr}, {"low", nullptr}, {"high", nullptr}};
  ordered_json json = {{"mean", value.mean}, {"low", nullptr}, {"high", nullptr}};
  if (!value.bounds) return json;
  json["low"] = value.bounds->low;
  json["high"] = value.bounds->high;
  return json;
}

ordered_json to_json(const CategoryScore& score) {
  return {{"category", score.category.empty() ? kAll : score.category},
          {"documents", score.documents},
          {"tokens", score.tokens},
          {"next_tokens", score.next_tokens},
          {"nonfinite", score.nonfinite},
          {"log_probability", to_json(score.log_probability, score.next_tokens)},
          {"kl", to_json(score.kl, score.tokens)},
          {"top1", to_json(score.top1, score.tokens)}};
}

// Formats mean and bounds, such as "-0.0123 [-0.0200, -0.0051]".
std::string text_of(const BootstrapMean& value, double factor, int digits) {
  std::string text = fmt::format("{:.{}f}", value.mean * factor, digits);
  if (value.bounds)
    text += fmt::format(" [{:.{}f}, {:.{}f}]", value.bounds->low * factor, digits,
                        value.bounds->high * factor, digits);
  return text;
}

std::string row_of(const std::string& name, const CategoryScore& score) {
  // Documents of one token have no next token, so their column shows "-".
  return fmt::format("{:<16} {:<12} {:>5} {:>8}  {:<28} {:<27} {}\n", name,
                     score.category.empty() ? kAll : score.category, score.documents, score.tokens,
                     score.next_tokens == 0 ? "-" : text_of(score.log_probability, 1, 4),
                     score.tokens == 0 ? "-" : text_of(score.kl, 1, 4),
                     score.tokens == 0 ? "-" : text_of(score.top1, 100, 1));
}

ordered_json document_json(const DocumentScore& score) {
  return {{"document", score.document},
          {"category", score.category},
          {"tokens", score.tokens},
          {"nonfinite", score.nonfinite},
          {"next_tokens", score.next_tokens},
          {"kl", score.kl},
          {"top1", score.top1},
          {"bits", score.bits}};
}

// The scores that --join reads (read_group_part()).
ordered_json part_json(const GroupReport& report) {
  auto documents = ordered_json::array();
  for (const ComparedGroup& group : report.groups) {
    auto scores = ordered_json::array();
    for (const DocumentScore& score : group.documents) scores.push_back(document_json(score));
    documents.push_back(std::move(scores));
  }
  return {{"index", report.part->index},
          {"count", report.part->count},
          {"inputs", report.inputs},
          {"documents", documents}};
}

}  // namespace

ordered_json group_report_json(const GroupReport& report) {
  auto groups = ordered_json::array();
  for (const ComparedGroup& group : report.groups) {
    auto scores = ordered_json::array();
    for (const CategoryScore& score : group.scores) scores.push_back(to_json(score));
    groups.push_back({{"name", group.name}, {"experts", group.experts}, {"scores", scores}});
  }
  ordered_json whole = {{"reference", report.reference},
                        {"compared", report.compared},
                        {"window", report.window},
                        {"groups", groups}};
  if (report.part) whole["part"] = part_json(report);
  return report_json(report.passed, whole, report.findings);
}

std::string group_table(const GroupReport& report) {
  std::string table =
      fmt::format("{} with {}, windows of {} tokens; bounds of 95 % over documents\n",
                  report.compared, report.reference, report.window);
  table += fmt::format("{:<16} {:<12} {:>5} {:>8}  {:<28} {:<27} {}\n", "group", "category", "docs",
                       "tokens", "log-probability of next", "KL in nats", "same top-1 in %");
  for (const ComparedGroup& group : report.groups)
    for (const CategoryScore& score : group.scores) table += row_of(group.name, score);
  for (const Diagnostic& finding : report.findings) table += render(finding) + "\n";
  return table + (report.passed ? "PASSED\n" : "FELL SHORT\n");
}

}  // namespace moec
