#include "ir/base/json.h"

#include "tests/models/expect_error.h"

namespace moec {
namespace {

const JsonSource kSource{.file = "x.json"};

Result<JsonValue> parse(std::string_view text, JsonLimits limits = {}) {
  return parse_json(text, kSource, limits);
}

TEST(Json, ReadsValuesAndSortsKeys) {
  auto value = parse(R"({"b": [1, -2, 3.5, "x", true, null], "a": {}})");
  ASSERT_TRUE(value.has_value()) << render(value.error());
  EXPECT_EQ(to_string(*value), R"({"a": {}, "b": [1, -2, 3.5, "x", true, null]})");
  EXPECT_EQ(*(*value->find("b")->array())[1].integer(), -2);
  EXPECT_EQ(value->find("c"), nullptr);
  EXPECT_EQ((*value->find("b")->array())[2].number(), 3.5);
  EXPECT_EQ((*value->find("b")->array())[2].integer(), nullptr);
}

TEST(Json, ReadsIntegersExactly) {
  auto value = parse("[9007199254740993, -9223372036854775808, 9223372036854775807]");
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(*(*value->array())[0].integer(), 9007199254740993);
  EXPECT_EQ(*(*value->array())[1].integer(), INT64_MIN);
  EXPECT_EQ(*(*value->array())[2].integer(), INT64_MAX);
}

TEST(Json, RejectsIntegersThatDoNotFit) {
  expect_error(parse("[9223372036854775808]"), "json.number", "9223372036854775808");
  expect_error(parse("[123456789012345678901234567890]"), "json.number", "does not fit");
}

TEST(Json, RejectsDuplicateKeysAtAnyDepth) {
  auto value = parse("{\"a\": 1,\n \"b\": {\"x\": 1, \"x\": 2}}");
  expect_error(value, "json.duplicate_key", "the key \"x\" occurs twice");
  EXPECT_EQ(value.error()[0].place.file, "x.json");
  EXPECT_EQ(value.error()[0].place.line, 2u);
  expect_error(parse(R"({"a": 1, "a": 1})"), "json.duplicate_key", "\"a\"");
}

TEST(Json, NamesLineAndColumnOfErrors) {
  auto value = parse("{\"a\": 1,\n \"b\" 2}");
  expect_error(value, "json.syntax", "syntax error");
  EXPECT_EQ(value.error()[0].place.line, 2u);
  EXPECT_EQ(value.error()[0].place.column, 8u);  // after the last token
  expect_error(parse(""), "json.syntax", "");
  expect_error(parse("{} x"), "json.syntax", "");
  expect_error(parse("{\"a\": NaN}"), "json.syntax", "");
  expect_error(parse("\"\xff\""), "json.syntax", "UTF-8");
}

TEST(Json, RejectsNulBytesAnywhere) {
  for (const std::string& text :
       {std::string("{}\0", 3), std::string("{}\0x", 4), std::string("\0{}", 3),
        std::string("[1,\0 2]", 7), std::string("\"a\0\"", 4), std::string(1, '\0')}) {
    auto value = parse(text);
    expect_error(value, "json.syntax", "NUL");
    EXPECT_EQ(value.error()[0].place.offset, text.find('\0'));
  }
}

TEST(Json, ReadsLongIntegersAsDoubles) {
  const char* text = "[1000000000000000019884624838656, 18446744073709551615, 7]";
  const auto value = parse_json(text, {}, {.long_integers = true});
  ASSERT_TRUE(value) << render(value.error());
  EXPECT_EQ((*value->array())[0].number(), 1e30);
  EXPECT_EQ((*value->array())[1].number(), 0x1p64);
  EXPECT_EQ(*(*value->array())[2].integer(), 7);
  EXPECT_EQ(parse_json(text, {}).error()[0].code, "json.number");
}

TEST(Json, RejectsNumbersOutOfRange) {
  expect_error(parse("[1e999]"), "json.syntax", "1e999");
  expect_error(parse("[-1e999]"), "json.syntax", "");
  expect_error(parse("[01]"), "json.syntax", "");
}

TEST(Json, ReportsEndOffsetsOfValues) {
  const std::string text = "{\"a\": 12\n, \"b\": [1.5, 7], \"c\": \"x\"}";
  auto value = parse(text);
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->find("a")->offset, text.find('\n'));
  EXPECT_EQ((*value->find("b")->array())[0].offset, text.find(", 7"));
  EXPECT_EQ((*value->find("b")->array())[1].offset, text.find(']'));
  EXPECT_EQ(value->find("b")->offset, text.find(']') + 1);
  EXPECT_EQ(value->find("c")->offset, text.size() - 1);
  EXPECT_EQ(parse("12")->offset, 2u);
}

TEST(Json, RejectsDocumentsOverTheLimits) {
  expect_error(parse("[[[[1]]]]", {.depth = 3}), "json.depth", "deeper than 3");
  EXPECT_TRUE(parse("[[[1]]]", {.depth = 3}).has_value());
  expect_error(parse("[1,2,3]", {.values = 3}), "json.values", "more than 3");
  EXPECT_TRUE(parse("[1,2]", {.values = 3}).has_value());
  expect_error(parse("[1,2]", {.bytes = 4}), "json.too_long", "5 bytes");
}

TEST(Json, RejectsDeepNestingWithoutStackOverflow) {
  expect_error(parse(std::string(1'000'000, '[')), "json.depth", "");
}

TEST(JsonMembers, VisitsEachMemberInOrder) {
  std::string seen;
  auto visit = [&](const std::string& key, const JsonValue& value) -> Status {
    seen += key + "=" + to_string(value) + ";";
    return {};
  };
  ASSERT_TRUE(parse_json_members(R"({"b": {"x": [1]}, "a": 2})", kSource, {}, visit).has_value());
  EXPECT_EQ(seen, R"(b={"x": [1]};a=2;)");
}

TEST(JsonMembers, RejectsDuplicatesAndNonObjects) {
  auto visit = [](const std::string&, const JsonValue&) -> Status { return {}; };
  expect_error(parse_json_members(R"({"a": 1, "a": 2})", kSource, {}, visit), "json.duplicate_key",
               "\"a\"");
  expect_error(parse_json_members(R"({"b": {"a": 1, "a": 2}})", kSource, {}, visit),
               "json.duplicate_key", "\"a\"");
  expect_error(parse_json_members("[1]", kSource, {}, visit), "json.not_object", "");
  expect_error(parse_json_members("3", kSource, {}, visit), "json.not_object", "");
}

TEST(JsonMembers, StopsAtAFailingVisitor) {
  int calls = 0;
  auto visit = [&](const std::string&, const JsonValue&) -> Status {
    ++calls;
    return fail("test.stop", "stop");
  };
  expect_error(parse_json_members(R"({"a": 1, "b": 2})", kSource, {}, visit), "test.stop", "stop");
  EXPECT_EQ(calls, 1);
}

TEST(Printable, ReplacesControlsAndCutsAtCharacters) {
  EXPECT_EQ(printable("a\x1b[2J\n"), "a?[2J?");
  EXPECT_EQ(printable("abcdef", 3), "abc…");
  EXPECT_EQ(printable("aé", 2), "a…");  // é has two bytes
}

}  // namespace
}  // namespace moec
