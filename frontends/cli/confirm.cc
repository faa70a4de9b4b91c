// moec confirm: checks an exported folder with a vendor's compiler and emulator.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/targets/load_target.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/print_measured.h"
#include "frontends/cli/python_script.h"
#include "frontends/jobs/check/list_contexts.h"
#include "frontends/jobs/check/measured.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// A vendor's compiler and emulator. `name` is also the name of the target whose rules the engine
// confirms and that lists the chips; `chip` is the default, empty if there are none.
struct VendorEngine {
  std::string name, script, python_variable, chip;
};

const std::vector<VendorEngine>& engines() {
  // The compilers come as Python packages, so scripts drive them.
  static const std::vector<VendorEngine> all = {
      {"qnn", "scripts/confirm_with_qnn.py", "MOEC_QNN_PYTHON", "v75"},
      {"rknn", "scripts/confirm_with_rknn.py", "MOEC_RKNN_PYTHON", "rk3588"},
      {"litert", "scripts/confirm_with_litert.py", "MOEC_LITERT_PYTHON", ""},
      {"litert-qnn", "scripts/confirm_with_litert_qnn.py", "MOEC_LITERT_QNN_PYTHON", "v75"}};
  return all;
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const VendorEngine& engine : engines()) names.push_back(engine.name);
  return names;
}

struct ConfirmFlags {
  std::string folder, engine = "qnn", chip, golden, contexts, measured, python, script;
  bool no_run = false, json = false;
};

const VendorEngine& engine_of(const ConfirmFlags& flags) {
  const auto found =
      std::find_if(engines().begin(), engines().end(),
                   [&](const VendorEngine& engine) { return engine.name == flags.engine; });
  // The validator of --engine accepts only the names of engines().
  MOEC_CHECK(found != engines().end(), "--engine accepted the unknown engine {}", flags.engine);
  return *found;
}

// Returns the family of the requested chip, or the engine's default. Error target.unknown_chip.
Result<std::string> chip_of(const ConfirmFlags& flags) {
  const VendorEngine& engine = engine_of(flags);
  if (flags.chip.empty()) return engine.chip;
  MOEC_ASSIGN(const Target target, builtin_target(engine.name));
  // Called for its error: it refuses chips that the target does not have.
  MOEC_TRY(for_chip(target, flags.chip));
  for (const ChipFamily& family : target.chips)
    // The script gets the family, but --chip may name a chip of the family.
    if (std::find(family.chips.begin(), family.chips.end(), flags.chip) != family.chips.end())
      return family.name;
  return flags.chip;
}

Result<std::string> script_of(const ConfirmFlags& flags) {
  if (!flags.script.empty()) return flags.script;
  return find_script(engine_of(flags).script, "pass its path with --script");
}

std::string python_of(const ConfirmFlags& flags) {
  if (!flags.python.empty()) return flags.python;
  const char* variable = std::getenv(engine_of(flags).python_variable.c_str());
  // An empty variable counts as absent, because an empty name is not a program.
  return variable != nullptr && *variable != '\0' ? variable : "python3";
}

std::string measured_path(const ConfirmFlags& flags) {
  return flags.measured.empty() ? flags.folder + "/" + std::string(kMeasuredPlacement)
                                : flags.measured;
}

std::vector<std::string> arguments_of(const ConfirmFlags& flags, const std::string& chip) {
  std::vector<std::string> words = {flags.folder};
  if (!chip.empty()) words.insert(words.end(), {"--chip", chip});
  words.insert(words.end(), {"--measured", measured_path(flags)});
  if (!flags.golden.empty()) words.insert(words.end(), {"--golden", flags.golden});
  if (!flags.contexts.empty()) words.insert(words.end(), {"--context-binaries", flags.contexts});
  if (flags.no_run) words.emplace_back("--no-run");
  return words;
}

// Exit codes 0 and 1 of the script mean that it has written the measurement.
Result<int> measure(const ConfirmFlags& flags, const std::string& chip) {
  MOEC_ASSIGN(const std::string script, script_of(flags));
  // With --json, the script's output must not mix with the report on stdout.
  return run_script({python_of(flags), script, "confirm.engine",
                     fmt::format("if a package is missing, install it as the script's --help "
                                 "describes and select that Python with --python or {}",
                                 engine_of(flags).python_variable)},
                    arguments_of(flags, chip), flags.json);
}

