#include "frontends/jobs/compare/group_part.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

Status read_score(JsonFields& fields, DocumentScore& score) {
  MOEC_TRY(fields.whole("document", score.document));
  MOEC_TRY(fields.text("category", score.category));
  MOEC_TRY(fields.whole("tokens", score.tokens));
  MOEC_TRY(fields.whole("nonfinite", score.nonfinite));
  MOEC_TRY(fields.whole("next_tokens", score.next_tokens));
  MOEC_TRY(fields.number("kl", score.kl));
  MOEC_TRY(fields.number("top1", score.top1));
  MOEC_TRY(fields.number("bits", score.bits));
  return fields.finish();
}

class PartReader {
 public:
  PartReader(const JsonReport& file, const GroupReport& report, int64_t documents)
      : file_(file), report_(report), documents_(documents) {}

  Result<std::vector<std::vector<DocumentScore>>> read() {
    MOEC_ASSIGN(const JsonValue value, file_.parse());
    MOEC_ASSIGN(JsonFields fields, JsonFields::of(file_, value));
    int64_t window = 0;
    MOEC_TRY(fields.whole("window", window));
    MOEC_TRY(same("window", window == report_.window));
    MOEC_TRY(check_groups(fields));
    MOEC_ASSIGN(JsonFields part, fields.object("part"));
    std::string inputs;
    MOEC_TRY(part.text("inputs", inputs));
    MOEC_TRY(same("set of exports, texts or flags", inputs == report_.inputs));
    MOEC_ASSIGN(const JsonValue* documents, part.value("documents"));
    const JsonValue::Array* groups = documents->array();
    if (groups == nullptr || groups->size() != report_.groups.size())
      return part.bad("documents", "must have a list per group");
    std::vector<std::vector<DocumentScore>> scores;
    for (const JsonValue& group : *groups) {
      MOEC_ASSIGN(scores.emplace_back(), read_group(group));
      if (!have_same_documents(scores.front(), scores.back()))
        return part.bad("documents", "must have the same documents for each group");
    }
    return scores;
  }

 private:
  Status check_groups(JsonFields& fields) const {
    size_t count = 0;
    MOEC_TRY(fields.each("groups", [&](JsonFields& group) -> Status {
      std::string name, experts;
      MOEC_TRY(group.text("name", name));
      MOEC_TRY(group.text("experts", experts));
      const bool is_known = count < report_.groups.size() && name == report_.groups[count].name &&
                            experts == report_.groups[count].experts;
      ++count;
      return same("groups", is_known);
    }));
    return same("groups", count == report_.groups.size());
  }

  static bool have_same_documents(const std::vector<DocumentScore>& a,
                                  const std::vector<DocumentScore>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const DocumentScore& one, const DocumentScore& other) {
                        return one.document == other.document;
                      });
  }

  // Documents are in ascending order, without duplicates.
  Result<std::vector<DocumentScore>> read_group(const JsonValue& group) const {
    std::vector<DocumentScore> scores;
    int64_t least = 0;
    if (group.array() == nullptr)
      return file_.fail_at(group, file_.codes().bad_value, "documents must be lists of objects");
    for (const JsonValue& document : *group.array()) {
      MOEC_ASSIGN(JsonFields fields, JsonFields::of(file_, document, "documents"));
      MOEC_TRY(read_score(fields, scores.emplace_back()));
      const int64_t number = scores.back().document;
      if (number < least || number >= documents_)
        return fields.bad("document", fmt::format("must be from {} to {}, in ascending order",
                                                  least, documents_ - 1));
      least = number + 1;
    }
    return scores;
  }

  Status same(const char* what, bool is_same) const {
    if (is_same) return {};
    return fail("compare.part_differs", fmt::format("the part has another {} than this run", what),
                "join parts of the same exports, texts and flags", {.file = file_.file()});
  }

  const JsonReport& file_;
  const GroupReport& report_;
  const int64_t documents_;
};

}  // namespace

Result<std::vector<std::vector<DocumentScore>>> read_group_part(const std::string& path,
                                                                const GroupReport& report,
                                                                int64_t documents) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "compare.part"));
  const JsonReport file(
      text, path,
      JsonCodes::all_as("compare.part", "give the output of moec compare --part I/N --json"));
  return PartReader(file, report, documents).read();
}

}  // namespace moec
