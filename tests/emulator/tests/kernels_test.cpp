// The emulator itself: what kernels do right is right for every seed, and what they forget shows
// for some.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "ir/base/dtype.h"
#include "tests/emulator/emulator.h"
#include "tests/emulator/tests/emulated_unit.h"

namespace rnnc::test {
namespace {

constexpr int kSeeds = 16;

/// For how many seeds `run` is right.
int times_right(const std::function<bool()>& run) {
  int right = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    emulator::set_seed(static_cast<uint64_t>(seed));
    right += run() ? 1 : 0;
  }
  return right;
}

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

/// Whether a kernel over `values` leaves them in the opposite order.
bool reverses(const EmulatedUnit& unit, const char* kernel, const LaunchOptions& options,
              std::vector<float> values) {
  const DeviceNumbers<float> from(values);
  const DeviceNumbers<float> to(std::vector<float>(values.size()));
  EXPECT_EQ(unit.launch(kernel, options, from.data(), to.data()), cudaSuccess);
  std::ranges::reverse(values);
  return to.get() == values;
}

// ---- Threads ----

TEST(EmulatorBlocks, MeetAtBarriers) {
  const EmulatedUnit unit(R"(
    template <bool Waits>
    static __device__ __forceinline__ void reverse(const float* from, float* to) {
      __shared__ float values[256];
      values[threadIdx.x] = from[threadIdx.x];
      if (Waits) __syncthreads();
      to[threadIdx.x] = values[255 - threadIdx.x];
    }
    extern "C" __global__ void good(const float* from, float* to) { reverse<true>(from, to); }
    extern "C" __global__ void bad(const float* from, float* to) { reverse<false>(from, to); })");
  const auto run = [&](const char* kernel) {
    return times_right([&] { return reverses(unit, kernel, {.block = 256}, counting(256)); });
  };
  EXPECT_EQ(run("good"), kSeeds);
  EXPECT_LT(run("bad"), kSeeds);
}

TEST(EmulatorBlocks, MeetAtNamedBarriers) {
  const EmulatedUnit unit(R"(
    extern "C" __global__ void good(const float* from, float* to) {
      extern __shared__ float values[];
      const unsigned i = threadIdx.x, pair = i / 64;
      values[i] = from[i];
      rnnc_bar_sync(1 + pair, 64);
      const float mirrored = values[pair * 64 + 63 - i % 64];
      to[(1 - pair) * 64 + i % 64] = mirrored;
    })");
  EXPECT_EQ(times_right([&] {
              return reverses(unit, "good", {.block = 128, .shared_bytes = 512}, counting(128));
            }),
            kSeeds);
}

TEST(EmulatorWarps, ShuffleAndVote) {
  const EmulatedUnit unit(R"(
    extern "C" __global__ void warp(unsigned* sum, unsigned* votes) {
      unsigned value = threadIdx.x;
      for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(0xffffffffu, value, bits);
      sum[threadIdx.x] = value + __shfl_sync(0xffffffffu, threadIdx.x, 3);
      if (threadIdx.x % 2 != 0) return;
      votes[threadIdx.x] = __ballot_sync(0x55555555u, threadIdx.x % 32 < 4);
    })");
  const DeviceNumbers<unsigned> sum(std::vector<unsigned>(64));
  const DeviceNumbers<unsigned> votes(std::vector<unsigned>(64, 5));
  ASSERT_EQ(unit.launch("warp", {.block = 64}, sum.data(), votes.data()), cudaSuccess);
  const std::vector<unsigned> sums = sum.get();
  EXPECT_EQ(sums[0], 496 + 3);
  EXPECT_EQ(sums[63], 1520 + 35);
  EXPECT_EQ(votes.get(), std::vector<unsigned>(64, 5));
}

TEST(EmulatorWarps, MultiplyTilesAsLoopsDo) {
  const EmulatedUnit unit(R"(
    template <rnnc_engine Engine>
    static __device__ __forceinline__ void tile(const unsigned* a, const unsigned* b, float* out) {
      const unsigned i = threadIdx.x / 4, j = threadIdx.x % 4;
      float sum[4] = {1, 2, 3, 4};
      rnnc_multiply_tile<Engine>(sum, a + i * 8 + j * 2, a + (i + 8) * 8 + j * 2, b + i * 8 + j * 2);
      for (int s = 0; s < 4; ++s) out[(i + s / 2 * 8) * 8 + j * 2 + s % 2] = sum[s];
    }
    extern "C" __global__ void tf32(const unsigned* a, const unsigned* b, float* out) {
      tile<rnnc_engine::tf32>(a, b, out);
    }
    extern "C" __global__ void bf16(const unsigned* a, const unsigned* b, float* out) {
      tile<rnnc_engine::bf16>(a, b, out);
    }
    extern "C" __global__ void f16(const unsigned* a, const unsigned* b, float* out) {
      tile<rnnc_engine::f16>(a, b, out);
    })");
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(to_string(dtype));
    const size_t depth = 32 / size_of(dtype);
    std::vector<float> a(16 * depth);
    std::vector<float> b(8 * depth);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 13) - 6;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 11) / 4 - 1;
    std::vector<unsigned> a_words(128);
    std::vector<unsigned> b_words(64);
    convert(a.data(), DType::f32, a_words.data(), dtype, a.size());
    convert(b.data(), DType::f32, b_words.data(), dtype, b.size());
    if (dtype == DType::f32) {
      for (unsigned& word : a_words) word |= 0x1fff;  // which tensor cores do not read
    }
    const DeviceNumbers<unsigned> left(a_words);
    const DeviceNumbers<unsigned> right(b_words);
    const DeviceNumbers<float> out(std::vector<float>(128));
    const std::string kernel(dtype == DType::f32 ? "tf32" : to_string(dtype));
    ASSERT_EQ(unit.launch(kernel.c_str(), {}, left.data(), right.data(), out.data()), cudaSuccess);
    std::vector<float> expected(128);
    for (size_t row = 0; row < 16; ++row) {
      for (size_t column = 0; column < 8; ++column) {
        float& sum = expected[row * 8 + column];
        const size_t number = row / 8 * 2 + column % 2;
        sum = static_cast<float>(1 + number);
        for (size_t k = 0; k < depth; ++k) sum += a[row * depth + k] * b[column * depth + k];
      }
    }
    EXPECT_EQ(out.get(), expected);
  }
}

