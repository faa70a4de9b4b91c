#include "backends/runtime/text/text_windows.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {

// The reach of a token is the sum over layers: each layer extends it by the range of its attention.
Reach reach_of(const Manifest& manifest) {
  Reach all;
  for (const manifest::Step& step : manifest.schedule) {
    Reach layer;
    for (const InputBinding& binding : step.inputs) {
      if (binding.source != SourceKind::attn_mask) continue;
      const bool limited = binding.window > 0;
      layer.back = std::max(layer.back, limited ? binding.window - 1 : manifest.build.context);
      // The context limits `binding.ahead`, because no token lies farther ahead.
      layer.ahead = std::max(layer.ahead, std::min(binding.ahead, manifest.build.context));
    }
    const int64_t layers = manifest.find_shard(step.shard)->layers;
    all.back += layers * layer.back;
    all.ahead += layers * layer.ahead;
  }
  return all;
}

Result<std::vector<TextWindow>> cut_windows(int64_t tokens, int64_t width, Reach reach) {
  if (tokens == 0) return std::vector<TextWindow>{};
  if (tokens <= width) return std::vector<TextWindow>{{0, tokens, 0, tokens}};
  const int64_t around = reach.back + reach.ahead;
  if (width <= around)
    return fail(
        "run.width",
        fmt::format("a text of {} tokens exceeds the width of {} and cannot be cut into windows: "
                    "a label depends on {} tokens before and {} after its own",
                    tokens, width, reach.back, reach.ahead),
        fmt::format("export with --tokens {}", std::min(tokens, 2 * around)));
  // Windows overlap by the reach. Each window keeps only the labels that depend on no token outside
  // it, so the results equal those of one pass over the whole text.
  std::vector<TextWindow> windows;
  for (int64_t kept = 0; kept < tokens;) {
    // The last window ends with the text. Every window keeps at least one label, because `width`
    // exceeds `around`.
    const int64_t begin = std::clamp<int64_t>(kept - reach.back, 0, tokens - width);
    const int64_t end = begin + width;
    const int64_t keep_end = end == tokens ? tokens : end - reach.ahead;
    windows.push_back({begin, end, kept, keep_end});
    kept = keep_end;
  }
  return windows;
}

std::optional<Diagnostic> warn_of_width(const Manifest& manifest) {
  if (!manifest.tagging) return std::nullopt;
  const Reach reach = reach_of(manifest);
  const int64_t width = manifest.build.tokens.back(), context = manifest.build.context;
  const int64_t around = reach.back + reach.ahead;
  if (width > around || width >= context) return std::nullopt;
  return Diagnostic{
      Severity::warning,
      "export.short_texts",
      fmt::format("texts of more than {} tokens cannot be labelled: a label depends on {} tokens "
                  "before and {} after its own",
                  width, reach.back, reach.ahead),
      fmt::format("export with --tokens {} for longer texts", std::min(context, 2 * around)),
      {}};
}

}  // namespace moec
