#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "backends/files/digest.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "ir/base/json_fields.h"
#include "tests/backends/manifest/sample.h"
#include "tests/files.h"

namespace moec {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string sample_json() { return to_json(SampleManifest::make()).value(); }

// Returns the sample's JSON with the first `from` replaced by `to`.
std::string with(const std::string& from, const std::string& to) {
  std::string text = sample_json();
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const Result<Manifest>& result) {
  return result ? "no error" : render(result.error());
}

std::string fresh_folder(const std::string& name) {
  std::string folder = testing::TempDir() + "/manifest_" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

Status write_sample(const std::string& folder) {
  Manifest sample = SampleManifest::make();
  return write_manifest(sample, folder);
}

void expect_round_trip(const Manifest& sample) {
  Result<Manifest> by_json = from_json(to_json(sample).value());
  ASSERT_TRUE(by_json) << error_of(by_json);
  EXPECT_EQ(*by_json, sample);
  Result<Manifest> by_bytes = from_bytes(to_bytes(sample).value());
  ASSERT_TRUE(by_bytes) << error_of(by_bytes);
  EXPECT_EQ(*by_bytes, sample);
}

TEST(ManifestFile, RoundTripsJsonAndBinary) {
  Manifest sample = SampleManifest::make();
  expect_round_trip(sample);
  sample.model.task = Task::token_classification;
  sample.tagging = manifest::Tagging{{{"O"}, {"S-name"}}, 0.5, -1, 0.25, 2, -0.125, 3};
  expect_round_trip(sample);
}

TEST(ManifestFile, WritesEqualBytesForEqualManifests) {
  EXPECT_EQ(to_bytes(SampleManifest::make()).value(), to_bytes(SampleManifest::make()).value());
  Manifest sample = SampleManifest::make();
  EXPECT_EQ(to_bytes(from_json(sample_json()).value()).value(), to_bytes(sample).value());
  EXPECT_EQ(to_json(from_bytes(to_bytes(sample).value()).value()).value(), sample_json());
}

TEST(ManifestFile, WritesTheIdentifier) {
  EXPECT_EQ(to_bytes(SampleManifest::make()).value().substr(4, 4), "MOEC");
}

TEST(ManifestFile, WritesEnumNamesAndCompactLines) {
  std::string text = sample_json();
  EXPECT_THAT(text, HasSubstr(R"({"port": "k_new", "sink": "k_rows", "edge": "", "layer": 0})"));
  EXPECT_THAT(text,
              HasSubstr(R"({"name": "x", "dtype": "f32", "layout": "rows", "dims": [1, 8]})"));
  EXPECT_THAT(text, HasSubstr("\n  \"tokenizer\": \"bytes\",\n"));
}

TEST(ManifestFile, RoundTripsNumbersAndTextExactly) {
  Manifest sample = SampleManifest::make();
  sample.golden[0].cosine = 0.1 + 0.2;
  sample.golden[0].relative_l2 = std::numeric_limits<double>::denorm_min();
  sample.shards[0].weight_bytes = kMaxInteger;
  sample.masked_value = -std::numeric_limits<double>::max();
  sample.ignored[0].reason = "quote \" backslash \\ tab \t bell \a é 漢 😀";
  Result<Manifest> back = from_json(to_json(sample).value());
  ASSERT_TRUE(back) << error_of(back);
  EXPECT_EQ(*back, sample);
  EXPECT_EQ(from_bytes(to_bytes(sample).value()).value(), sample);
}

TEST(ManifestFile, LimitsBinaryIntegersLikeJson) {
  Manifest sample = SampleManifest::make();
  sample.shards[0].weight_bytes = -kMaxInteger - 1;
  EXPECT_THAT(error_of(from_bytes(to_bytes(sample).value())),
              HasSubstr("shards[0].weight_bytes: -9007199254740993 is out of range, the limit is"));
  sample = SampleManifest::make();
  sample.model.eos_tokens = {1, kMaxInteger + 1};
  EXPECT_THAT(error_of(from_bytes(to_bytes(sample).value())),
              HasSubstr("model.eos_tokens: 9007199254740993 is out of range, the limit is"));
}

TEST(ManifestFile, KeepsAbsentFieldsAbsent) {
  Manifest sample = SampleManifest::make();
  sample.rope.reset();
  EXPECT_EQ(from_json(to_json(sample).value()).value(), sample);
  EXPECT_EQ(from_bytes(to_bytes(sample).value()).value(), sample);
}

TEST(ManifestFile, RejectsUnreadableValues) {
  Manifest sample = SampleManifest::make();
  sample.golden[0].cosine = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(render(to_json(sample).error()),
            "error[manifest.not_finite]: golden[0].cosine is not a finite number");
  EXPECT_THAT(error_of(from_bytes(to_bytes(sample).value())),
              HasSubstr("golden[0].cosine: the number is not finite"));
  for (const char* bad : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe6\xbc"}) {
    sample = SampleManifest::make();
    sample.ignored[0].tensor = bad;
    EXPECT_EQ(render(to_json(sample).error()),
              "error[manifest.not_utf8]: ignored[0].tensor is not UTF-8 text");
  }
  const std::string folder = testing::TempDir() + "not_utf8";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(
      render(write_manifest(sample, folder).error()),
      "error[manifest.not_utf8] " + folder + "/manifest.json: ignored[0].tensor is not UTF-8 text");
  sample = SampleManifest::make();
  sample.build.routing = "guess";
  EXPECT_THAT(render(to_bytes(sample).error()),
              StartsWith("error[manifest.unknown_name]: RoutingForm has no value \"guess\""));
}

TEST(ManifestFile, RejectsUnknownFields) {
  std::string text = with("\"tool\": {", "\"frobnicate\": 1, \"tool\": {");
  EXPECT_EQ(error_of(from_json(text)),
            "error[manifest.unknown_field] manifest.json:3:18 at byte 43: field \"frobnicate\" is "
            "unknown\n"
            "  next: export the model again, or correct the text according to "
            "backends/manifest/manifest.fbs");
}

TEST(ManifestFile, NamesMissingFields) {
  EXPECT_EQ(error_of(from_json(with("    \"hidden\": 8,\n", ""))),
            "error[manifest.missing_field] manifest.json:17:4 at byte 408: field \"model.hidden\" "
            "is missing\n"
            "  next: export the model again, or correct the text according to "
            "backends/manifest/manifest.fbs");
  EXPECT_THAT(error_of(from_json(with("\"version\": \"0.1.0\"", "\"name\": \"moec\""))),
              HasSubstr("the key \"name\" occurs twice"));
  EXPECT_THAT(error_of(from_json(with(", \"macs_active\": 512", ""))),
              HasSubstr("\"shards[0].cost.macs_active\" is missing"));
  EXPECT_THAT(error_of(from_json(with("{\"port\": \"k_new\", ", "{"))),
              HasSubstr("\"schedule[0].outputs[1].port\" is missing"));
  EXPECT_THAT(error_of(from_json("{}")), HasSubstr("\"schema_version\" is missing"));
}

TEST(ManifestFile, RejectsMalformedJson) {
  auto code = [](const std::string& text) {
    Result<Manifest> result = from_json(text);
    return result ? "none" : result.error()[0].code;
  };
  EXPECT_EQ(code(""), "manifest.syntax");
  EXPECT_EQ(code("[]"), "manifest.syntax");
  EXPECT_EQ(code(sample_json() + "{}"), "manifest.syntax");
  EXPECT_EQ(code(sample_json() + '\0'), "manifest.syntax");
  EXPECT_EQ(code(sample_json().substr(0, 400)), "manifest.syntax");
  EXPECT_EQ(code(with("\"kind\": \"attention\"", "\"kind\": \"attitude\"")), "manifest.syntax");
  EXPECT_EQ(code(with("\"hidden\": 8", "\"hidden\": 8.5")), "manifest.syntax");
  EXPECT_EQ(code(with("\"hidden\": 8", "\"hidden\": 99999999999999999999")), "manifest.syntax");
  EXPECT_EQ(code(with("\"hidden\": 8", "\"hidden\": [8]")), "manifest.syntax");
  EXPECT_EQ(code(with("rotary.inv_freq", "\xff")), "manifest.syntax");
  EXPECT_EQ(code(std::string(100000, '{')), "manifest.syntax");
  EXPECT_EQ(code("include \"/etc/passwd\";" + sample_json()), "manifest.syntax");
  EXPECT_EQ(code("table T { x: int; }" + sample_json()), "manifest.syntax");
  EXPECT_EQ(code("// a comment\n" + sample_json()), "manifest.syntax");
  EXPECT_EQ(code(with("\"schema_version\": 19", "\"schema_version\": 018")), "manifest.syntax");
  EXPECT_EQ(code(with("\"hidden\": 8", "\"hidden\": \"8\"")), "manifest.syntax");
  EXPECT_EQ(code(with("\"hidden\": 8", "\"hidden\": null")), "manifest.syntax");
  EXPECT_EQ(code(sample_json() + std::string(1, '\0') + "x"), "manifest.syntax");
}

// Only manifest.bin uses enum numbers; JSON text with numbers would depend on the declaration order
// of the enumerators.
TEST(ManifestFile, RequiresEnumNamesInJson) {
  const auto error = [](const std::string& from, const std::string& to) {
    return error_of(from_json(with(from, to)));
  };
  EXPECT_THAT(error("\"kind\": \"attention\"", "\"kind\": 0"),
              HasSubstr("[manifest.syntax] manifest.json:"));
  EXPECT_THAT(error("\"kind\": \"attention\"", "\"kind\": \"0\""),
              HasSubstr("has the unknown name \"0\""));
  EXPECT_THAT(error("\"dtype\": \"f32\"", "\"dtype\": 0"), HasSubstr("must be a string"));
  EXPECT_THAT(error("\"routing\": \"host\"", "\"routing\": 0"), HasSubstr("must be a string"));
  EXPECT_THAT(error("\"routing\": \"host\"", "\"routing\": \"guess\""),
              HasSubstr("field \"build.routing\" has the unknown name \"guess\""));
}

TEST(ManifestFile, NamesLineAndColumnOfErrors) {
  Result<Manifest> result = from_json("{\n  \"schema_version\": 19,\n  \"tool\": 7\n}", "m.json");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error()[0].place.file, "m.json");
  EXPECT_EQ(result.error()[0].place.line, 3u);
}

TEST(ManifestFile, RejectsATruncatedBin) {
  std::string bytes = to_bytes(SampleManifest::make()).value();
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 16) {
    Result<Manifest> result = from_bytes(bytes.substr(0, size));
    ASSERT_FALSE(result) << size;
    EXPECT_EQ(result.error()[0].code, "manifest.corrupt");
  }
  EXPECT_EQ(error_of(from_bytes("MOEC")),
            "error[manifest.corrupt] manifest.bin: the file is damaged or not a manifest\n"
            "  next: export the model again");
}

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// FlatBuffers' verifier allows lists of 64-bit numbers at any multiple of 4 bytes.
TEST(ManifestFile, ReadsMisaligned64BitNumbers) {
  const Manifest sample = SampleManifest::make();
  std::string bytes = to_bytes(sample).value();
  const std::string tokens = raw(uint32_t{2}) + raw(int64_t{1}) + raw(int64_t{4});
  const size_t list = bytes.find(tokens);
  ASSERT_NE(list, std::string::npos);
  bytes.resize((bytes.size() + 7) / 8 *
               8);  // the length starts here, so the numbers start at 4 mod 8
  size_t moved = 0;
  for (size_t at = 0; at < list; at += 4)
    if (bytes.compare(at, 4, raw(static_cast<uint32_t>(list - at))) == 0) {
      bytes.replace(at, 4, raw(static_cast<uint32_t>(bytes.size() - at)));
      ++moved;
    }
  ASSERT_EQ(moved, 1u);
  EXPECT_EQ(from_bytes(bytes + tokens).value(), sample);
}

