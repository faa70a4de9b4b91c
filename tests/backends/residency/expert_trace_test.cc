#include "backends/residency/expert_trace.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/models/expect_error.h"

namespace moec {
namespace {

const std::vector<TraceRow> kRows = {
    {0, 0, 3, 0.625F}, {0, 0, 7, 0.1F}, {65535, 0, 4095, -1e-30F}, {0, 1, 3, 1}};

std::string trace_bytes(TraceForm form, const std::vector<TraceRow>& rows) {
  const std::string path = testing::TempDir() + "/t." + std::string(enum_name(form));
  TraceWriter writer = TraceWriter::open(path, form).value();
  for (const TraceRow& row : rows) writer.add(row);
  EXPECT_TRUE(writer.close().has_value());
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

TEST(ExpertTrace, RoundTripsCsvAndBinary) {
  EXPECT_EQ(parse_trace(trace_bytes(TraceForm::csv, kRows), "t").value(), kRows);
  EXPECT_EQ(parse_trace(trace_bytes(TraceForm::binary, kRows), "t").value(), kRows);
}

TEST(ExpertTrace, WritesTheDocumentedBytes) {
  EXPECT_EQ(trace_bytes(TraceForm::csv, {kRows[0], kRows[1]}),
            "layer,token,expert,weight\n0,0,3,0.625\n0,0,7,0.1\n");
  const std::string bytes = trace_bytes(TraceForm::binary, {{2, 1, 3, 1}, {2, 1, 4, 0}});
  EXPECT_EQ(bytes, std::string("MOECTRC\n\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
                               "\1\0\0\0\2\0\2\0\3\0\0\0\x80\x3f\4\0\0\0\0\0",
                               44));
  EXPECT_EQ(trace_form_of("a/b.moetrace"), TraceForm::binary);
  EXPECT_EQ(trace_form_of("a/b.bin"), TraceForm::binary);
  EXPECT_EQ(trace_form_of("a/b.csv"), TraceForm::csv);
}

TEST(ExpertTrace, SortsRowsByTokenFirst) {
  EXPECT_EQ(parse_trace("layer,token,expert,weight\r\n1,1,2,1\r\n0,1,2,1\r\n0,0,9,1", "t").value(),
            (std::vector<TraceRow>{{0, 0, 9, 1}, {0, 1, 2, 1}, {1, 1, 2, 1}}));
}

TEST(ExpertTrace, ReportsLinesOfInvalidRows) {
  const std::string head = "layer,token,expert,weight\n";
  for (const char* row : {"0,0,1", "0,0,1,x", "0,0,1,1,", "0,0,1,nan", "-1,0,1,1", "0,-1,1,1",
                          "0,0,4096,1", "65536,0,1,1", "0,99999999999,1,1", " 0,0,1,1"}) {
    const auto rows = parse_trace(head + "0,0,2,1\n" + row + "\n", "t.csv");
    expect_error(rows, "trace.row", "layer, token, expert");
    EXPECT_EQ(rows.error()[0].place.line, 3u) << row;
  }
  expect_error(parse_trace("layer,expert\n0,1\n", "t"), "trace.row", "'layer,expert'");
  expect_error(parse_trace(head, "t"), "trace.empty", "");
  expect_error(parse_trace(head + "0,0,1,1\n0,0,1,0.5\n", "t"), "trace.twice",
               "expert 1 of layer 0");
  expect_error(read_trace("/nonexistent/t.csv"), "trace.file", "");
}

TEST(ExpertTrace, RejectsDamagedBinaryFiles) {
  const std::string bytes = trace_bytes(TraceForm::binary, kRows);
  for (size_t size = 8; size < bytes.size(); ++size)
    expect_error(parse_trace(bytes.substr(0, size), "t"), "trace.truncated", "");
  expect_error(parse_trace(bytes + "x", "t"), "trace.truncated", "");
  std::string other = bytes;
  other[8] = 2;
  expect_error(parse_trace(other, "t"), "trace.version", "version 2");
  other = bytes;
  std::fill_n(other.begin() + 16, 8, '\xff');
  expect_error(parse_trace(other, "t"), "trace.unfinished", "stopped");
  other = bytes;
  std::fill_n(other.begin() + 34, 4, '\xff');  // weight of the first row
  expect_error(parse_trace(other, "t"), "trace.row", "out of range");
}

TEST(ExpertTrace, RejectsMissingFolders) {
  expect_error(TraceWriter::open("/nonexistent/t.csv", TraceForm::csv), "trace.write", "folder");
}

}  // namespace
}  // namespace moec
