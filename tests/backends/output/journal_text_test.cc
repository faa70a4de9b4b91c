#include "backends/output/journal_text.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

JournalPart sample_part() {
  JournalPart part{"L00.attn", {}};
  part.emitted.graphs = {{1, {"attn/L00.mlpackage/m", 12, "d0", ""}, "t1"},
                         {16, {"attn/L00.mlpackage/m", 12, "d0", ""}, "t16"}};
  part.emitted.data = {{"attn/L00.data", 99, "d1", "s1"}};
  EmittedTensor tensor;
  tensor.name = "w \"q\"";
  tensor.overflows = 3;
  tensor.nonfinite = 2;
  part.emitted.tensors = {tensor};
  part.emitted.weights = {{"norm.weight", WeightRole::plain, 0, 0, "d2"},
                          {"L05.experts.3.up.weight",
                           WeightRole::expert,
                           1,
                           3,
                           "d3",
                           {{StoredAs::codes, 0, 65536, 512, 65536, "d4"},
                            {StoredAs::scales, 0, 66048, 16, 64, "d5"}}}};
  part.emitted.weight_bytes = 77;
  return part;
}

const ExportInputs kInputs = {{"option --tokens", "1,16"}, {"file a \xff", "x"}};

TEST(JournalText, RoundTripsInputsAndParts) {
  const JournalPart part = sample_part();
  const auto read = parse_journal(journal_line(ExportInputs{{"a", "b"}}) + journal_line(part), "j");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(read->inputs, (ExportInputs{{"a", "b"}}));
  ASSERT_EQ(read->parts.size(), 1u);
  const JournalPart& found = read->parts.front();
  EXPECT_EQ(found.name, part.name);
  EXPECT_EQ(found.emitted.graphs, part.emitted.graphs);
  EXPECT_EQ(found.emitted.data, part.emitted.data);
  EXPECT_EQ(found.emitted.tensors, part.emitted.tensors);
  EXPECT_EQ(found.emitted.weights, part.emitted.weights);
  EXPECT_EQ(found.emitted.weight_bytes, part.emitted.weight_bytes);
}

TEST(JournalText, RoundTripsFileNames) {
  JournalText journal{kInputs, {"attn/L00.data", "embed.bin"}, {sample_part()}, {}};
  const auto read = parse_journal(journal_text(journal), "j");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(read->names, journal.names);
  EXPECT_EQ(read->parts.size(), 1u);
}

TEST(JournalText, RoundTripsFinishedTargets) {
  const std::string other = journal_line(kInputs) + journal_line(sample_part());
  const FinishedTarget target{"onnx", "d4", other};
  const auto read = parse_journal(journal_line(kInputs) + journal_line(target), "j");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_THAT(read->parts, testing::IsEmpty());
  EXPECT_THAT(read->finished, testing::ElementsAre(target));
}

TEST(JournalText, RoundTripsLargeFinishedTargets) {
  const FinishedTarget target{"onnx", "d4", std::string(size_t{17} << 20, 'x')};
  const auto read = parse_journal(journal_line(kInputs) + journal_line(target), "j");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(read->finished == std::vector{target}, true);
}

// File names are bytes and need not be UTF-8.
TEST(JournalText, AcceptsNamesThatAreNotUtf8) {
  const auto read = parse_journal(journal_line(kInputs), "j");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(read->inputs.size(), 2u);
}

TEST(JournalText, DropsOnlyTheDamagedPart) {
  const std::string first = journal_line(kInputs), second = journal_line(sample_part());
  for (size_t i = 0; i < second.size(); ++i) {
    std::string damaged = second;
    damaged[i] ^= 4;
    const auto read = parse_journal(first + damaged + second, "j");
    ASSERT_TRUE(read) << render(read.error());
    EXPECT_LE(read->parts.size(), 1u) << "byte " << i;
    // Only a damaged newline also loses the next line.
    EXPECT_EQ(read->parts.size(), i + 1 == second.size() ? 0u : 1u) << "byte " << i;
  }
}

TEST(JournalText, SkipsTornLines) {
  const std::string first = journal_line(kInputs), second = journal_line(sample_part());
  for (size_t size = 0; size < second.size() - 1; ++size) {
    const auto read = parse_journal(first + second.substr(0, size), "j");
    ASSERT_TRUE(read) << render(read.error());
    EXPECT_TRUE(read->parts.empty());
  }
}

TEST(JournalText, RequiresAnUndamagedFirstLine) {
  const std::string first = journal_line(kInputs);
  for (size_t size = 0; size < first.size() - 1; ++size) {
    const auto read = parse_journal(first.substr(0, size), "j");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().front().code, "export.journal");
  }
}

}  // namespace
}  // namespace moec
