#include "backends/runtime/viterbi.h"

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

// The sum of log probabilities and biases of a sequence; nothing if it is not legal.
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

// The largest sum over every sequence of labels.
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

TEST(Viterbi, FindsTheBestOfAllLegalSequences) {
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

TEST(Viterbi, LongRandomTextsGetLegalTags) {
  std::mt19937 random(8);
  const manifest::Tagging tagging = two_classes();
  const std::vector<Tag> tags = tags_of(tagging);
  for (int round = 0; round < 20; ++round) {
    const Rows rows = random_rows(200, 9, random);
    EXPECT_TRUE(sum_of(best_labels(rows, tags, tagging), rows, tags, tagging).has_value());
  }
}

TEST(Viterbi, BiasesMoveTheChoice) {
  manifest::Tagging tagging = tagging_of({"O", "B-a", "I-a", "E-a", "S-a"});
  const std::vector<Tag> tags = tags_of(tagging);
  // In every row O and S-a are about equally likely.
  Rows rows{5, {}};
  for (int t = 0; t < 3; ++t) rows.data.insert(rows.data.end(), {-0.5F, -9, -9, -9, -0.6F});
  EXPECT_EQ(best_labels(rows, tags, tagging), (std::vector<size_t>{0, 0, 0}));
  tagging.end_to_start = 1;
  EXPECT_EQ(best_labels(rows, tags, tagging), (std::vector<size_t>{4, 4, 4}));
  EXPECT_EQ(best_labels({5, {}}, tags, tagging), std::vector<size_t>{});
}

TEST(Viterbi, LogSoftmaxOfLargeLogits) {
  const Rows rows = log_softmax({2, {1000, 1000, -1000, 1000}});
  EXPECT_FLOAT_EQ(rows.data[0], -std::log(2.0F));
  EXPECT_FLOAT_EQ(rows.data[1], -std::log(2.0F));
  EXPECT_FLOAT_EQ(rows.data[2], -2000);
  EXPECT_FLOAT_EQ(rows.data[3], 0);
}

TEST(BioesTags, TransitionsAndTheirBiases) {
  const manifest::Tagging tagging = two_classes();
  const std::vector<Tag> tags = tags_of(tagging);
  // Rows: the label before; columns: O, B-a, I-a, E-a, S-a, B-b, I-b, E-b, S-b.
  const char* const kLegal[] = {"110011001", "001100000", "001100000", "110011001", "110011001",
                                "000000110", "000000110", "110011001", "110011001"};
  for (size_t from = 0; from < tags.size(); ++from)
    for (size_t to = 0; to < tags.size(); ++to)
      EXPECT_EQ(step_bias(tags[from], tags[to], tagging).has_value(), kLegal[from][to] == '1')
          << tagging.labels[from].name << " to " << tagging.labels[to].name;
}

TEST(BioesTags, LabelsThatAreNotTagsAreErrors) {
  for (const char* label : {"LABEL_1", "B-", "X-a", "B_a", ""}) {
    const auto refused = parse_tags(tagging_of({"O", label}));
    ASSERT_FALSE(refused.has_value()) << label;
    EXPECT_EQ(refused.error()[0].code, "run.labels");
  }
  EXPECT_FALSE(parse_tags(tagging_of({"S-a"})).has_value()) << "no O";
}

}  // namespace
}  // namespace moec
