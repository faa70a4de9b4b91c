// GGUF exports: resumed, replaced, split into several files and copied; and errors of GGUF exports.
#include <gmock/gmock.h>

#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/export/testing.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

ExportOptions gguf_options(const std::string& source, const std::string& out, int jobs = 1) {
  ExportOptions options = export_options_of(source, "gguf", out, jobs);
  options.compile.build.dtype = DType::f32;
  options.output.gguf.max_file_bytes = 2'000'000;
  return options;
}

ExportOptions tinymoe_options(const std::string& out, int jobs = 1) {
  return gguf_options(checkpoint_of("tinymoe"), out, jobs);
}

void set_weights(ExportOptions& options, const std::string& forms) {
  options.compile.build.weights = parse_weight_policy(forms, FloatForm{}).value();
}

std::string first_file(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".gguf") &&
        (!path.ends_with("-of-00006.gguf") || path.find("-00001-of") != std::string::npos))
      return path;
  }
  return {};
}

TEST(ExportGguf, SplitsFilesAtTheLimit) {
  const std::string out = fresh_folder("out");
  const auto summary = export_model(tinymoe_options(out));
  ASSERT_TRUE(summary) << render(summary.error());
  uint64_t bytes = 0;
  size_t parts = 0;
  for (const manifest::FileRef& file : summary->manifest.side_files)
    if (file.path.ends_with(".gguf")) {
      EXPECT_LE(file.bytes, 2'000'000) << file.path;
      bytes += static_cast<uint64_t>(file.bytes);
      ++parts;
    }
  EXPECT_EQ(parts, 6u);
  EXPECT_EQ(bytes, summary->file_bytes);
  const auto model = open_gguf(first_file(out));
  ASSERT_TRUE(model) << render(model.error());
  EXPECT_EQ(model->config.moe.experts, 16);
}

TEST(ExportGguf, ResumesAnywhereWithAnyJobCount) {
  const std::string whole = fresh_folder("whole"), out = fresh_folder("out");
  const size_t calls = count_polls(tinymoe_options(whole));
  const auto expected = all_bytes(whole);
  size_t kept = 0;
  for (const int jobs : {1, 4})
    for (size_t n = 1; n <= calls; n += (calls + 5) / 6) {
      fs::remove_all(out);
      const auto stopped = export_until(tinymoe_options(out, jobs), n);
      ASSERT_FALSE(stopped);
      EXPECT_THAT(render(stopped.error()),
                  AllOf(HasSubstr("export.interrupted"), HasSubstr("export.unfinished")));
      EXPECT_FALSE(fs::exists(out + "/manifest.json"));
      for (const auto& entry : fs::directory_iterator(out))
        EXPECT_NE(entry.path().extension(), ".part");
      const auto resumed = export_model(tinymoe_options(out, jobs));
      ASSERT_TRUE(resumed) << render(resumed.error());
      kept += resumed->parts_kept;
      EXPECT_EQ(all_bytes(out), expected) << "stopped at call " << n << " of " << calls;
    }
  EXPECT_GT(kept, 0u);
}

TEST(ExportGguf, RejectsResumingWithOtherOptions) {
  const size_t calls = count_polls(tinymoe_options(fresh_folder("whole")));
  const std::string out = fresh_folder("out");
  ASSERT_FALSE(export_until(tinymoe_options(out), calls - 1));
  ExportOptions other = tinymoe_options(out);
  set_weights(other, "q8_0");
  expect_error(export_model(other), "export.differs", "");
  other.output.force = true;
  const auto forced = export_model(other);
  ASSERT_TRUE(forced) << render(forced.error());
  expect_error(export_model(tinymoe_options(out)), "export.out_not_empty", "--force");
}

TEST(ExportGguf, CopiesBlocksOfAGgufSource) {
  const std::string first = fresh_folder("first"), second = fresh_folder("second");
  ExportOptions options = tinymoe_options(first);
  options.output.gguf.max_file_bytes = UINT64_MAX;
  set_weights(options, "experts=q4_0,attn=q8_0,head=mxfp4");
  ASSERT_TRUE(export_model(options));
  ExportOptions copy = gguf_options(first_file(first), second);
  copy.output.gguf.max_file_bytes = UINT64_MAX;
  set_weights(copy, "copy");
  const auto copied = export_model(copy);
  ASSERT_TRUE(copied) << render(copied.error());
  const auto a = read_gguf(first_file(first)), b = read_gguf(first_file(second));
  ASSERT_TRUE(a && b);
  ASSERT_EQ(a->tensors.size(), b->tensors.size());
  const std::string bytes_a = all_bytes(first).at("tinymoe.gguf");
  const std::string bytes_b = all_bytes(second).at("tinymoe.gguf");
  for (size_t i = 0; i < a->tensors.size(); ++i) {
    EXPECT_EQ(a->tensors[i].name, b->tensors[i].name);
    EXPECT_EQ(a->tensors[i].type, b->tensors[i].type);
    EXPECT_EQ(bytes_a.substr(a->tensors[i].offset, a->tensors[i].bytes),
              bytes_b.substr(b->tensors[i].offset, b->tensors[i].bytes));
  }
  EXPECT_EQ(a->values.keys().size(), b->values.keys().size());
}