// The readers must handle arbitrary bytes; a manifest that they accept must round-trip.
void expect_answer(const Result<Manifest>& result) {
  if (!result) {
    EXPECT_FALSE(result.error().empty());
    return;
  }
  Result<std::string> bytes = to_bytes(*result);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(from_bytes(*bytes).value(), *result);
}

TEST(ManifestFile, SurvivesRandomByteChanges) {
  std::mt19937 random(7);
  const std::string bytes = to_bytes(SampleManifest::make()).value(), text = sample_json();
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string changed = round % 2 ? bytes : text;
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes)
      changed[random() % changed.size()] = static_cast<char>(random());
    Result<Manifest> result = round % 2 ? from_bytes(changed) : from_json(changed);
    accepted += result.has_value();
    expect_answer(result);
  }
  EXPECT_GT(accepted, 0);
  for (int round = 0; round < 500; ++round) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (noise.size() > 8) noise.replace(4, 4, "MOEC");
    EXPECT_FALSE(from_bytes(noise));
    EXPECT_FALSE(from_json(noise));
  }
}

TEST(ManifestFile, ReadsUnalignedBytes) {
  std::string shifted = "x" + to_bytes(SampleManifest::make()).value();
  EXPECT_TRUE(from_bytes(std::string_view(shifted).substr(1)));
}