TEST(EmulatorWarps, MultiplyPartsOfSplitNumbers) {
  const EmulatedUnit unit(R"(
    extern "C" __global__ void parts(const unsigned* a, const unsigned* b, float* out) {
      const unsigned i = threadIdx.x / 4, j = threadIdx.x % 4;
      float large[4] = {1, 2, 3, 4}, small[4] = {5, 6, 7, 8};
      rnnc_multiply_parts(large, small, a + i * 8 + j * 2, a + (i + 8) * 8 + j * 2,
                          b + i * 8 + j * 2);
      for (int s = 0; s < 4; ++s) {
        out[(i + s / 2 * 8) * 8 + j * 2 + s % 2] = large[s];
        out[128 + (i + s / 2 * 8) * 8 + j * 2 + s % 2] = small[s];
      }
    })");
  const auto large = [](size_t i) { return static_cast<float>(8 + i * 7 % 5); };
  const auto small = [](size_t i) { return static_cast<float>(i * 5 % 3) * 0x1p-12F; };
  std::vector<float> a(128);
  std::vector<float> b(64);
  for (size_t i = 0; i < a.size(); ++i) a[i] = large(i) + small(i);
  for (size_t i = 0; i < b.size(); ++i) b[i] = large(i + 3) + small(i + 1);
  const DeviceNumbers<float> left(a);
  const DeviceNumbers<float> right(b);
  const DeviceNumbers<float> out(std::vector<float>(256));
  ASSERT_EQ(unit.launch("parts", {}, left.data(), right.data(), out.data()), cudaSuccess);
  std::vector<float> expected(256);
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      const size_t sum = row / 8 * 2 + column % 2;
      float& of_large = expected[row * 8 + column];
      float& of_small = expected[128 + row * 8 + column];
      of_large = static_cast<float>(1 + sum);
      of_small = static_cast<float>(5 + sum);
      for (size_t k = 0; k < 8; ++k) {
        const size_t i = row * 8 + k;
        const size_t j = column * 8 + k;
        of_large += large(i) * large(j + 3);
        of_small += large(i) * small(j + 1) + small(i) * large(j + 3);
      }
    }
  }
  EXPECT_EQ(out.get(), expected);
}

// ---- What may happen early or late ----

