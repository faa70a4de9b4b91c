#include "backends/runtime/text/viterbi.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace moec {
namespace {

manifest::Tagging tagging_of(const std::vector<std::string>& labels) {
  manifest::Tagging tagging;
  for (const std::string& label : labels) tagging.labels.push_back({label});
  return tagging;
}

manifest::Tagging two_classes() {
  return tagging_of({"O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-b", "S-b"});
}

std::vector<Tag> tags_of(const manifest::Tagging& tagging) {
  auto tags = parse_tags(tagging);
  EXPECT_TRUE(tags.has_value()) << render(tags.error());
  return tags.value_or(std::vector<Tag>{});
}

Rows random_rows(int64_t rows, int64_t columns, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 2);
  Rows logits{columns, {}};
  for (int64_t i = 0; i < rows * columns; ++i) logits.data.push_back(normal(random));
  return log_softmax(logits);
}

// Sums the log probabilities and biases of a sequence; empty if the sequence is illegal.
std::optional<double> sum_of(const std::vector<size_t>& labels, const Rows& rows,
                             const std::vector<Tag>& tags, const manifest::Tagging& tagging) {
  if (!may_begin(tags[labels.front()]) || !may_end(tags[labels.back()])) return std::nullopt;
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    sum += rows.row(static_cast<int64_t>(i))[labels[i]];
    if (i == 0) continue;
    const auto bias = step_bias(tags[labels[i - 1]], tags[labels[i]], tagging);
    if (!bias) return std::nullopt;
    sum += *bias;
  }
  return sum;
}

// Largest sum over all legal label sequences.
double best_of_all(const Rows& rows, const std::vector<Tag>& tags,
                   const manifest::Tagging& tagging) {
  const size_t count = rows.data.size() / tags.size();
  std::vector<size_t> labels(count, 0);
  double best = -INFINITY;
  for (;;) {
    best = std::max(best, sum_of(labels, rows, tags, tagging).value_or(-INFINITY));
    size_t at = 0;
    while (at < count && ++labels[at] == tags.size()) labels[at++] = 0;
    if (at == count) return best;
  }
}

TEST(Viterbi, FindsTheBestLegalSequence) {
  std::mt19937 random(7);
  manifest::Tagging tagging = two_classes();
  const std::vector<Tag> tags = tags_of(tagging);
  for (int round = 0; round < 12; ++round) {
    if (round == 6) {
      tagging.stay_outside = -1;
      tagging.outside_to_start = 0.5;
      tagging.inside_to_inside = 1.5;
      tagging.inside_to_end = -0.75;
      tagging.end_to_outside = -2;
      tagging.end_to_start = 1;
    }
    const Rows rows = random_rows(1 + round % 5, 9, random);
    const auto found = best_labels(rows, tags, tagging);
    const auto sum = sum_of(found, rows, tags, tagging);
    ASSERT_TRUE(sum.has_value()) << "not legal";
    EXPECT_NEAR(*sum, best_of_all(rows, tags, tagging), 1e-9);
  }
}

TEST(Viterbi, LabelsLongRandomTextsLegally) {
  std::mt19937 random(8);
  const manifest::Tagging tagging = two_classes();
  const std::vector<Tag> tags = tags_of(tagging);
  for (int round = 0; round < 20; ++round) {
    const Rows rows = random_rows(200, 9, random);
    EXPECT_TRUE(sum_of(best_labels(rows, tags, tagging), rows, tags, tagging).has_value());
  }
}

TEST(Viterbi, AppliesBiases) {
  manifest::Tagging tagging = tagging_of({"O", "B-a", "I-a", "E-a", "S-a"});
  const std::vector<Tag> tags = tags_of(tagging);
  // O and S-a are about equally likely in every row.
  Rows rows{5, {}};
  for (int t = 0; t < 3; ++t) rows.data.insert(rows.data.end(), {-0.5F, -9, -9, -9, -0.6F});
  EXPECT_EQ(best_labels(rows, tags, tagging), (std::vector<size_t>{0, 0, 0}));
  tagging.end_to_start = 1;
  EXPECT_EQ(best_labels(rows, tags, tagging), (std::vector<size_t>{4, 4, 4}));
  EXPECT_EQ(best_labels({5, {}}, tags, tagging), std::vector<size_t>{});
}

TEST(Viterbi, AvoidsOverflowInLogSoftmax) {
  const Rows rows = log_softmax({2, {1000, 1000, -1000, 1000}});
  EXPECT_FLOAT_EQ(rows.data[0], -std::log(2.0F));
  EXPECT_FLOAT_EQ(rows.data[1], -std::log(2.0F));
  EXPECT_FLOAT_EQ(rows.data[2], -2000);
  EXPECT_FLOAT_EQ(rows.data[3], 0);
  EXPECT_TRUE(std::isfinite(log_softmax({2, {3e38F, -3e38F}}).data[1]));
}

// Rows: previous label; columns: next label.
struct SchemeCase {
  const char* name;
  std::vector<std::string> labels;
  std::vector<std::string> legal;
  std::string first, last;  // '1' per label that may begin or end a sequence
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const SchemeCase& scheme, std::ostream* out) { *out << scheme.name; }

class SpanTags : public testing::TestWithParam<SchemeCase> {};