uint32_t word_at(const std::string& bytes, size_t at) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

// A vector whose entries all point at one large table would use far more memory than the file's
// size.
TEST(ManifestFile, RejectsSharedTables) {
  constexpr uint32_t entries = 777;
  Manifest sample = SampleManifest::make();
  sample.ignored.assign(entries, {"tensor", ""});
  sample.ignored[0].reason = std::string(5000, 'r');
  std::string bytes = to_bytes(sample).value();
  size_t vector = 0;
  while (vector + 8 < bytes.size() && word_at(bytes, vector) != entries) vector += 4;
  ASSERT_EQ(word_at(bytes, vector), entries);
  // Each entry is the distance to its table; make all entries refer to the first table.
  size_t first = vector + 4, table = first + word_at(bytes, first);
  for (uint32_t i = 0; i < entries; ++i) {
    auto distance = static_cast<uint32_t>(table - (first + 4 * i));
    std::memcpy(bytes.data() + first + 4 * i, &distance, sizeof distance);
  }
  EXPECT_THAT(error_of(from_bytes(bytes)), HasSubstr("parts of the file are shared"));
}

TEST(ManifestFile, WritesAndReadsBothFiles) {
  std::string folder = fresh_folder("both");
  ASSERT_TRUE(write_sample(folder));
  Result<Manifest> back = read_manifest(folder);
  ASSERT_TRUE(back) << error_of(back);
  const std::string digest = digest_file(folder + "/manifest.bin").value();
  Manifest expected = SampleManifest::make();
  expected.binary = {"manifest.bin",
                     static_cast<int64_t>(std::filesystem::file_size(folder + "/manifest.bin")),
                     digest, ""};
  EXPECT_EQ(*back, expected);
  EXPECT_EQ(read_file(folder + "/manifest.json"), to_json(expected).value());
  EXPECT_EQ(read_file(folder + "/manifest.bin"), to_bytes(SampleManifest::make()).value());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 2u);
}