TEST(EmulatorCopies, MayArriveWhenTheyAreWaitedFor) {
  const EmulatedUnit unit(R"(
    template <bool Waits>
    static __device__ __forceinline__ void reverse(const float* from, float* to) {
      extern __shared__ __align__(16) float values[];
      const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(values));
      rnnc_copy<4>(shared + threadIdx.x * 4, reinterpret_cast<const char*>(from + threadIdx.x),
                   true);
      rnnc_end_copies();
      if (Waits) rnnc_wait_copies(0);
      __syncthreads();
      to[threadIdx.x] = values[63 - threadIdx.x];
    }
    extern "C" __global__ void good(const float* from, float* to) { reverse<true>(from, to); }
    extern "C" __global__ void bad(const float* from, float* to) { reverse<false>(from, to); }

    template <bool Waits>
    static __device__ __forceinline__ void reverse_bulk(const float* from, float* to) {
      extern __shared__ __align__(16) float values[];
      __shared__ unsigned long long there;
      const auto barrier = static_cast<unsigned>(__cvta_generic_to_shared(&there));
      if (threadIdx.x == 0) {
        rnnc_begin_barrier(barrier);
        rnnc_publish_barriers();
        rnnc_copy_bulk(static_cast<unsigned>(__cvta_generic_to_shared(values)),
                       reinterpret_cast<const char*>(from), 256, barrier);
        rnnc_expect(barrier, 256);
      }
      __syncthreads();
      if (Waits) rnnc_await(barrier, 0);
      to[threadIdx.x] = values[63 - threadIdx.x];
    }
    extern "C" __global__ void good_bulk(const float* from, float* to) {
      reverse_bulk<true>(from, to);
    }
    extern "C" __global__ void bad_bulk(const float* from, float* to) {
      reverse_bulk<false>(from, to);
    })");
  const auto run = [&](const char* kernel) {
    return times_right(
        [&] { return reverses(unit, kernel, {.block = 64, .shared_bytes = 256}, counting(64)); });
  };
  EXPECT_EQ(run("good"), kSeeds);
  EXPECT_LT(run("bad"), kSeeds);
  EXPECT_EQ(run("good_bulk"), kSeeds);
  EXPECT_LT(run("bad_bulk"), kSeeds);
}

// Block 0 says that a number is there. Only if it does so with a release, the number is.
TEST(EmulatorStores, ReachOtherBlocksInAnyOrder) {
  const EmulatedUnit unit(R"(
    template <bool Releases>
    static __device__ __forceinline__ void send(unsigned* number, unsigned* there, unsigned* out) {
      const unsigned value = 42, one = 1;
      if (blockIdx.x == 0) {
        rnnc_publish<4>(number, &value);
        if (Releases) rnnc_arrive(there); else rnnc_publish<4>(there, &one);
      }
      while (rnnc_load_acquire(there) == 0) rnnc_spin_pause();
      rnnc_poll<4>(number, out + blockIdx.x);
    }
    extern "C" __global__ void good(unsigned* n, unsigned* t, unsigned* o) { send<true>(n, t, o); }
    extern "C" __global__ void bad(unsigned* n, unsigned* t, unsigned* o) { send<false>(n, t, o); })");
  const auto run = [&](const char* kernel) {
    return times_right([&] {
      const DeviceNumbers<unsigned> number({7});
      const DeviceNumbers<unsigned> there({0});
      const DeviceNumbers<unsigned> out({0, 0, 0, 0});
      const LaunchOptions options = {.grid = 4, .block = 1, .cooperative = true};
      EXPECT_EQ(unit.launch(kernel, options, number.data(), there.data(), out.data()), cudaSuccess);
      return out.get() == std::vector<unsigned>(4, 42);
    });
  };
  EXPECT_EQ(run("good"), kSeeds);
  EXPECT_LT(run("bad"), kSeeds);
}

// ---- Clusters ----

