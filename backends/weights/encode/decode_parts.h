// Decodes an encoded weight from its stored parts in memory.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph/encoding.h"

namespace moec {

// Returns all values of the weight in C order, in its element type. The parts are those of
// stored_parts(encoding, type, form). The values equal those of decoded_view().
std::vector<std::byte> decode_parts(const Encoding& encoding, const Type& type,
                                    const std::vector<std::vector<std::byte>>& parts,
                                    CodeForm form = CodeForm::signed_codes);

}  // namespace moec
