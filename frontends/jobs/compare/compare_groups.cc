#include "frontends/jobs/compare/compare_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "backends/files/digest.h"
#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/file_names.h"
#include "backends/runtime/text/prompt.h"
#include "frontends/jobs/compare/group_part.h"
#include "frontends/jobs/compare/read_groups.h"
#include "frontends/jobs/compare/same_checkpoint.h"
#include "frontends/measure/text.h"
#include "ir/base/at.h"

namespace moec {

namespace {

// Sessions of the reference and, if given, of the other export.
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
  // Two open sessions share the memory.
  if (two) session.memory_bytes /= 2;
  // Masks need graphs that can be masked; a reference next to another export stays unmasked.
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

// Reads the groups to compare with the reference.
Result<std::vector<ExpertGroup>> read_groups(const CompareGroupsOptions& options,
                                             const Manifest& compared) {
  std::vector<ExpertGroup> groups;
  // The other export with all its experts is the first entry, with an empty set.
  if (!options.against.empty()) groups.push_back({options.against, {}});
  if (options.groups.empty()) return groups;
  MOEC_ASSIGN(const std::vector<ExpertGroup> named,
              read_expert_groups(options.groups, expert_grid(compared)));
  groups.insert(groups.end(), named.begin(), named.end());
  return groups;
}

// The documents that this process runs.
struct Selection {
  std::vector<Document> documents;
  std::vector<int64_t> numbers;  // of each, among all documents
};

Selection select(std::vector<Document> all, const std::optional<JobShare>& part,
                 const std::set<int64_t>& scored) {
  Selection selection;
  for (int64_t i = 0; i < std::ssize(all); ++i) {
    if (scored.contains(i) || (part && !part->has(i))) continue;
    selection.documents.push_back(std::move(at(all, i)));
    selection.numbers.push_back(i);
  }
  return selection;
}

// Digest of everything that the scores of a document depend on, except the groups and the window.
Result<std::string> digest_of_inputs(const CompareGroupsOptions& options, const Session& reference,
                                     const std::vector<Document>& documents) {
  const EngineTraits& engine = reference.engine();
  std::string inputs =
      fmt::format("{} {} {} {}", engine.name, engine.device, enum_name(options.session.precision),
                  options.session.expert_mask);
  for (const std::string& folder : {options.reference, options.against})
    if (!folder.empty()) {
      MOEC_ASSIGN(const std::string digest,
                  digest_file(fmt::format("{}/{}", folder, kManifestJson)));
      inputs += " " + digest;
    }
  for (const Document& document : documents)
    inputs += " " + document.category + " " + digest_of_tokens(document.tokens);
  return digest_text(inputs);
}

class GroupComparer {
 public:
  GroupComparer(GroupSessions& sessions, const std::vector<ExpertGroup>& groups, bool masks)
      : sessions_(sessions), groups_(groups), masks_(masks), scorers_(groups.size()) {}

  // Adds the scores of a part's report, except of documents that an earlier part has.
  void add(const std::vector<std::vector<DocumentScore>>& part) {
    for (size_t g = 0; g < part.size(); ++g)
      for (const DocumentScore& score : part[g])
        if (!scored_.contains(score.document)) scorers_[g].add(score);
    for (const DocumentScore& score : part.front()) scored_.insert(score.document);
  }
  // Numbers of the documents of parts.
  const std::set<int64_t>& scored() const { return scored_; }

  Status run(const Text& text, const std::vector<int64_t>& numbers,
             const std::function<void(int64_t tokens)>& tell) {
    for (int64_t window = 0; window < text.windows(); ++window) {
      MOEC_TRY(add_window(text.tokens_of(window)));
      // Progress counts document tokens once, although each group runs them again.
      tell(text.used(window));
      const size_t document = at(text.parts, window).document;
      if (window + 1 < text.windows() && at(text.parts, window + 1).document == document) continue;
      for (GroupScorer& scorer : scorers_)
        scorer.end_document(numbers[document], text.categories[text.category_of[document]].name);
    }
    return {};
  }