/// Each block puts a number into each block's memory, waits for those of all and adds them up.
constexpr const char* kClusters = R"(
  template <int Bytes>
  static __device__ __forceinline__ void exchange(unsigned* out) {
    extern __shared__ __align__(16) unsigned words[];
    const auto own = static_cast<unsigned>(__cvta_generic_to_shared(words));
    const unsigned rank = rnnc_cluster_rank(), other = threadIdx.x;
    const unsigned barrier = own + blockDim.x * 16;
    if (other == 0) {
      rnnc_begin_barrier(barrier);
      rnnc_publish_barriers();
      rnnc_expect(barrier, blockDim.x * Bytes);
    }
    rnnc_sync_cluster();
    const unsigned value[4] = {rank + 1, rank + 2, rank + 3, rank + 4};
    rnnc_store_in_cluster<Bytes>(rnnc_address_in_cluster(own, other) + rank * 16, value,
                                 rnnc_address_in_cluster(barrier, other));
    while (!rnnc_has_arrived(barrier, 0)) rnnc_spin_pause();
    unsigned sum = 0;
    for (int i = 0; i < Bytes / 4; ++i) sum += words[other * 4 + i];
    out[blockIdx.x * blockDim.x + other] = sum;
  }
  extern "C" __global__ void by4(unsigned* out) { exchange<4>(out); }
  extern "C" __global__ void by8(unsigned* out) { exchange<8>(out); }
  extern "C" __global__ void by16(unsigned* out) { exchange<16>(out); }
)";

TEST(EmulatorClusters, ExchangeThroughSharedMemory) {
  const EmulatedUnit unit(kClusters);
  for (const unsigned cluster : {1U, 2U, 3U, 16U}) {
    for (const unsigned bytes : {4U, 8U, 16U}) {
      const std::string kernel = fmt::format("by{}", bytes);
      SCOPED_TRACE(fmt::format("{} in clusters of {}", kernel, cluster));
      const unsigned blocks = 4 * cluster;
      std::vector<unsigned> expected(size_t{blocks} * cluster);
      for (unsigned i = 0; i < expected.size(); ++i) {
        for (unsigned word = 0; word * 4 < bytes; ++word) expected[i] += i % cluster + word + 1;
      }
      const LaunchOptions options = {.grid = blocks,
                                     .block = cluster,
                                     .shared_bytes = size_t{cluster} * 16 + 16,
                                     .cluster = cluster};
      EXPECT_EQ(times_right([&] {
                  const DeviceNumbers<unsigned> out(std::vector<unsigned>(expected.size()));
                  EXPECT_EQ(unit.launch(kernel.c_str(), options, out.data()), cudaSuccess);
                  return out.get() == expected;
                }),
                kSeeds);
    }
  }
}

TEST(EmulatorClusters, AreOfOneBlockUnlessALaunchSays) {
  const EmulatedUnit unit(kClusters);
  const DeviceNumbers<unsigned> out(std::vector<unsigned>(3));
  EXPECT_EQ(unit.launch("by4", {.grid = 3, .block = 1, .shared_bytes = 32}, out.data()),
            cudaSuccess);
  EXPECT_EQ(out.get(), std::vector<unsigned>(3, 1));
}

// Only who waits for them.
TEST(EmulatorClusters, SeeStoresOnceTheirBytesAreCounted) {
  const EmulatedUnit unit(R"(
    template <bool Waits>
    static __device__ __forceinline__ void send(unsigned* out) {
      extern __shared__ __align__(16) unsigned words[];
      const auto own = static_cast<unsigned>(__cvta_generic_to_shared(words));
      rnnc_begin_barrier(own + 16);
      rnnc_publish_barriers();
      rnnc_sync_cluster();
      const unsigned value = 42;
      const unsigned next = (rnnc_cluster_rank() + 1) % 4;
      rnnc_store_in_cluster<4>(rnnc_address_in_cluster(own, next), &value,
                               rnnc_address_in_cluster(own + 16, next));
      rnnc_expect(own + 16, 4);  // may be there already
      while (Waits && !rnnc_has_arrived(own + 16, 0)) rnnc_spin_pause();
      out[blockIdx.x] = words[0];
      while (!rnnc_has_arrived(own + 16, 0)) rnnc_spin_pause();
    }
    extern "C" __global__ void good(unsigned* out) { send<true>(out); }
    extern "C" __global__ void bad(unsigned* out) { send<false>(out); })");
  const auto run = [&](const char* kernel) {
    return times_right([&] {
      const DeviceNumbers<unsigned> out(std::vector<unsigned>(8));
      const LaunchOptions options = {.grid = 8, .block = 1, .shared_bytes = 32, .cluster = 4};
      EXPECT_EQ(unit.launch(kernel, options, out.data()), cudaSuccess);
      return out.get() == std::vector<unsigned>(8, 42);
    });
  };
  EXPECT_EQ(run("good"), kSeeds);
  EXPECT_LT(run("bad"), kSeeds);
}

