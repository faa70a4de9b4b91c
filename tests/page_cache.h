#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace moec {

// Evicts the first `bytes` bytes of a file, 0 for all, from the page cache, so that the next read
// comes from the disk.
inline void forget(const std::string& path, off_t bytes = 0) {
  const int file = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  EXPECT_EQ(::fsync(file), 0);
  EXPECT_EQ(::posix_fadvise(file, 0, bytes, POSIX_FADV_DONTNEED), 0);
  ::close(file);
}

}  // namespace moec
