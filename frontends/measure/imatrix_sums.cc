#include "frontends/measure/imatrix_sums.h"

namespace moec {

void add_squares(std::vector<float>& sums, std::span<const float> row) {
  sums.resize(row.size());
  for (size_t c = 0; c < row.size(); ++c) sums[c] += row[c] * row[c];
}

}  // namespace moec
