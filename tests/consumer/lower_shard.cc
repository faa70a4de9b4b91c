// Lowers a shard in text form for a target, with moec's libraries:
//   lower_shard FILE.ir TARGET
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "backends/targets/find_target.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"

namespace {

moec::Result<std::string> lower(const std::string& file, const std::string& target) {
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  MOEC_ASSIGN(const moec::Shard shard, moec::parse_shard(text, {.file = file}));
  moec::PassContext context;
  MOEC_ASSIGN(context.options.target, moec::find_target(target));
  const auto passes = moec::default_pipeline(context.options);
  MOEC_ASSIGN(const moec::PipelineResult result, moec::run_pipeline(shard, passes, context));
  return moec::print(result.shard);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::puts("usage: lower_shard FILE.ir TARGET"), 2;
  const auto lowered = lower(arguments[1], arguments[2]);
  if (!lowered) return std::fputs(moec::render(lowered.error()).c_str(), stderr), 2;
  std::puts(lowered->c_str());
}
