// What a number of threads can do at most on this machine's CPU: multiply-adds in registers, and
// bytes read from the second level caches. For bench/cpu_compare.py, which builds it:
//
//     c++ -std=c++20 -O2 -march=native -pthread bench/cpu_peak.cpp -o cpu_peak && ./cpu_peak 2
//
// prints {"flops": …, "l2_bytes_per_second": …}, of all threads together, the best of some rounds.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

#ifdef __AVX512F__
constexpr int kVectorBytes = 64;
#else
constexpr int kVectorBytes = 32;
#endif
using Vector [[gnu::vector_size(kVectorBytes)]] = float;
constexpr int kLanes = kVectorBytes / sizeof(float);
constexpr int kSums = 12;  // enough for two multiply-adds a cycle
constexpr int kRounds = 10;

/// Keeps the compiler from computing less than is written.
void use(Vector& value) {
  asm volatile("" : "+x"(value));
}

/// Floating-point operations done.
double multiply_add() {
  constexpr int kTimes = 2'000'000;
  Vector sums[kSums] = {};
  Vector a = {};
  Vector b = {};
  use(a);
  use(b);
  for (int i = 0; i < kTimes; ++i) {
#pragma GCC unroll 16
    for (Vector& sum : sums) sum = a * b + sum;
#pragma GCC unroll 16
    for (Vector& sum : sums) use(sum);
  }
  return 2.0 * kLanes * kSums * kTimes;
}

/// Bytes read of an array that fills half of the cache.
double read_cache(const std::vector<Vector>& array) {
  constexpr int kTimes = 400;
  Vector sums[4] = {};
  for (int i = 0; i < kTimes; ++i) {
    for (size_t j = 0; j + 4 <= array.size(); j += 4) {
#pragma GCC unroll 4
      for (size_t s = 0; s < 4; ++s) sums[s] += array[j + s];
    }
    for (Vector& sum : sums) use(sum);
  }
  return double(kTimes) * static_cast<double>(array.size() * sizeof(Vector));
}

/// The rates of all threads together, in the best of some rounds, which they begin at once.
template <typename Work>
double best_rate(int threads, const Work& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::array<double, kRounds>> rates(threads);
  std::barrier start(threads);
  {
    std::vector<std::jthread> crew;
    for (int thread = 0; thread < threads; ++thread) {
      crew.emplace_back([&, thread] {
        for (double& rate : rates[thread]) {
          start.arrive_and_wait();
          const auto begin = Clock::now();
          const double done = work();
          rate = done / std::chrono::duration<double>(Clock::now() - begin).count();
        }
      });
    }
  }
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    double total = 0;
    for (const auto& thread : rates) total += thread[round];
    best = std::max(best, total);
  }
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = std::max(count > 1 ? std::atoi(arguments[1]) : 1, 1);
  const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const double flops = best_rate(threads, multiply_add);
  const double bytes = best_rate(threads, [cache] {
    static thread_local const std::vector<Vector> array((cache > 0 ? cache : 1 << 20) / 2 /
                                                        sizeof(Vector));
    return read_cache(array);
  });
  std::printf("{\"flops\": %.4g, \"l2_bytes_per_second\": %.4g}\n", flops, bytes);
}
