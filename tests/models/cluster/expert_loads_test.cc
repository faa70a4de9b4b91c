#include "models/cluster/read_loads.h"
#include "tests/models/expect_error.h"
#include "tests/models/sample_model.h"

namespace moec {
namespace {

const std::string kComplete = "layer,expert,load\n1,0,3\n1,4,0.5\n1,2,0\n1,1,1e3\n1,3,7\n";

TEST(ExpertLoads, ReadsLoadsInAnyExpertOrder) {
  const ExpertLoads wanted = {{1, {3, 1000, 0, 7, 0.5}}};
  std::string windows;
  for (char c : kComplete) windows += c == '\n' ? "\r\n" : std::string(1, c);
  const std::string no_final_newline = kComplete.substr(0, kComplete.size() - 1);
  for (const std::string& text : {kComplete, windows, no_final_newline}) {
    auto loads = parse_expert_loads(text, "loads.csv", sample_model());
    ASSERT_TRUE(loads.has_value()) << render(loads.error());
    EXPECT_EQ(*loads, wanted);
  }
}

void refuse(const std::string& text, const std::string& code, const std::string& part,
            std::optional<uint32_t> line) {
  SCOPED_TRACE(text);
  auto loads = parse_expert_loads(text, "loads.csv", sample_model());
  expect_error(loads, code, part);
  if (loads) return;
  EXPECT_EQ(loads.error()[0].place.file, "loads.csv");
  EXPECT_EQ(loads.error()[0].place.line, line);
}

TEST(ExpertLoads, RejectsMalformedLines) {
  refuse(kComplete + "2,0,1\n", "loads.layer", "no MoE layer 2", 7);
  refuse(kComplete + "0,0,1\n", "loads.layer", "no MoE layer 0", 7);
  refuse(kComplete + "-1,0,1\n", "loads.layer", "no MoE layer -1", 7);
  refuse(kComplete + "1,5,1\n", "loads.expert", "no expert 5", 7);
  refuse(kComplete + "1,-1,1\n", "loads.expert", "no expert -1", 7);
  refuse(kComplete + "1,0,3\n", "loads.duplicate", "expert 0 of layer 1", 7);
  for (const char* value : {"-0.1", "inf", "nan", "-inf"})
    refuse(std::string("layer,expert,load\n1,0,") + value, "loads.value", "the load is", 2);
  for (const char* line : {"", "1", "1,2", "1,2,", "1,2,3,4", "1,2,x", "1.5,2,3", " 1,2,3",
                           "1,2,3 ", "99999999999999999999,0,1", "1,2,1e999"})
    refuse(std::string("layer,expert,load\n") + line + "\n", "loads.line", "0,17,132.5", 2);
}

TEST(ExpertLoads, RequiresTheHeaderAndEveryExpert) {
  for (const char* text : {"", "\n", "1,0,3\n", "expert,layer,load\n"})
    refuse(text, "loads.header", "layer,expert,load", 1);
  refuse("layer,expert,load\n1,0,1\n1,1,1\n1,2,1\n1,4,1\n", "loads.missing", "expert 3 of layer 1",
         std::nullopt);
}

}  // namespace
}  // namespace moec
