#include "frontends/jobs/residency/trace_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontends/measure/measure_checkpoint.h"
#include "frontends/measure/measure_export.h"
#include "ir/base/output_apart.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

Status check_trace_size(const Measurement& measured, const std::string& source) {
  // The limits of the binary format: a signed 32-bit token and a 16-bit expert.
  if (measured.text.count() <= INT32_MAX && measured.experts <= 65536) return {};
  return fail("trace.size",
              fmt::format("{} tokens and {} experts exceed the limits of a trace, 2147483647 "
                          "tokens and 65536 experts",
                          measured.text.count(), measured.experts),
              "use a shorter text", {.file = source});
}

// Merges the layers' picks, each sorted by token, into one list by token.
int64_t write_rows(const std::vector<LayerMeasurement>& layers, int64_t tokens,
                   TraceWriter& writer) {
  int64_t rows = 0;
  std::vector<size_t> next(layers.size(), 0);
  for (int64_t token = 0; token < tokens; ++token)
    for (size_t i = 0; i < layers.size(); ++i) {
      // Each layer keeps its own position, so the merge reads every pick once.
      const auto& choices = layers[i].choices;
      for (; next[i] < choices.size() && choices[next[i]].token == token; ++next[i], ++rows)
        writer.add({static_cast<int32_t>(layers[i].profile.layer), static_cast<int32_t>(token),
                    static_cast<int32_t>(choices[next[i]].expert),
                    static_cast<float>(choices[next[i]].weight)});
    }
  return rows;
}

}  // namespace

Result<TraceReport> trace_model(const TraceOptions& options) {
  MOEC_TRY(check_user_output({options.file, "--out", options.force}, options.run.source));
  // Opens the output file first, so that an unwritable path is reported before the model runs.
  MOEC_ASSIGN(TraceWriter writer, TraceWriter::open(options.file, options.form));
  MOEC_ASSIGN(const Measurement measured, options.run.exported
                                              ? measure_export(options.run)
                                              : measure_checkpoint(options.run, false));
  // Must follow the measurement, which determines the number of tokens.
  MOEC_TRY(check_trace_size(measured, options.run.source));
  TraceReport report{options.file,
                     options.form,
                     std::ssize(measured.layers),
                     measured.text.count(),
                     measured.text.windows(),
                     0,
                     {}};
  report.rows = write_rows(measured.layers, report.tokens, writer);
  for (const Diagnostic& note : measured.notes)
    // A trace needs neither outputs of experts nor pairs.
    if (note.code != "analyze.no_outputs" && note.code != "analyze.no_pairs")
      report.notes.push_back(note);
  // close() reports a full disk; the destructor could not.
  MOEC_TRY(writer.close());
  return report;
}

nlohmann::ordered_json trace_json(const TraceReport& report) {
  return report_json(true,
                     {{"file", report.file},
                      {"format", enum_name(report.form)},
                      {"layers", report.layers},
                      {"tokens", report.tokens},
                      {"windows", report.windows},
                      {"rows", report.rows}},
                     report.notes);
}

}  // namespace moec
