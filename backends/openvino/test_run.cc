#include "backends/openvino/test_run.h"

#include <cmath>
#include <cstddef>

#include "backends/openvino/port_values.h"
#include "ir/graph/weight_view.h"

namespace moec {

Result<std::vector<float>> test_results(OpenVinoModel& model) {
  std::vector<PortBytes> inputs;
  std::vector<const void*> elements;
  uint64_t stream = 1;
  for (const OpenVinoPort& port : model.inputs()) {
    std::vector<float> values(static_cast<size_t>(port.type.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = seeded_element(stream << 40, i);
    ++stream;
    inputs.push_back(to_port(port.type, values));
    elements.push_back(inputs.back().data());
  }
  MOEC_TRY(model.run(elements));
  std::vector<float> results;
  const std::vector<OpenVinoPort> outputs = model.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<float> values = from_port(outputs[i].type, model.output(i));
    results.insert(results.end(), values.begin(), values.end());
  }
  return results;
}

bool same_results(const std::vector<float>& a, const std::vector<float>& b,
                  const std::string& precision) {
  if (a.size() != b.size()) return false;
  double difference = 0, whole = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return false;
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    whole += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference) <= (precision == "f16" ? 1e-3 : 1e-5) * std::sqrt(whole);
}

}  // namespace moec