// ---- Launches ----

TEST(EmulatorLaunches, MayBeginBeforeTheOneBeforeEnds) {
  const EmulatedUnit unit(R"(
    extern "C" __global__ void first(float* values) {
      rnnc_begin();
      values[threadIdx.x] = threadIdx.x;
    }
    extern "C" __global__ void good(const float* values, float* to) {
      rnnc_begin();
      to[threadIdx.x] = values[threadIdx.x];
    }
    extern "C" __global__ void bad(const float* values, float* to) {
      const float value = values[threadIdx.x];
      rnnc_begin();
      to[threadIdx.x] = value;
    })");
  std::vector<float> expected(32);
  std::iota(expected.begin(), expected.end(), 0.0F);
  const auto run = [&](const char* kernel, bool overlaps) {
    return times_right([&] {
      const DeviceNumbers<float> values(std::vector<float>(32, -1));
      const DeviceNumbers<float> to(std::vector<float>(32));
      EXPECT_EQ(unit.launch("first", {}, values.data()), cudaSuccess);
      EXPECT_EQ(unit.launch(kernel, {.overlaps = overlaps}, values.data(), to.data()), cudaSuccess);
      return to.get() == expected;
    });
  };
  EXPECT_EQ(run("good", true), kSeeds);
  EXPECT_EQ(run("bad", false), kSeeds);
  EXPECT_LT(run("bad", true), kSeeds);
}

// ---- Faults ----

/// What is said of a launch that fails.
std::string fault_of(const EmulatedUnit& unit, const char* kernel, const LaunchOptions& options) {
  const DeviceNumbers<unsigned> words(std::vector<unsigned>(64));
  EXPECT_EQ(unit.launch(kernel, options, words.data()), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure) << "until the faults are taken";
  const std::vector<std::string> faults = emulator::take_faults();
  EXPECT_EQ(faults.size(), 1);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return faults.empty() ? "" : faults[0];
}

