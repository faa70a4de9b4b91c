#include "frontends/cli/flags/engine_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "backends/openvino/openvino_engine.h"
#include "frontends/cli/flags/one_of.h"

namespace moec {

void add_engine_flags(CLI::App& command, EngineFlags& flags, const OtherEngine& other) {
  // Accepts openvino in every build. In a build without OpenVINO, openvino_engine() reports the
  // reason.
  std::vector<std::string> names = {"cpu", "reference", "openvino"};
  std::string help =
      "Engine that runs the graphs. cpu: on all cores, directly on the stored weights; "
      "reference: on one core, with the summation order used for comparisons with goldens; "
      "openvino: compiled for --device (only in builds with OpenVINO)";
  if (!other.name.empty()) {
    names.push_back(other.name);
    help += fmt::format("; {}: {}", other.name, other.help);
  }
  CLI::Option* engine = command.add_option("--engine", flags.engine, help)
                            ->check(one_of(names))
                            ->capture_default_str();
  command
      .add_option("--device", flags.device,
                  "With --engine openvino: CPU, GPU or NPU, or a numbered device such as GPU.1 "
                  "(default: CPU)")
      ->needs(engine);
  command
      .add_flag("--engine-cache", flags.keeps_compiled,
                "With --engine openvino: keep compiled graphs in OUT/.openvino for later runs")
      ->needs(engine);
}

Result<std::shared_ptr<Engine>> open_engine(const EngineFlags& flags, const SessionFlags& session,
                                            std::shared_ptr<Engine> cpu) {
  // Flags are refused, because ignoring them would hide a mistake.
  const bool rounds = session.activations != "f32";
  if ((session.threads != 0 || rounds) && flags.engine != "cpu") {
    const char* flag = rounds ? "--activations int8" : "--threads";
    return fail("engine.option", fmt::format("engine {} has no option {}", flags.engine, flag),
                fmt::format("omit {}, or pass --engine cpu", flag));
  }
  if (flags.engine == "openvino")
    return openvino_engine({flags.device.empty() ? "CPU" : flags.device, flags.keeps_compiled});
  // Null selects the reference executor.
  if (flags.device.empty() && !flags.keeps_compiled)
    return flags.engine == "cpu" ? std::move(cpu) : nullptr;
  return fail("engine.option",
              fmt::format("{} requires an engine that compiles graphs, but engine {} does not",
                          flags.device.empty() ? "--engine-cache" : "--device", flags.engine),
              "omit the flag, or pass --engine openvino");
}

}  // namespace moec
