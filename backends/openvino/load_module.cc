#include "backends/openvino/load_module.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace moec {
namespace {

// Beside the program: no path of the environment or of the system leads elsewhere.
std::string module_path() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : (program.parent_path() / kOpenVinoModule).string();
}

tl::unexpected<Diagnostics> not_built(const std::string& path) {
  return fail("engine.not_built", "this build of moec has no OpenVINO",
              "install the wheel of OpenVINO into .venv (scripts/install_python.sh) or OpenVINO "
              "itself, then configure with -DMOEC_OPENVINO=ON and build; or run without --engine",
              {.file = path});
}

tl::unexpected<Diagnostics> not_loaded(const std::string& path, const std::string& why) {
  return fail("engine.library", fmt::format("OpenVINO cannot be loaded: {}", why),
              "install the OpenVINO that moec was built with again, or build moec again",
              {.file = path});
}

}  // namespace

Result<std::unique_ptr<OpenVinoLibrary>> load_openvino() {
  const std::string path = module_path();
  if (path.empty() || ::access(path.c_str(), F_OK) != 0) return not_built(path);
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return not_loaded(path, ::dlerror());
  const auto open = reinterpret_cast<OpenVinoEntry>(::dlsym(module, kOpenVinoModuleEntry));
  if (open == nullptr) return not_loaded(path, ::dlerror());
  std::unique_ptr<OpenVinoLibrary> library(open());
  if (!library) return not_loaded(path, "it does not start");
  return library;
}

}  // namespace moec