Result<int> confirm(const ConfirmFlags& flags) {
  MOEC_TRY(require_export(flags.folder));
  // Flags are checked before the compiler runs, which takes the longest.
  MOEC_ASSIGN(const std::string chip, chip_of(flags));
  if (!flags.contexts.empty()) MOEC_TRY(check_context_folder(flags.folder, flags.contexts));
  MOEC_ASSIGN(const int code, measure(flags, chip));
  // list_contexts() extends the manifest, which check_folder() reads.
  if (!flags.contexts.empty()) MOEC_TRY(list_contexts(flags.folder, flags.contexts));
  MOEC_ASSIGN(const auto report,
              // Without digests: the measurement has the digests of the graphs, which
              // compare_placement() compares.
              check_folder(flags.folder, {.target = flags.engine, .chip = chip, .digests = false}));
  MOEC_ASSIGN(const Measured measured, read_measured(measured_path(flags)));
  MOEC_ASSIGN(const PlacementComparison comparison, compare_placement(*report, measured));
  flags.json ? print_json(measured_json(comparison, measured))
             : print_comparison(comparison, measured);
  // The script exits with 1 if its own comparison fell short, and a good placement does not change
  // that.
  return comparison.is_worse() ? kExitFellShort : code;
}

int run_confirm(const ConfirmFlags& flags) {
  const Result<int> code = confirm(flags);
  return code ? *code : report_failure(code.error(), flags.json);
}

void add_flags(CLI::App& command, ConfirmFlags& flags) {
  command.add_option("OUT", flags.folder, "An exported folder of ONNX or TFLite files")->required();
  command
      .add_option("--engine", flags.engine,
                  "Compiler and emulator. qnn: Qualcomm's, from the Python package "
                  "onnxruntime-qnn; rknn: Rockchip's, from rknn-toolkit2; litert: LiteRT's "
                  "interpreter with XNNPACK on this CPU, from ai-edge-litert; litert-qnn: "
                  "Qualcomm's plugin of LiteRT, from ai-edge-litert and onnxruntime-qnn (default: "
                  "qnn)")
      ->check(one_of(engine_names()));
  command.add_option("--chip", flags.chip,
                     "Chip family: v68 to v81 for qnn; v73, v75 or v79 for litert-qnn; rk3562 to "
                     "rk3588 and rv1126b for rknn (default: v75 or rk3588)");
  command.add_option("--golden", flags.golden,
                     "Golden folder that supplies the tokens and the reference logits (default: up "
                     "to 16 fixed tokens, compared with results on this CPU)");
  command.add_option("--context-binaries", flags.contexts,
                     "Also write the compiled files, and contexts.json with their digests, to "
                     "this folder; if this folder is inside OUT, the manifest lists the files");
  command.add_option(
      "--measured", flags.measured,
      "File for the measurement, which moec check --measured reads (default: OUT/measured.json)");
  command.add_flag("--no-run", flags.no_run, "Compile only; do not run the emulator");
  command.add_option("--python", flags.python,
                     "Python interpreter with the engine's package (default: the environment "
                     "variable MOEC_QNN_PYTHON, MOEC_RKNN_PYTHON, MOEC_LITERT_PYTHON or "
                     "MOEC_LITERT_QNN_PYTHON, else python3)");
  command.add_option("--script", flags.script,
                     "Path of the engine's script, such as scripts/confirm_with_qnn.py (default: "
                     "in this program's checkout)");
  command.add_flag("--json", flags.json, "Print the report as JSON");
}

}  // namespace

void add_confirm_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("confirm",
                         "Compile an exported folder with a vendor's compiler, run it in the "
                         "vendor's emulator, and compare with the predicted placement");
  auto flags = std::make_shared<ConfirmFlags>();
  add_flags(*command, *flags);
  command->footer(
      "Example: moec confirm out/tinymoe-qnn --engine qnn --chip v75 --golden "
      "tests/golden/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_confirm(*flags); });
}

}  // namespace moec
