#include "ir/base/json_fields.h"

#include <array>

#include "tests/models/expect_error.h"

namespace moec {
namespace {

enum class Fruit : uint8_t { apple, pear };
constexpr std::array<std::string_view, 2> enum_names(Fruit) { return {"apple", "pear"}; }

// Returns the fields of the object in a JSON text.
class Sample {
 public:
  explicit Sample(std::string text)
      : text_(std::move(text)),
        report_(text_, "x.json", JsonCodes::by_prefix("x", "mend it")),
        root_(report_.parse().value()),
        fields(JsonFields::of(report_, root_).value()) {}

 private:
  std::string text_;
  JsonReport report_;
  JsonValue root_;

 public:
  JsonFields fields;
};

TEST(JsonFields, ReadsEachType) {
  Sample sample(R"({"text": "a", "on": true, "count": 7, "part": 0.5, "whole": 3,
                    "sizes": [1, -2], "parts": [1, 0.5], "names": ["b"], "fruit": "pear"})");
  std::string text;
  bool on = false;
  int64_t count = 0, positive = 0;
  uint8_t small = 0;
  double part = 0, whole = 0;
  std::vector<int64_t> sizes;
  std::vector<double> parts;
  std::vector<std::string> names;
  Fruit fruit = Fruit::apple;
  JsonFields& fields = sample.fields;
  ASSERT_TRUE(fields.text("text", text));
  ASSERT_TRUE(fields.boolean("on", on));
  ASSERT_TRUE(fields.integer("count", count));
  ASSERT_TRUE(fields.positive("count", positive));
  ASSERT_TRUE(fields.whole("count", small));
  ASSERT_TRUE(fields.number("part", part));
  ASSERT_TRUE(fields.number("whole", whole));
  ASSERT_TRUE(fields.integers("sizes", sizes));
  ASSERT_TRUE(fields.numbers("parts", parts));
  ASSERT_TRUE(fields.texts("names", names));
  ASSERT_TRUE(fields.choice("fruit", fruit));
  EXPECT_TRUE(fields.finish());
  EXPECT_EQ(text, "a");
  EXPECT_TRUE(on);
  EXPECT_EQ(count, 7);
  EXPECT_EQ(positive, 7);
  EXPECT_EQ(small, 7);
  EXPECT_EQ(part, 0.5);
  EXPECT_EQ(whole, 3);
  EXPECT_EQ(sizes, (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(parts, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(names, std::vector<std::string>{"b"});
  EXPECT_EQ(fruit, Fruit::pear);
}

TEST(JsonFields, NamesFieldAndPlaceInErrors) {
  Sample sample("{\n  \"a\": \"one\"\n}");
  int64_t number = 0;
  const Status wrong = sample.fields.integer("a", number);
  expect_error(wrong, "x.bad_value", "field \"a\" must be an integer");
  EXPECT_EQ(wrong.error()[0].next_step, "mend it");
  EXPECT_EQ(wrong.error()[0].place.file, "x.json");
  EXPECT_EQ(wrong.error()[0].place.line, 2u);
  expect_error(sample.fields.integer("b", number), "x.missing_field", "field \"b\" is missing");
}

TEST(JsonFields, RejectsValuesOfWrongTypes) {
  Sample sample(R"({"half": 0.5, "one": 1, "minus": -1, "big": 256, "none": null, "list": [1],
                    "empty": [], "text_list": ["1"], "fruit": "plum"})");
  JsonFields& fields = sample.fields;
  std::string text;
  bool on = false;
  int64_t number = 0;
  uint8_t small = 0;
  double real = 0;
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  std::vector<double> reals;
  Fruit fruit = Fruit::apple;
  expect_error(fields.text("one", text), "x.bad_value", "a string");
  expect_error(fields.boolean("one", on), "x.bad_value", "true or false");
  expect_error(fields.integer("half", number), "x.bad_value", "an integer");
  expect_error(fields.integer("none", number), "x.bad_value", "an integer");
  expect_error(fields.number("none", real), "x.bad_value", "a number");
  expect_error(fields.positive("minus", number), "x.bad_value", "above 0");
  expect_error(fields.whole("minus", number), "x.bad_value", "from 0");
  expect_error(fields.whole("big", small), "x.bad_value", "from 0 to 255");
  expect_error(fields.texts("list", texts), "x.bad_value", "strings");
  expect_error(fields.texts("empty", texts), "x.bad_value", "at least one");
  expect_error(fields.integers("one", numbers), "x.bad_value", "list of integers");
  expect_error(fields.numbers("empty_text", reals), "x.missing_field", "empty_text");
  expect_error(fields.numbers("text_list", reals), "x.bad_value", "list of numbers");
  expect_error(fields.choice("fruit", fruit), "x.bad_value", "must be one of apple, pear");
  expect_error(fields.object("list"), "x.bad_value", "list is an array, must be an object");
}

TEST(JsonFields, NamesNestedPathsInErrors) {
  Sample sample(R"({"outer": {"items": [{"n": 1}, {"n": "x"}]}})");
  JsonFields outer = sample.fields.object("outer").value();
  int64_t sum = 0;
  const Status status = outer.each("items", [&](JsonFields& item) -> Status {
    int64_t number = 0;
    MOEC_TRY(item.integer("n", number));
    sum += number;
    return {};
  });
  expect_error(status, "x.bad_value", "field \"outer.items[1].n\" must be an integer");
  EXPECT_EQ(sum, 1);
}

TEST(JsonFields, RejectsUnknownFields) {
  Sample sample(R"({"width": 1, "depht": 2})");
  int64_t number = 0;
  ASSERT_TRUE(sample.fields.integer("width", number));
  expect_error(sample.fields.integer("depth", number), "x.missing_field", "depth");
  expect_error(sample.fields.finish(), "x.unknown_field",
               "field \"depht\" is unknown (did you mean 'depth'?)");
}

TEST(JsonReport, MapsJsonErrorsToFileCodes) {
  const auto parse = [](std::string_view text) {
    return JsonReport(text, "x.json", JsonCodes::by_prefix("x", "mend it")).parse();
  };
  expect_error(parse("{"), "x.syntax", "");
  expect_error(parse("{} {}"), "x.syntax", "");
  expect_error(parse(std::string_view("{}\0", 3)), "x.syntax", "NUL");
  expect_error(parse("[99999999999999999999]"), "x.syntax", "does not fit");
  expect_error(parse(R"({"a": 1, "a": 2})"), "x.duplicate_key", "\"a\"");
}

TEST(JsonReport, KeepsErrorCodesOfVisitors) {
  const JsonReport report(R"({"a": 1})", "x.json", JsonCodes::all_as("x.bad", {}));
  const auto stop = [](const std::string&, const JsonValue&) -> Status {
    return fail("y.stop", "stop");
  };
  expect_error(report.parse_members({}, stop), "y.stop", "stop");
}

}  // namespace
}  // namespace moec
