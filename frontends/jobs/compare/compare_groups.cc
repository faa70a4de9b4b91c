#include "frontends/jobs/compare/compare_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "frontends/jobs/compare/compare_documents.h"
#include "frontends/jobs/compare/read_groups.h"
#include "frontends/jobs/compare/same_checkpoint.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// The sessions: of the reference, and of the other export where there is one.
struct GroupSessions {
  Session reference;
  std::optional<Session> other;

  Session& compared() { return other ? *other : reference; }
  int64_t longest() const {
    const int64_t longest = longest_window(reference.manifest());
    return other ? std::min(longest, longest_window(other->manifest())) : longest;
  }
};

Result<GroupSessions> open_sessions(const CompareGroupsOptions& options) {
  const bool two = !options.against.empty();
  SessionOptions session = options.session;
  if (two) session.memory_bytes /= 2;
  session.maskable = !two && !options.groups.empty();
  MOEC_ASSIGN(Session reference, Session::open(options.reference, read_shard, session));
  GroupSessions sessions{std::move(reference), std::nullopt};
  if (!two) return sessions;
  session.maskable = !options.groups.empty();
  MOEC_ASSIGN(Session other, Session::open(options.against, read_shard, session));
  MOEC_TRY(check_same_checkpoint({options.reference, sessions.reference.manifest()},
                                 {options.against, other.manifest()}));
  sessions.other.emplace(std::move(other));
  return sessions;
}

// What is compared with the reference: a name, and the experts that tokens can choose.
Result<std::vector<ExpertGroup>> read_groups(const CompareGroupsOptions& options,
                                             const Manifest& compared) {
  std::vector<ExpertGroup> groups;
  if (!options.against.empty()) groups.push_back({options.against, {}});
  if (options.groups.empty()) return groups;
  MOEC_ASSIGN(const std::vector<ExpertGroup> named,
              read_expert_groups(options.groups, expert_grid(compared)));
  groups.insert(groups.end(), named.begin(), named.end());
  return groups;
}

class GroupComparer {
 public:
  GroupComparer(GroupSessions& sessions, const std::vector<ExpertGroup>& groups, bool masks)
      : sessions_(sessions), groups_(groups), masks_(masks), scorers_(groups.size()) {}

  // Windows of a document, the last of which may be shorter.
  Status add_document(const CompareDocument& document, int64_t window,
                      const std::function<void(int64_t tokens)>& tell) {
    const std::span<const int64_t> tokens(document.tokens);
    for (int64_t begin = 0; begin < std::ssize(tokens); begin += window) {
      const int64_t count = std::min(window, std::ssize(tokens) - begin);
      MOEC_TRY(add_window(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count))));
      tell(count);
    }
    for (GroupScorer& scorer : scorers_) scorer.end_document(document.category);
    return {};
  }

  std::vector<ComparedGroup> result() const {
    std::vector<ComparedGroup> compared;
    for (size_t g = 0; g < groups_.size(); ++g)
      compared.push_back({groups_[g].name, to_string(groups_[g].experts), scorers_[g].result()});
    return compared;
  }

 private:
  Status add_window(std::span<const int64_t> tokens) {
    if (masks_ && !sessions_.other) MOEC_TRY(sessions_.reference.set_mask({}));
    MOEC_ASSIGN(const Rows reference, logits_of(sessions_.reference, tokens));
    for (size_t g = 0; g < groups_.size(); ++g) {
      Session& session = sessions_.compared();
      if (masks_) MOEC_TRY(session.set_mask(groups_[g].experts));
      MOEC_ASSIGN(const Rows compared, logits_of(session, tokens));
      const bool predicts = !session.manifest().tagging;
      for (int64_t t = 0; t < reference.count(); ++t) {
        std::optional<int64_t> next;
        if (predicts && t + 1 < std::ssize(tokens)) next = at(tokens, t + 1);
        scorers_[g].add(reference.row(t), compared.row(t), next);
      }
    }
    return {};
  }

  static Result<Rows> logits_of(Session& session, std::span<const int64_t> tokens) {
    session.reset();
    return session.feed(tokens);
  }

  GroupSessions& sessions_;
  const std::vector<ExpertGroup>& groups_;
  bool masks_;
  std::vector<GroupScorer> scorers_;  // by group
};

// Adds what was found odd, and whether all is well.
void judge_groups(GroupReport& report) {
  for (const ComparedGroup& group : report.groups)
    if (const uint64_t count = group.scores.front().nonfinite; count > 0)
      report.findings.push_back(
          {Severity::error,
           "compare.nonfinite",
           fmt::format("{}: logits of {} positions are NaN or infinite", group.name, count),
           "moec check tells of weights and casts that overflow",
           {}});
  if (!report.groups.empty() && report.groups.front().scores.front().documents < 2)
    report.findings.push_back(
        {Severity::note,
         "compare.one_document",
         "a single document tells nothing about how far other ones may be off",
         "give several files with --text, or --prompts",
         {}});
  report.passed = !has_error(report.findings);
}

}  // namespace

Result<GroupReport> compare_groups(const CompareGroupsOptions& options) {
  if (options.groups.empty() && options.against.empty())
    return fail("compare.nothing", "there is nothing to compare the export with",
                "give --groups FILE, --against OTHER_OUT, or a second export");
  MOEC_ASSIGN(GroupSessions sessions, open_sessions(options));
  const Manifest& manifest = sessions.reference.manifest();
  MOEC_ASSIGN(const std::vector<ExpertGroup> groups,
              read_groups(options, sessions.compared().manifest()));
  MOEC_ASSIGN(
      const std::vector<CompareDocument> documents,
      read_documents({options.prompts, options.texts, options.tokens_file, options.reference},
                     {manifest.tokenizer, manifest.model.vocab}));
  GroupReport report{options.reference,
                     options.against.empty() ? options.reference : options.against,
                     std::min(options.window, sessions.longest()),
                     {},
                     {}};
  uint64_t total = 0;
  for (const CompareDocument& document : documents) total += document.tokens.size();
  const auto tell = [&](int64_t tokens) {
    if (options.progress)
      options.progress(static_cast<uint64_t>(tokens) * sizeof(int64_t), total * sizeof(int64_t));
  };
  tell(0);
  GroupComparer comparer(sessions, groups, !options.groups.empty());
  for (const CompareDocument& document : documents)
    MOEC_TRY(comparer.add_document(document, report.window, tell));
  report.groups = comparer.result();
  judge_groups(report);
  return report;
}

}  // namespace moec
