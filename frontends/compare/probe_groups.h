// Chooses, for the beginning of a text, the group of experts that is to serve the rest of it, and
// measures on texts how good such choices are.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session.h"
#include "ir/base/bootstrap.h"

namespace moec {

struct ProbeOptions {
  std::string model;               // an exported folder
  std::string groups;              // a JSON file (ir/plan/expert_groups.h)
  std::string prompt;              // a text without a continuation; empty: documents
  std::string prompts;             // a suite: "default", or a file; empty: texts or tokens
  std::vector<std::string> texts;  // files, each a document
  std::string tokens_file;         // or token ids, one document
  int64_t prefill = 32;            // tokens that the choice sees
  int64_t window = 256;            // tokens of a document that run, at most what the export takes
  SessionOptions session;
  // Told of the documents that are done, and of all. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// What the choice sees of a group, and how the group does on the rest of the document.
struct ProbedGroup {
  double score = 0;  // share of the routing mass of the first tokens that its experts have
  double log_probability = 0;  // mean of the tokens behind them, with its experts alone
};

struct ProbedDocument {
  std::string category;
  // Tokens. Without a rest, as with models that label tokens, nothing is known of how a group does.
  int64_t seen = 0, rest = 0;
  std::vector<ProbedGroup> groups;
  size_t chosen = 0, best = 0;  // by score, and by log-probability; ties go to the first
  // Nats a token that the chosen group loses against the best one.
  double regret() const { return groups[best].log_probability - groups[chosen].log_probability; }
};

struct ProbeReport {
  std::vector<std::string> groups;
  std::vector<ProbedDocument> documents;
  // Over the documents with a rest: how often the best group was chosen, the mean regret of the
  // choice, of always the same group (the best such), and of any group by chance. Nothing: there
  // is no such document.
  struct Figures {
    BootstrapMean hits, regret;
    double regret_of_one = 0, regret_of_chance = 0;
  };
  std::optional<Figures> figures;
};

// The whole model sees the first tokens of each document; where more tokens follow, the document
// runs once with each group alone. Errors:
// probe.no_routing where the graphs do not name their routing weights, probe.nonfinite; those of
// read_expert_groups(), of the documents as compare.…, and of Session.
Result<ProbeReport> probe_groups(const ProbeOptions& options);

nlohmann::ordered_json probe_json(const ProbeReport& report);
// A table for people.
std::string probe_table(const ProbeReport& report);

}  // namespace moec