  std::vector<ComparedGroup> result() const {
    std::vector<ComparedGroup> compared;
    for (size_t g = 0; g < groups_.size(); ++g)
      compared.push_back({groups_[g].name, to_string(groups_[g].experts), scorers_[g].result(),
                          scorers_[g].documents()});
    return compared;
  }

 private:
  Status add_window(std::span<const int64_t> tokens) {
    // The mask of the last group is still set from the previous window.
    if (masks_ && !sessions_.other) MOEC_TRY(sessions_.reference.set_mask({}));
    MOEC_ASSIGN(const Rows reference, logits_of(sessions_.reference, tokens));
    for (size_t g = 0; g < groups_.size(); ++g) {
      Session& session = sessions_.compared();
      // The entry of the other export has an empty set, which removes the mask.
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
    // Windows are independent: attention does not cross them.
    session.reset();
    return session.feed(tokens);
  }

  GroupSessions& sessions_;
  const std::vector<ExpertGroup>& groups_;
  bool masks_;
  std::vector<GroupScorer> scorers_;  // one per group
  std::set<int64_t> scored_;
};

Status run(GroupComparer& comparer, const Selection& selection, int64_t window,
           const std::function<void(uint64_t tokens, uint64_t total)>& progress) {
  if (selection.documents.empty()) return {};
  const Text text = cut_documents(selection.documents, window);
  const auto tell = [&](int64_t tokens) {
    if (progress) progress(static_cast<uint64_t>(tokens), static_cast<uint64_t>(text.count()));
  };
  // Announces the total before the first window.
  tell(0);
  return comparer.run(text, selection.numbers, tell);
}

// Adds findings and sets `passed`.
void judge_groups(GroupReport& report) {
  for (const ComparedGroup& group : report.groups)
    // The first score covers all documents, so it has all positions.
    if (const uint64_t count = group.scores.front().nonfinite; count > 0)
      report.findings.push_back(
          {Severity::error,
           "compare.nonfinite",
           fmt::format("{}: logits of {} positions are NaN or infinite", group.name, count),
           "run moec check to find weights and casts that overflow",
           {}});
  // Bootstrap bounds resample documents, and one document has nothing to resample.
  if (!report.groups.empty() && report.groups.front().scores.front().documents < 2)
    report.findings.push_back({Severity::note,
                               "compare.one_document",
                               "bounds require at least two documents, but there is one",
                               "pass several files with --text, or pass --prompts",
                               {}});
  report.passed = !has_error(report.findings);
}

}  // namespace

Result<GroupReport> compare_groups(const CompareGroupsOptions& options) {
  if (options.groups.empty() && options.against.empty())
    return fail("compare.nothing", "there is nothing to compare with the export",
                "pass --groups FILE, --against OTHER_OUT, or a second export");
  MOEC_ASSIGN(GroupSessions sessions, open_sessions(options));
  const Manifest& manifest = sessions.reference.manifest();
  MOEC_ASSIGN(const std::vector<ExpertGroup> groups,
              read_groups(options, sessions.compared().manifest()));
  MOEC_ASSIGN(std::vector<Document> documents,
              read_documents({"compare", options.reference, options.texts,
                              given_file(options.tokens_file), options.prompts},
                             export_tokenizer(options.reference, manifest)));
  GroupReport report{options.reference,
                     options.against.empty() ? options.reference : options.against,
                     std::min(options.window, sessions.longest()),
                     {},
                     options.part,
                     {},
                     {}};
  MOEC_ASSIGN(report.inputs, digest_of_inputs(options, sessions.reference, documents));
  GroupComparer comparer(sessions, groups, !options.groups.empty());
  for (const ExpertGroup& group : groups)
    report.groups.push_back({group.name, to_string(group.experts), {}, {}});
  for (const std::string& file : options.join) {
    MOEC_ASSIGN(const auto part, read_group_part(file, report, std::ssize(documents)));
    comparer.add(part);
  }
  const Selection selection = select(std::move(documents), options.part, comparer.scored());
  MOEC_TRY(run(comparer, selection, report.window, options.progress));
  report.groups = comparer.result();
  judge_groups(report);
  return report;
}

}  // namespace moec