TEST(ManifestFile, ReadsJsonAlone) {
  std::string folder = fresh_folder("json_only");
  write_file(folder + "/manifest.json", sample_json());
  EXPECT_EQ(read_manifest(folder).value(), SampleManifest::make());
}

TEST(ManifestFile, RejectsDisagreeingJsonAndBin) {
  std::string folder = fresh_folder("disagree");
  ASSERT_TRUE(write_sample(folder));
  write_file(folder + "/manifest.json", with("\"max_positions\": 64", "\"max_positions\": 65"));
  std::string error = error_of(read_manifest(folder));
  EXPECT_THAT(error, StartsWith("error[manifest.disagree] " + folder + "/manifest.bin: "));
  EXPECT_THAT(error, HasSubstr("\"max_positions\": 65"));
  EXPECT_THAT(error, HasSubstr("\"max_positions\": 64"));
}

// Includes bits in the padding between tables, which readers skip.
TEST(ManifestFile, DetectsFlippedBitsOfBin) {
  const std::string folder = fresh_folder("bits"), path = folder + "/manifest.bin";
  ASSERT_TRUE(write_sample(folder));
  const std::string whole = read_file(path);
  const auto found_by_readers = [&] { return !read_manifest(folder); };
  const auto found_by_digest = [&] {
    for (const Diagnostic& finding : verify_files(*read_manifest(folder), folder, true))
      if (finding.code == "manifest.digest_changed" && finding.place.file == path) return true;
    return false;
  };
  int by_digest = 0;
  for (size_t at = 0; at < whole.size(); at += 97) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    write_file(path, changed);
    if (found_by_readers()) continue;
    EXPECT_TRUE(found_by_digest()) << at;
    ++by_digest;
  }
  EXPECT_GT(by_digest, 0);
}