TEST_P(SpanTags, AllowOnlyTransitionsOfTheScheme) {
  const SchemeCase& scheme = GetParam();
  const manifest::Tagging tagging = tagging_of(scheme.labels);
  const std::vector<Tag> tags = tags_of(tagging);
  ASSERT_EQ(tags.size(), scheme.legal.size());
  for (size_t from = 0; from < tags.size(); ++from) {
    EXPECT_EQ(may_begin(tags[from]), scheme.first[from] == '1') << scheme.labels[from];
    EXPECT_EQ(may_end(tags[from]), scheme.last[from] == '1') << scheme.labels[from];
    for (size_t to = 0; to < tags.size(); ++to)
      EXPECT_EQ(step_bias(tags[from], tags[to], tagging).has_value(), scheme.legal[from][to] == '1')
          << scheme.labels[from] << " to " << scheme.labels[to];
  }
}

TEST_P(SpanTags, FindTheBestLegalSequence) {
  std::mt19937 random(9);
  manifest::Tagging tagging = tagging_of(GetParam().labels);
  const std::vector<Tag> tags = tags_of(tagging);
  tagging.inside_to_inside = 0.5;
  tagging.end_to_start = -0.5;
  for (int64_t length = 1; length <= 4; ++length) {
    const Rows rows = random_rows(length, std::ssize(tags), random);
    const auto sum = sum_of(best_labels(rows, tags, tagging), rows, tags, tagging);
    ASSERT_TRUE(sum.has_value()) << "not legal";
    EXPECT_NEAR(*sum, best_of_all(rows, tags, tagging), 1e-9);
  }
}

const std::vector<std::string> kEndings = {"110011001", "001100000", "001100000",
                                           "110011001", "110011001", "000000110",
                                           "000000110", "110011001", "110011001"};

INSTANTIATE_TEST_SUITE_P(
    Schemes, SpanTags,
    testing::Values(
        SchemeCase{"io", {"I-a", "O", "I-b"}, {"111", "111", "111"}, "111", "111"},
        SchemeCase{"bio",
                   {"O", "B-a", "I-a", "B-b", "I-b"},
                   {"11010", "11110", "11110", "11011", "11011"},
                   "11010",
                   "11111"},
        SchemeCase{"single_tokens", {"O", "B-a", "B-b"}, {"111", "111", "111"}, "111", "111"},
        SchemeCase{
            "iob1", {"O", "B-a", "I-a", "I-b"}, {"1111", "1111", "1111", "1111"}, "1111", "1111"},
        SchemeCase{"bioes",
                   {"O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-b", "S-b"},
                   kEndings,
                   "110011001",
                   "100110011"},
        SchemeCase{"bilou",
                   {"O", "B-a", "I-a", "L-a", "U-a", "B-b", "I-b", "L-b", "U-b"},
                   kEndings,
                   "110011001",
                   "100110011"}),
    [](const auto& each) { return each.param.name; });

TEST(SpanTagBiases, ApplyToEachTransition) {
  manifest::Tagging tagging = tagging_of({"O", "B-a", "I-a", "B-b", "I-b"});
  const std::vector<Tag> tags = tags_of(tagging);
  tagging = {tagging.labels, 1, 2, 3, 4, 5, 6};
  const auto bias = [&](size_t from, size_t to) {
    return *step_bias(tags[from], tags[to], tagging);
  };
  EXPECT_EQ(bias(0, 0), tagging.stay_outside);
  EXPECT_EQ(bias(0, 1), tagging.outside_to_start);
  EXPECT_EQ(bias(1, 2), tagging.inside_to_inside);
  EXPECT_EQ(bias(2, 2), tagging.inside_to_inside);
  EXPECT_EQ(bias(1, 0), tagging.end_to_outside);
  EXPECT_EQ(bias(2, 1), tagging.end_to_start);
  EXPECT_EQ(bias(2, 3), tagging.end_to_start);
  const manifest::Tagging endings = tagging_of({"O", "B-a", "E-a"});
  EXPECT_EQ(step_bias(tags_of(endings)[1], tags_of(endings)[2], tagging), tagging.inside_to_end);
}

TEST(SpanTagErrors, RejectsUnknownLabels) {
  for (const char* label : {"LABEL_1", "B-", "X-a", "B_a", "", "o", "NAME"}) {
    const auto refused = parse_tags(tagging_of({"O", label}));
    ASSERT_FALSE(refused.has_value()) << label;
    EXPECT_EQ(refused.error()[0].code, "tagging.labels");
  }
  EXPECT_FALSE(parse_tags(tagging_of({"S-a"})).has_value()) << "no O";
}

// Labels that no legal sequence contains would always be reported as outside.
TEST(SpanTagErrors, RejectsMixedSchemesAndIncompleteClasses) {
  const std::vector<std::vector<std::string>> refused = {
      {"O", "B-a", "E-a", "U-a"}, {"O", "S-a", "B-b", "L-b"}, {"O", "S-a", "B-b", "I-b"},
      {"O", "S-a", "I-b"},        {"O", "S-a", "E-a"},        {"O", "U-a", "B-a", "I-a"}};
  for (const std::vector<std::string>& labels : refused) {
    const auto tags = parse_tags(tagging_of(labels));
    ASSERT_FALSE(tags.has_value()) << labels[1] << " " << labels[2];
    EXPECT_EQ(tags.error()[0].code, "tagging.labels");
  }
}

}  // namespace
}  // namespace moec
