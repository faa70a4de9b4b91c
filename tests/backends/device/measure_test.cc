// Measurements, and the numbers of the temporary file.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_products.h"
#include "backends/device/measure_device.h"
#include "backends/device/measure_disk.h"
#include "backends/device/measure_ops.h"
#include "backends/device/measure_products.h"
#include "backends/weights/views/convert.h"
#include "tests/files.h"
#include "tests/small_measurement.h"

namespace moec {
namespace {

std::string empty_folder() {
  std::string folder = testing::TempDir() + "/moec_device/" + running_test();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// Subnormal numbers and infinities would distort the times of products.
TEST(ScratchFile, ContainsNormalNumbersOfEveryType) {
  auto scratch = ScratchFile::create(empty_folder(), 1 << 20);
  ASSERT_TRUE(scratch) << render(scratch.error());
  std::vector<std::byte> bytes(1 << 16);
  ASSERT_TRUE(scratch->file().read(0, bytes.data(), bytes.size()));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<float> values(bytes.size() / static_cast<size_t>(dtype_bytes(dtype)));
    decode(dtype, bytes.data(), values.size(), values.data());
    for (const float value : values) ASSERT_TRUE(std::isnormal(value) && value < 2) << value;
  }
}

TEST(ScratchFile, RemovesTheFile) {
  const std::string folder = empty_folder();
  std::string path;
  {
    auto scratch = ScratchFile::create(folder, 1 << 20);
    ASSERT_TRUE(scratch);
    path = scratch->path();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

// Every file that a killed run can leave has the name that the next run looks for.
TEST(ScratchFile, HasItsNameWhileBeingWritten) {
  const std::string folder = empty_folder();
  const pid_t writer = ::fork();
  if (writer == 0) {
    // Large enough for the kill to come first. Neither it nor _exit() calls a destructor.
    const auto scratch = ScratchFile::create(folder, uint64_t{256} << 20);
    ::_exit(scratch ? 0 : 1);
  }
  ASSERT_GT(writer, 0);
  const std::string left = folder + "/moec-doctor." + std::to_string(writer) + ".scratch";
  for (int i = 0; i < 1000 && std::filesystem::is_empty(folder); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(writer, SIGKILL);
  ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
  EXPECT_TRUE(std::filesystem::exists(left));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);

  ASSERT_TRUE(ScratchFile::create(folder, 1 << 20));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(ScratchFile, ReplacesAFileOfItsProcess) {
  const std::string folder = empty_folder();
  const std::string left = folder + "/moec-doctor." + std::to_string(::getpid()) + ".scratch";
  write_file(left, "left by a process with the same id");
  const auto scratch = ScratchFile::create(folder, 1 << 20);
  ASSERT_TRUE(scratch) << render(scratch.error());
  EXPECT_EQ(scratch->path(), left);
  EXPECT_EQ(scratch->file().size(), uint64_t{1} << 20);
}

TEST(MedianSeconds, CallsAtLeastThreeTimes) {
  size_t calls = 0;
  const auto seconds = median_seconds({}, [&](size_t call) -> Status {
    EXPECT_EQ(call, calls++);
    return {};
  });
  ASSERT_TRUE(seconds) << render(seconds.error());
  EXPECT_GT(*seconds, 0);
  EXPECT_EQ(calls, 3u);
}

TEST(MedianSeconds, EndsAtTheFirstError) {
  size_t calls = 0;
  const auto seconds = median_seconds({.seconds = 1e9}, [&](size_t) -> Status {
    return ++calls == 2 ? fail("test.failed", "the call failed", "none") : Status();
  });
  ASSERT_FALSE(seconds);
  EXPECT_EQ(seconds.error().front().code, "test.failed");
  EXPECT_EQ(calls, 2u);
}

TEST(MedianSeconds, StopsBetweenCalls) {
  size_t calls = 0;
  const Repetition endless{.seconds = 1e9, .stop = [&] { return calls == 5; }};
  const auto seconds = median_seconds(endless, [&](size_t) -> Status {
    ++calls;
    return {};
  });
  ASSERT_FALSE(seconds);
  EXPECT_EQ(seconds.error().front().code, kDoctorInterrupted);
  EXPECT_EQ(calls, 5u);
}

TEST(MeasureDisk, ReadsSizesThatFit) {
  auto scratch = ScratchFile::create(empty_folder(), 2 << 20);
  ASSERT_TRUE(scratch);
  const auto reads = measure_random_reads(scratch->file(), {});
  ASSERT_TRUE(reads) << render(reads.error());
  ASSERT_EQ(reads->size(), 2u) << "8 MiB exceed the file";
  EXPECT_LT(reads->front().bytes, reads->back().bytes);
  const auto rate = measure_sequential_reads(scratch->file());
  ASSERT_TRUE(rate);
  EXPECT_GT(*rate, 0);
}

// Measures each speed three times.
TEST(MeasureDevice, StopsAtTheEnd) {
  const std::string folder = empty_folder();
  MeasureOptions options = small_measurement(folder);
  int all = 0;
  options.stop = [&] {
    ++all;
    return false;
  };
  const auto complete = measure_device(options);
  ASSERT_TRUE(complete) << render(complete.error());

  int asked = 0;
  options.stop = [&] { return ++asked == all; };
  const auto stopped = measure_device(options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().front().code, kDoctorInterrupted);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(MeasureForms, StopsOnRequest) {
  auto scratch = ScratchFile::create(empty_folder(), 1 << 20);
  ASSERT_TRUE(scratch);
  const auto forms = measure_forms(CpuProducts(1, ActivationFormat::f32), *scratch,
                                   small_products(), {.stop = [] { return true; }});
  ASSERT_FALSE(forms);
  EXPECT_EQ(forms.error().front().code, kDoctorInterrupted);
}

TEST(MeasureOps, SetsEveryTime) {
  DeviceProfile profile;
  const CpuProducts products(1, ActivationFormat::f32);
  const Status measured = measure_ops(products, {}, profile);
  ASSERT_TRUE(measured) << render(measured.error());
  for (const double seconds : profile.element_seconds) EXPECT_GT(seconds, 0);
  EXPECT_GT(profile.op_seconds, 0);
  EXPECT_GT(profile.idle_op_seconds, 0);
  EXPECT_GT(profile.run_seconds, 0);
}

}  // namespace
}  // namespace moec
