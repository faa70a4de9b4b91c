#include "frontends/cli/print/print_devices.h"

#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {

static void print_replicas(const ReplicaPlan& plan) {
  print_out(
      "replicas: {} of the {} groups of experts of a layer; the busiest device has at most {:.3f} "
      "times the mean load\n",
      plan.replicas, plan.groups, plan.worst_imbalance());
}

void print_devices(const DevicePlan& plan) {
  print_out("\n{:<12} {:>10} {:>14} {:>12} {:>10} {:>7}  trunk: {}\n", "devices", "memory",
            "weights, cache", "activations", "free", "shards", enum_name(plan.trunk));
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const Device& device = plan.devices[d];
    const DeviceLoad& load = plan.loads[d];
    print_out("{:<12} {:>10} {:>14} {:>12} {:>10} {:>7}", device.name, decimal_bytes(device.bytes),
              decimal_bytes(load.bytes), decimal_bytes(load.peak_bytes),
              decimal_bytes(device.bytes - load.needed()), load.units.size());
    if (device.bandwidth > 0)
      print_out("  {:.2f} ms a token to read its weights",
                1e3 * load.token_bytes / device.bandwidth);
    print_out("\n");
  }
  if (plan.replicas) print_replicas(*plan.replicas);
}

}  // namespace moec
