#include "frontends/cli/flags/engine_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "backends/openvino/openvino_engine.h"
#include "frontends/cli/flags/one_of.h"

namespace moec {

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  CLI::Option* engine =
      command
          .add_option(
              "--engine", flags.engine,
              "What runs the graphs. reference: reads them back and runs op by op, exact and "
              "slow; openvino: compiles them for a --device, in builds that have it")
          ->check(one_of({"reference", "openvino"}))
          ->capture_default_str();
  command
      .add_option(
          "--device", flags.device,
          "With --engine openvino: CPU, GPU or NPU, or one of several, GPU.1 (default: CPU)")
      ->needs(engine);
  command
      .add_flag("--engine-cache", flags.keeps_compiled,
                "With --engine openvino: keep compiled graphs in OUT/.openvino, where the next run "
                "finds them")
      ->needs(engine);
}

Result<std::shared_ptr<Engine>> open_engine(const EngineFlags& flags) {
  if (flags.engine == "openvino")
    return openvino_engine({flags.device.empty() ? "CPU" : flags.device, flags.keeps_compiled});
  if (flags.device.empty() && !flags.keeps_compiled) return nullptr;
  return fail("engine.option",
              fmt::format("{} is for engines that compile; engine reference does not",
                          flags.device.empty() ? "--engine-cache" : "--device"),
              "leave it out, or give --engine openvino");
}

}  // namespace moec
