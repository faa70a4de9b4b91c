// Parses a shard from a text that must have no errors.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "ir/text/text.h"

namespace moec {

inline Shard parsed(std::string_view text) {
  auto shard = parse_shard(text);
  EXPECT_TRUE(shard) << render(shard.error());
  return std::move(*shard);
}

}  // namespace moec
