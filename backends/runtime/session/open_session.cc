// Opens a session: checks the options against the export and the engine, and reads the masks and
// the expert slots.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "backends/manifest/top_k.h"
#include "backends/runtime/session/session_impl.h"

namespace moec {
namespace {

// Opens a table file as weights with a single tensor, so that a row is a slice of the tensor.
Result<WeightReader> open_table(const manifest::TableFile& table, const std::string& folder) {
  WeightTable weights;
  weights.files.push_back(
      {folder + "/" + table.file.path, static_cast<uint64_t>(table.file.bytes)});
  weights.tensors["table"] = {0, 0, {table.dtype, {table.rows, table.columns}}};
  return WeightReader::open(std::move(weights));
}

Status refuse_part_of_a_model(const manifest::Model& model, const std::string& folder) {
  if (model.left_out_layers == 0) return {};
  return fail("session.part_of_a_model",
              fmt::format("the folder is a trial export of the first {} of {} layers", model.layers,
                          model.layers + model.left_out_layers),
              "export the whole model, without --layers", {.file = folder});
}

Status refuse_stage(const Manifest& manifest, const std::string& folder) {
  if (manifest.has_embedding() && manifest.has_head()) return {};
  const manifest::Node& node = *manifest.node;
  return fail("session.stage",
              fmt::format("node {} has only layers {} to {} of {}: stage {} of {}, counted from 0",
                          node.name, node.first_layer, manifest.end_layer() - 1,
                          manifest.model.layers, node.stage, node.stages),
              "run the export that was split, or a split without stages", {.file = folder});
}

Status check_pinned(const std::vector<ExpertId>& pinned, const ExpertGrid& grid) {
  for (const ExpertId& key : pinned)
    if (!std::binary_search(grid.layers.begin(), grid.layers.end(), key.layer) ||
        key.expert >= grid.experts)
      return fail("session.profile",
                  fmt::format("the profile has expert {} of layer {}, which the model lacks",
                              key.expert, key.layer),
                  "pass a --profile of this model");
  return {};
}

}  // namespace

// A search by name in each step would take longer than the steps if there are thousands of shards.
void Session::Impl::find_shards() {
  std::unordered_map<std::string_view, const manifest::Shard*> by_name;
  for (const manifest::Shard& shard : manifest.shards) by_name.emplace(shard.name, &shard);
  for (const manifest::Step& step : manifest.schedule) shards.push_back(by_name.at(step.shard));
}

// Masks add inputs to the graphs, and slots replace weights. Only engines that can edit graphs
// support these options.
Status Session::Impl::check_engine() const {
  const EngineTraits& traits = engine->traits();
  const auto refuse = [&](const std::string& what) {
    return fail(
        "engine.option",
        fmt::format("{}, but engine {} runs graphs only as they were emitted", what, traits.name),
        "omit the option, or pass --engine cpu", {.file = folder});
  };
  MOEC_TRY(engine->accepts(manifest, options.precision));
  if (options.cache_dtype != DType::f32 && !traits.reads_halves)
    return fail("engine.option",
                fmt::format("--cache-dtype {} is an option of engine cpu, but engine {} reads f32 "
                            "caches only",
                            dtype_name(options.cache_dtype), traits.name),
                "omit --cache-dtype, or pass --engine cpu", {.file = folder});
  if (traits.edits_graphs) return {};
  if (options.experts)
    return refuse("expert slots (--capacity, --expert-memory, --prepacked) replace weights");
  if (!options.expert_mask.empty()) return refuse("--expert-mask changes the routers");
  if (!fixed_masks.held.layers.empty())
    return refuse("a cluster node masks the experts that it lacks");
  if (options.maskable) return refuse("cache-aware routing changes the routers");
  return {};
}

Status Session::Impl::choose_variant() {
  MOEC_ASSIGN(routing.top_k, choose_top_k(manifest, options.top_k));
  if (routing.top_k.threshold && options.cache_bias)
    return fail("policy.confidence", "--cache-bias and --confidence cannot be combined",
                "omit one of them");
  // With a threshold, any variant can run, so the slots must suffice for the largest k.
  if (options.experts) options.experts->top_k = routing.top_k.largest();
  return {};
}

Status Session::Impl::read_masks() {
  // Peers compute the experts that the node lacks, so routers may choose them.
  if (options.peers) {
    MOEC_ASSIGN(peers.own, node_experts_of(manifest));
  } else {
    MOEC_ASSIGN(fixed_masks.held, node_experts_of(manifest));
  }
  if (!masks()) return {};
  grid = expert_grid(manifest);
  grid.top_k = std::max(grid.top_k, routing.top_k.largest());
  if (grid.layers.empty())
    return fail("session.no_experts", "the model has no experts to mask",
                "omit --expert-mask, or use a Mixture-of-Experts model", {.file = folder});
  if (manifest.build.routing == "full_softmax")
    return fail(
        "session.no_choice",
        fmt::format("the export has routing {}, which uses all experts", manifest.build.routing),
        "export with another --routing to mask experts", {.file = folder});
  MOEC_ASSIGN(fixed_masks.baked, expert_mask_of(manifest));
  MOEC_ASSIGN(const ExpertSets wanted,
              read_expert_mask(options.expert_mask, grid, "--expert-mask"));
  return set_mask(wanted, "--expert-mask");
}

Status Session::Impl::open_experts() {
  uint64_t slots = 0;
  if (options.experts) {
    MOEC_TRY(check_pinned(options.experts->pinned, expert_grid(manifest)));
    MOEC_ASSIGN(experts, ExpertStore::open(manifest, folder, *options.experts));
    slots = experts->arena_bytes();
  }
  // This check also keeps the unsigned difference below from wrapping around.
  if (slots >= options.memory_bytes)
    return fail("session.memory",
                fmt::format("the expert slots need {} MiB, --memory is {} MiB", slots >> 20,
                            options.memory_bytes >> 20),
                fmt::format("pass a larger --memory, or a smaller --expert-memory or --capacity; "
                            "each of {} slots per layer needs {} MiB in all layers",
                            experts->capacity(),
                            (slots / static_cast<uint64_t>(experts->capacity()) >> 20) + 1));
  MOEC_ASSIGN(const uint64_t room, room_for_shards(manifest, options.memory_bytes - slots,
                                                   {options.sequences, options.cache_dtype}));
  loaded = LoadedShards(room);
  return {};
}

Result<Session> Session::open(const std::string& folder, ShardReader read_shard,
                              const SessionOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  impl->engine = options.engine;
  if (!impl->engine) impl->engine = reference_engine(std::move(read_shard));
  impl->options = options;
  // A preference for resident experts masks the routers.
  impl->options.maskable = options.maskable || options.cache_bias;
  MOEC_ASSIGN(impl->manifest, read_manifest(folder));
  MOEC_TRY(require_graphs(impl->manifest, folder));
  MOEC_TRY(refuse_part_of_a_model(impl->manifest.model, folder));
  MOEC_TRY(refuse_stage(impl->manifest, folder));
  MOEC_TRY(impl->open_peers());
  impl->find_shards();
  // The order matters: read_masks() needs the variant, check_engine() the masks, and
  // open_preference() the expert store.
  MOEC_TRY(impl->choose_variant());
  MOEC_TRY(impl->read_masks());
  MOEC_TRY(impl->check_engine());
  MOEC_TRY(impl->open_experts());
  MOEC_TRY(impl->open_preference());
  MOEC_ASSIGN(impl->tables.embedding, open_table(impl->manifest.embedding, folder));
  if (impl->manifest.rope) {
    MOEC_ASSIGN(impl->tables.rope, open_table(impl->manifest.rope->table, folder));
  }
  Session session(std::move(impl));
  session.reset();
  return session;
}

}  // namespace moec
