#include "backends/runtime/text/write_text.h"

#include "backends/manifest/expert_grid.h"
#include "backends/runtime/experts/gate_log.h"

namespace moec {

Status with_gate_log(Session& session, const GateLogOptions& options,
                     const std::function<Status()>& job) {
  if (options.file.empty()) return job();
  const ExpertGrid grid = expert_grid(session.manifest());
  if (grid.layers.empty())
    return fail("run.no_gates", "the model has no experts to log", "omit --log-gates");
  std::vector<int64_t> layers = grid.layers;
  if (!options.layers.empty()) {
    MOEC_ASSIGN(layers, parse_expert_layers(options.layers, grid, "--log-layers"));
  }
  MOEC_ASSIGN(GateLog log,
              GateLog::open(options.file, trace_form_of(options.file), std::move(layers)));
  bool told = false;
  session.observe_routing([&](int64_t layer, int64_t position, const Rows& weights) {
    told = true;
    log.add(layer, position, weights);
  });
  const Status done = job();
  // The observer refers to local variables of this function, so it must not outlive the function.
  session.observe_routing({});
  // After an error, the destructor of the log removes the unfinished file.
  MOEC_TRY(done);
  if (!told)
    return fail("run.no_gates", "the graphs have no values labelled as routing weights",
                "export again without --skip-pass");
  return log.close();
}

Result<GeneratedText> write_text(Session& session, const Prompt& prompt,
                                 const WriteOptions& options, const TokenCallback& on_token) {
  MOEC_TRY(check_prompt_length(prompt.tokens, session.manifest()));
  if (on_token)
    for (const int64_t token : prompt.tokens) on_token(token);
  GenerateOptions generate = options.generate;
  if (!options.ignore_eos) generate.eos_tokens = session.manifest().model.eos_tokens;
  return generate_text(session, prompt.tokens, generate, on_token);
}

}  // namespace moec
