// Events of a stream that arrives in pieces.
#include "frontends/jobs/route/event_reader.h"

#include <gmock/gmock.h>

#include <vector>

namespace moec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Adds pieces of `size` bytes.
std::vector<std::string> events_of(std::string_view bytes, size_t size) {
  EventReader reader;
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size(); at += size)
    EXPECT_TRUE(reader.add(bytes.substr(at, size), [&](std::string_view data) {
      events.emplace_back(data);
      return true;
    }));
  return events;
}

TEST(EventReader, SplitsEventsAtAnyByte) {
  const std::string_view bytes =
      "data: {\"a\": 1}\n\n: a comment\n\nevent: x\ndata:two\ndata: lines\n\r\ndata: "
      "[DONE]\r\n\r\n";
  for (size_t size = 1; size <= bytes.size(); ++size)
    EXPECT_THAT(events_of(bytes, size), ElementsAre("{\"a\": 1}", "two\nlines", "[DONE]")) << size;
}

TEST(EventReader, HoldsBackIncompleteEvents) {
  EXPECT_THAT(events_of("data: {\"a\"", 4), IsEmpty());
  EXPECT_THAT(events_of("data: 1\n\ndata: 2\n", 4), ElementsAre("1"));
}

TEST(EventReader, StopsAtTheCallersRequest) {
  EventReader reader;
  int taken = 0;
  EXPECT_FALSE(reader.add("data: 1\n\ndata: 2\n\n", [&](std::string_view) { return ++taken < 1; }));
  EXPECT_EQ(taken, 1);
}

TEST(EventReader, RejectsEndlessEvents) {
  EventReader reader;
  const std::string piece(EventReader::kMaxEvent / 2, 'x');
  const auto take = [](std::string_view) { return true; };
  EXPECT_TRUE(reader.add(piece, take));
  EXPECT_TRUE(reader.add(piece, take));
  EXPECT_FALSE(reader.add("x", take));
}

}  // namespace
}  // namespace moec