TEST(ManifestFile, RecordsSha256OfBinOnRequest) {
  const std::string folder = fresh_folder("sha256");
  Manifest sample = SampleManifest::make();
  sample.embedding.file.sha256 = std::string(64, '0');
  ASSERT_TRUE(write_manifest(sample, folder));
  const std::string path = folder + "/manifest.bin";
  EXPECT_EQ(read_manifest(folder)->binary->sha256, digest_file(path, true)->sha256);
}

TEST(ManifestFile, RejectsABinThatNamesItself) {
  const std::string folder = fresh_folder("itself");
  ASSERT_TRUE(write_sample(folder));
  write_file(folder + "/manifest.bin", to_bytes(*read_manifest(folder)).value());
  EXPECT_THAT(error_of(read_manifest(folder)), StartsWith("error[manifest.disagree]"));
}

TEST(ManifestFile, RejectsADamagedBin) {
  std::string folder = fresh_folder("damaged");
  ASSERT_TRUE(write_sample(folder));
  write_file(folder + "/manifest.bin", "short");
  EXPECT_THAT(error_of(read_manifest(folder)), StartsWith("error[manifest.corrupt]"));
}

TEST(ManifestFile, RejectsAnInconsistentManifest) {
  std::string folder = fresh_folder("inconsistent");
  Manifest sample = SampleManifest::make();
  sample.embedding.file.path = "../embed.bin";
  Status written = write_manifest(sample, folder);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error()[0].code, "manifest.path");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  write_file(folder + "/manifest.json", to_json(sample).value());
  EXPECT_EQ(error_of(read_manifest(folder)),
            "error[manifest.path] " + folder +
                "/manifest.json: the path \"../embed.bin\" is not inside the folder\n"
                "  next: export the model again");
}

TEST(ManifestFile, ReportsAMissingManifest) {
  std::string folder = fresh_folder("none");
  EXPECT_EQ(error_of(read_manifest(folder)),
            "error[manifest.read] " + folder +
                "/manifest.json: cannot open the file: No such file or directory\n"
                "  next: give the folder that moec export wrote");
  std::filesystem::create_directory(folder + "/manifest.json");
  EXPECT_THAT(error_of(read_manifest(folder)), HasSubstr("not a regular file"));
}

TEST(ManifestFile, RejectsPipesWithoutBlocking) {
  const std::string folder = fresh_folder("pipe");
  ASSERT_EQ(::mkfifo((folder + "/manifest.json").c_str(), 0600), 0);
  EXPECT_THAT(error_of(read_manifest(folder)), HasSubstr("not a regular file"));
}

TEST(ManifestFile, KeepsOldFilesIfWritingFails) {
  std::string folder = fresh_folder("limit");
  ASSERT_TRUE(write_sample(folder));
  std::string before = read_file(folder + "/manifest.bin");
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 100;
  auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  Manifest other = SampleManifest::make();
  other.model.norm_eps = 1e-5;
  Status written = write_manifest(other, folder);
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error()[0].code, "emit.no_space");
  EXPECT_EQ(read_file(folder + "/manifest.bin"), before);
  EXPECT_FALSE(std::filesystem::exists(folder + "/manifest.bin.part"));
}

TEST(ManifestFile, RejectsAFileAsFolder) {
  std::string folder = fresh_folder("unusable");
  write_file(folder + "/file", "x");
  Status written = write_sample(folder + "/file");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error()[0].code, "emit.bad_folder");
  EXPECT_EQ(written.error()[0].place.file, folder + "/file");
}

}  // namespace
}  // namespace moec
