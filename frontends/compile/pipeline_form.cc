#include "frontends/compile/pipeline_form.h"

#include <fmt/format.h>

namespace moec {
namespace {

tl::unexpected<Diagnostics> refuse_pipeline(const std::string& what, const std::string& instead) {
  return fail("compat.genai", "pipelines of onnxruntime-genai do not support " + what, instead);
}

Status check_widths(const std::vector<int64_t>& tokens) {
  if (tokens.size() == 2 && tokens.front() == 1) return {};
  return refuse_pipeline(fmt::format("the token widths {}", fmt::join(tokens, ",")),
                         "pass --tokens 1,W: 1 for single tokens, and W for prompts");
}

// The name of the first shard that reads the source; empty if none does.
std::string reader_of(const Plan& plan, SourceKind source) {
  for (const Step& step : plan.schedule)
    for (const InputBinding& input : step.inputs)
      if (input.source == source) return plan.shards.at(step.shard).name;
  return "";
}

// The engine pads prompts in front, and padding would enter these states.
Status check_states(const Plan& plan) {
  const auto refuse_reader = [&](SourceKind source, const std::string& what) -> Status {
    const std::string shard = reader_of(plan, source);
    if (shard.empty()) return {};
    return refuse_pipeline(fmt::format("{}, such as that of {}", what, shard),
                           "use --target ort-genai");
  };
  // Recurrent mixers may also have a history, so they come first.
  MOEC_TRY(refuse_reader(SourceKind::recurrent_state, "recurrent mixers"));
  return refuse_reader(SourceKind::history, "caches of convolutions");
}

}  // namespace

Status check_pipeline(const Plan& plan, const manifest::Build& build, bool has_decoder_graph) {
  if (build.format != ShardFormat::onnx)
    return refuse_pipeline("formats other than ONNX", "use --target onnx or qnn");
  if (has_decoder_graph)
    return refuse_pipeline("folders with a graph of the whole model, which they already run",
                           "omit --compat, or use --target onnx");
  if (plan.model.head.task != Task::text_generation)
    return refuse_pipeline(plan.model.family + ", which does not generate text", "omit --compat");
  if (!has_cache(build.cache)) return refuse_pipeline("models without a cache", "omit --compat");
  MOEC_TRY(check_states(plan));
  return check_widths(build.tokens);
}

}  // namespace moec