TEST(ExportGguf, FallsBackForRowsWithoutBlocks) {
  const std::string out = fresh_folder("out");
  ExportOptions options = gguf_options(checkpoint_of("qwen3_moe_a"), out);
  set_weights(options, "q8_0");
  const auto summary = export_model(options);
  ASSERT_TRUE(summary) << render(summary.error());
  const auto file = read_gguf(first_file(out));
  ASSERT_TRUE(file);
  for (const GgufTensor& tensor : file->tensors) {
    const bool is_vector = tensor.dims.rank() == 1 || tensor.name.find("inp") != std::string::npos;
    const BlockType wanted = is_vector                            ? BlockType::f32
                             : tensor.name == "token_embd.weight" ? BlockType::f32
                             : tensor.dims.back() % 32 == 0       ? BlockType::q8_0
                                                                  : BlockType::f16;
    EXPECT_EQ(tensor.type, wanted) << tensor.name;
  }
  const bool noted =
      std::any_of(summary->notes.begin(), summary->notes.end(),
                  [](const Diagnostic& note) { return note.code == "gguf.fallback"; });
  EXPECT_TRUE(noted);
  EXPECT_THAT(all_bytes(out).at("report.json"), HasSubstr("\"wanted\": \"q8_0\""));
}

TEST(ExportGguf, RejectsGraphFlags) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--expert-mask", "L0:0-3"}, {"--tokens", "4"}, {"--kv", "io"}}) {
    std::vector<std::string> all = {"export", checkpoint_of("tinymoe"), "--target", "gguf",
                                    "--out",  fresh_folder("out")};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = run_command(all);
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.err, HasSubstr(words[0] + " has no effect for target gguf"));
  }
}

TEST(ExportGguf, IsRejectedByRunAndValidate) {
  const std::string out = fresh_folder("out");
  ASSERT_TRUE(export_model(tinymoe_options(out)));
  expect_error(Session::open(out, read_shard, {}), "format.weights_only", "llama.cpp");
  const Outcome run = run_command({"run", out});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.out + run.err, HasSubstr("format.weights_only"));
  const Outcome validated =
      run_command({"validate", out, "--golden", source_path("tests/golden/tinymoe")});
  EXPECT_THAT(validated.out + validated.err, HasSubstr("format.weights_only"));
  const Outcome planned = run_command({"plan", checkpoint_of("tinymoe"), "--target", "gguf"});
  EXPECT_THAT(planned.out + planned.err, HasSubstr("format.weights_only"));
}

std::string refusal(std::vector<std::string> words) {
  const std::string out = fresh_folder("refused");
  words.insert(words.begin(), {"export", checkpoint_of("tinymoe"), "--out", out + "/x"});
  const Outcome outcome = run_command(words);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_FALSE(fs::exists(out + "/x"));
  return outcome.out + outcome.err;
}

TEST(ExportGguf, RejectsFlagsOfOtherTargets) {
  EXPECT_THAT(refusal({"--target", "gguf", "--tokens", "1,16", "--kv", "io"}),
              AllOf(HasSubstr("export.flags"), HasSubstr("--tokens, --kv")));
  EXPECT_THAT(refusal({"--target", "gguf,onnx"}), HasSubstr("weights-only"));
  EXPECT_THAT(refusal({"--target", "onnx", "--max-file-size", "4GB"}),
              HasSubstr("--max-file-size"));
  EXPECT_THAT(refusal({"--target", "onnx", "--dtype", "bf16"}), HasSubstr("bf16"));
  EXPECT_THAT(refusal({"--target", "onnx", "--weights", "q8_0"}), HasSubstr("weights.form"));
  EXPECT_THAT(refusal({"--target", "gguf", "--weights", "int8"}), HasSubstr("weights.form"));
  EXPECT_THAT(refusal({"--target", "gguf", "--weights", "copy"}), HasSubstr("weights.copy"));
  EXPECT_THAT(refusal({"--target", "gguf", "--weights", "experts@0-9=q8_0"}),
              HasSubstr("weights.layers"));
  EXPECT_THAT(refusal({"--target", "gguf", "--max-file-size", "100kB"}),
              HasSubstr("gguf.part_size"));
}

// A model that llama.cpp computes differently, and a substring of the error's cause.
struct Unsayable {
  const char* golden;
  const char* cause;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Unsayable& one, std::ostream* out) { *out << one.golden; }

class GgufCannotSay : public testing::TestWithParam<Unsayable> {};

TEST_P(GgufCannotSay, IsRejectedBeforeWriting) {
  const std::string out = fresh_folder("out") + "/x";
  const auto refused = export_model(gguf_options(checkpoint_of(GetParam().golden), out));
  expect_error(refused, "gguf.family", GetParam().cause);
  EXPECT_FALSE(fs::exists(out));
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufCannotSay,
    testing::Values(Unsayable{"deepseek_v2_a", "mlp_bias"}, Unsayable{"deepseek_v3_b", "o_bias"},
                    Unsayable{"ernie4_5_moe_a", "head_bias"},
                    Unsayable{"ernie4_5_moe_b", "experts of layer"},
                    Unsayable{"gpt_oss_b", "o_bias"}, Unsayable{"gpt_oss_d", "truncate"},
                    Unsayable{"hunyuan_v1_moe_b", "o_bias"},
                    Unsayable{"llama4_text_a", "temperature_scale"},
                    Unsayable{"mixtral_a", "window"}, Unsayable{"olmoe_a", "kv_heads"},
                    Unsayable{"phimoe_a", "another norm"}, Unsayable{"qwen2_moe_a", "window"},
                    Unsayable{"qwen2_moe_b", "renorm"}, Unsayable{"qwen3_moe_b", "moe_step"},
                    Unsayable{"zaya_a", "no architecture"},
                    Unsayable{"openai_privacy_filter_a", "no architecture"}),
    [](const auto& info) { return std::string(info.param.golden); });

}  // namespace
}  // namespace moec
