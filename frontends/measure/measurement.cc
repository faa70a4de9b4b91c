#include "frontends/measure/measurement.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/runtime/text/prompt.h"

namespace moec {

Status check_not_stopped(const AnalyzeOptions& options) {
  if (!options.stop || !options.stop()) return {};
  // No partial result is kept, so that a profile always describes the whole text.
  return fail(kAnalyzeInterrupted, "the analysis was stopped",
              "run the same command again; it starts over", {.file = options.folder});
}

Observer follow_run(const AnalyzeOptions& options, const Text& text) {
  return {.begin = [&options](const TextChunk&) { return check_not_stopped(options); },
          .end = [&options, &text](const TextChunk& chunk) -> Status {
            // Progress counts tokens without the fill of a document's last window.
            if (chunk.ends_window && options.progress)
              options.progress(static_cast<uint64_t>(text.used(chunk.window)),
                               static_cast<uint64_t>(text.count()), "tokens");
            return {};
          }};
}

Result<Text> read_analysis_text(const AnalyzeOptions& options, const ModelTokenizer& tokenizer,
                                int64_t positions) {
  const AnalysisSource& text = options.text;
  if (text.window < 1)
    return fail("analyze.window",
                fmt::format("the window has {} tokens, expected at least 1", text.window),
                "pass a larger --window, such as 256");
  MOEC_ASSIGN(const std::vector<Document> documents,
              read_documents(
                  {"analyze", options.source, text.texts, text.tokens, text.prompts, text.prompt},
                  tokenizer));
  return cut_documents(documents, std::min(text.window, positions));
}

Result<Text> read_analysis_text(const AnalyzeOptions& options, const Manifest& manifest) {
  return read_analysis_text(options, export_tokenizer(options.source, manifest),
                            longest_window(manifest));
}

Status check_has_experts(int64_t layers, const std::string& source) {
  if (layers > 0) return {};
  return fail("analyze.no_experts", "the model has no experts to analyze",
              "use a Mixture-of-Experts model", {.file = source});
}

bool counts_pairs(int64_t layers, int64_t experts, Diagnostics& notes) {
  // `together` has a number per pair and layer. The limit bounds the size of a profile.
  if (layers * count_pairs(experts) <= kMaxPairs) return true;
  notes.push_back(
      {Severity::note,
       "analyze.no_pairs",
       fmt::format("{} layers of {} experts have too many pairs for a profile", layers, experts),
       "use the profile without the field \"together\"",
       {}});
  return false;
}

}  // namespace moec