TEST(EmulatorFaults, SayWhoWaitsForWhat) {
  const EmulatedUnit unit(R"(
    extern "C" __global__ void parted(unsigned* words) {
      if (threadIdx.x < 32) rnnc_bar_sync(2, 64); else __syncthreads();
    }
    extern "C" __global__ void forever(unsigned* words) {
      while (rnnc_load_acquire(words) == 0) rnnc_spin_pause();
    }
    extern "C" __global__ void lost_lane(unsigned* words) {
      if (threadIdx.x == 5) return;
      words[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
    }
    extern "C" __global__ void outside(unsigned* words) {
      rnnc_copy<4>(64, reinterpret_cast<const char*>(words), true);
    })");
  EXPECT_EQ(
      fault_of(unit, "parted", {.block = 64}),
      "parted does not go on:\n"
      "  32 threads wait for their block at barrier 0, such as (32, 0, 0) of block (0, 0, 0)\n"
      "  32 threads wait for their block at barrier 2, such as (0, 0, 0) of block (0, 0, 0)");
  EXPECT_EQ(fault_of(unit, "forever", {.block = 2}),
            "forever does not go on:\n"
            "  2 threads go round in a loop that waits, such as (0, 0, 0) of block (0, 0, 0)");
  // Before or after the others come to wait for it.
  EXPECT_NE(fault_of(unit, "lost_lane", {}).find("warp"), std::string::npos);
  EXPECT_EQ(fault_of(unit, "outside", {.block = 1, .shared_bytes = 64}),
            "outside: an asynchronous copy ends outside of shared memory (thread (0, 0, 0) of "
            "block (0, 0, 0))");
}

TEST(EmulatorFaults, AreWritesToBlocksOfAClusterThatAreNotThere) {
  const EmulatedUnit unit(std::string(kClusters) + R"(
    static __device__ __forceinline__ void send(unsigned rank, unsigned at) {
      const unsigned value = 1;
      rnnc_store_in_cluster<4>(rnnc_address_in_cluster(at, rank), &value,
                               rnnc_address_in_cluster(8, rank));
    }
    extern "C" __global__ void early(unsigned*) {
      if (blockIdx.x == 1) send(0, 0);
    }
    extern "C" __global__ void ended(unsigned*) {
      rnnc_sync_cluster();
      if (blockIdx.x == 0) return;
      for (int i = 0; i < 100; ++i) rnnc_spin_pause();
      send(0, 0);
    }
    extern "C" __global__ void beside(unsigned*) {
      rnnc_sync_cluster();
      if (blockIdx.x == 1) send(0, 16);
      rnnc_sync_cluster();
    }
    extern "C" __global__ void stranger(unsigned*) {
      if (blockIdx.x == 1) send(2, 0);
    }
    extern "C" __global__ void uncounted(unsigned*) {
      rnnc_sync_cluster();
      if (blockIdx.x == 1) send(0, 0);
      rnnc_sync_cluster();
    }
    extern "C" __global__ void hasty(unsigned*) {
      rnnc_begin_barrier(8);
      rnnc_sync_cluster();
      if (blockIdx.x == 1) send(0, 0);
    }
    extern "C" __global__ void lost(unsigned*) {
      if (threadIdx.x == 0) __syncthreads(); else rnnc_sync_cluster();
    })");
  const LaunchOptions options = {.grid = 2, .block = 1, .shared_bytes = 16, .cluster = 2};
  const std::string by = " (thread (0, 0, 0) of block (1, 0, 0))";
  EXPECT_EQ(fault_of(unit, "early", options),
            "early: a block of the cluster that may not have begun is written to" + by);
  EXPECT_EQ(fault_of(unit, "ended", options),
            "ended: a block of the cluster that has ended is written to" + by);
  EXPECT_EQ(fault_of(unit, "beside", options),
            "beside: a store in a cluster ends outside of shared memory" + by);
  EXPECT_EQ(fault_of(unit, "stranger", options),
            "stranger: an address is asked for that no block of the cluster has" + by);
  EXPECT_EQ(fault_of(unit, "uncounted", options),
            "uncounted: a store in a cluster is counted by no barrier of the block" + by);
  const std::string lost = fault_of(unit, "lost", {.grid = 2, .block = 2, .cluster = 2});
  EXPECT_NE(lost.find("2 threads wait for their cluster"), std::string::npos) << lost;

  // By chance the store is late, or the block whose memory it is for.
  std::set<std::string> faults;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    emulator::set_seed(seed);
    EXPECT_EQ(unit.launch("hasty", options, nullptr), cudaSuccess);
    cudaDeviceSynchronize();
    for (const std::string& fault : emulator::take_faults()) {
      faults.insert(fault.substr(0, fault.find(" (")));
    }
  }
  EXPECT_EQ(faults,
            (std::set<std::string>{
                "hasty: a block ends while others of its cluster write to its shared memory",
                "hasty: a block of the cluster that has ended is written to"}));
}

TEST(EmulatorFaults, AreWritesBesideMemory) {
  const EmulatedUnit unit(
      R"(extern "C" __global__ void beside(unsigned* words) { words[64] = 1; })");
  {
    const DeviceNumbers<unsigned> words(std::vector<unsigned>(64));
    EXPECT_EQ(unit.launch("beside", {.block = 1}, words.data()), cudaSuccess);
  }
  EXPECT_EQ(emulator::take_faults(),
            std::vector<std::string>{
                "something wrote 0 bytes past the end of 256 bytes of device memory"});
}

TEST(EmulatorFaults, LaunchesThatDoNotFitAreRefused) {
  const EmulatedUnit unit(R"(extern "C" __global__ void nothing() {})");
  const auto blocks = static_cast<unsigned>(emulator::settings().multiprocessors);
  EXPECT_EQ(unit.launch("nothing", {.grid = 2 * blocks, .block = 1024, .cooperative = true}),
            cudaSuccess);
  EXPECT_EQ(unit.launch("nothing", {.grid = 2 * blocks + 1, .block = 1024, .cooperative = true}),
            cudaErrorCooperativeLaunchTooLarge);
  EXPECT_EQ(unit.launch("nothing", {.block = 1025}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(unit.launch("nothing", {.grid = 6, .cluster = 4}), cudaErrorInvalidClusterSize);
  EXPECT_EQ(unit.launch("nothing", {.grid = 17, .cluster = 17}), cudaErrorInvalidClusterSize);
  EXPECT_EQ(unit.launch("nothing", {.grid = 16, .block = 1024, .cluster = 16}),
            cudaErrorLaunchOutOfResources);
  EXPECT_EQ(unit.launch("nothing", {.shared_bytes = 49153}), cudaErrorInvalidConfiguration);
  cudaGetLastError();
}

}  // namespace
}  // namespace rnnc::test
