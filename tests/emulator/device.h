/// The CUDA that generated units use, in C++: keywords, variables, intrinsics, and the functions of
/// codegen/cuda/device/ptx.cuh. Stands before a unit's text (nvrtc.cpp) and includes as little as
/// it can: it is compiled again for each unit.
#pragma once

#include "tests/emulator/machine.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_assume(condition) static_cast<void>(0)

namespace rnnc::emulator {
static Machine* machine = nullptr;
static const ThreadPlace* here = nullptr;

// Offsets of variables that kernels declare in shared memory; each is there in every block.
static unsigned static_shared_end = kDynamicShared;
static unsigned reserve_shared(unsigned bytes) {
  const unsigned offset = (static_shared_end + 15) / 16 * 16;
  static_shared_end = offset + bytes;
  if (static_shared_end > kDynamicShared + kStaticShared) {
    machine->fail("a unit declares too much shared memory");
  }
  return offset;
}

template <typename To, typename From>
static inline To bits_of(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
}  // namespace rnnc::emulator

#define threadIdx (rnnc::emulator::here->thread)
#define blockIdx (rnnc::emulator::here->block)
#define blockDim (rnnc::emulator::here->block_size)
#define gridDim (rnnc::emulator::here->grid_size)

// ---- CUDA's types and functions. ----

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
static inline float2 make_float2(float x, float y) {
  return {x, y};
}

extern "C" {
float fabsf(float);
float floorf(float);
float rintf(float);
float expf(float);
float logf(float);
float log1pf(float);
float expm1f(float);
float sqrtf(float);
float tanhf(float);
float erff(float);
float erfcf(float);
float sinf(float);
float cosf(float);
float powf(float, float);
float fmodf(float, float);
float copysignf(float, float);
float fmaf(float, float, float);
}
static inline float rsqrtf(float a) {
  return 1.0f / sqrtf(a);
}
template <typename A, typename B>
static inline auto min(A a, B b) -> decltype(true ? A() : B()) {
  return a < b ? a : b;
}
template <typename A, typename B>
static inline auto max(A a, B b) -> decltype(true ? A() : B()) {
  return a > b ? a : b;
}

static inline float __uint_as_float(unsigned bits) {
  return rnnc::emulator::bits_of<float>(bits);
}
static inline unsigned __float_as_uint(float value) {
  return rnnc::emulator::bits_of<unsigned>(value);
}
static inline float __int_as_float(int bits) {
  return rnnc::emulator::bits_of<float>(bits);
}
static inline bool __isGlobal(const void*) {
  return true;
}
static inline unsigned long long __cvta_generic_to_global(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer);
}
static inline void* __cvta_global_to_generic(unsigned long long address) {
  return reinterpret_cast<void*>(address);
}
template <typename T>
static inline T __ldg(const T* place) {
  return *place;
}
static inline unsigned long long __cvta_generic_to_shared(const void* pointer) {
  const long long offset =
      static_cast<const unsigned char*>(pointer) - rnnc::emulator::here->shared;
  if (offset < 0 || offset >= rnnc::emulator::kDynamicShared + rnnc::emulator::kStaticShared) {
    rnnc::emulator::machine->fail("an address that is not in shared memory is taken for one");
  }
  return static_cast<unsigned long long>(offset);
}

// A thread runs until it waits, so that this happens at once.
static inline int atomicMin(int* place, int value) {
  int old = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (value < old && !__atomic_compare_exchange_n(place, &old, value, false, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED)) {
  }
  return old;
}
static inline unsigned atomicInc(unsigned* place, unsigned last) {
  rnnc::emulator::machine->release();
  const unsigned old = *place;
  *place = old >= last ? 0 : old + 1;
  return old;
}

static inline void __syncthreads() {
  rnnc::emulator::machine->sync_block(0, 0);
}
static inline void __syncwarp(unsigned lanes = 0xffffffffu) {
  rnnc::emulator::LaneWork work;
  work.lanes = lanes;
  rnnc::emulator::machine->sync_warp(work);
}
template <typename T>
static inline T rnnc_emulated_shuffle(unsigned lanes, T value, unsigned source) {
  static_assert(sizeof(T) == 4, "words");
  rnnc::emulator::LaneWork work;
  work.work = rnnc::emulator::WarpWork::Shuffle;
  work.lanes = lanes;
  work.word = rnnc::emulator::bits_of<unsigned>(value);
  work.source = source;
  rnnc::emulator::machine->sync_warp(work);
  return rnnc::emulator::bits_of<T>(work.result);
}
template <typename T>
static inline T __shfl_sync(unsigned lanes, T value, int source) {
  return rnnc_emulated_shuffle(lanes, value, source % 32u);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned lanes, T value, int bits) {
  return rnnc_emulated_shuffle(lanes, value, rnnc::emulator::here->lane ^ bits);
}
static inline unsigned __ballot_sync(unsigned lanes, int condition) {
  rnnc::emulator::LaneWork work;
  work.work = rnnc::emulator::WarpWork::Ballot;
  work.lanes = lanes;
  work.word = condition != 0;
  rnnc::emulator::machine->sync_warp(work);
  return work.result;
}
static inline int __ffs(int word) {
  return __builtin_ffs(word);
}
static inline int __any_sync(unsigned lanes, int condition) {
  return __ballot_sync(lanes, condition) != 0;
}

// ---- Functions of ptx.cuh. ----

enum class rnnc_engine { f32, split, tf32, bf16, f16 };

static inline float rnnc_from_f16(unsigned short bits) {
  const unsigned magnitude = bits & 0x7fffu;
  const unsigned sign = (bits & 0x8000u) << 16;
  if (magnitude < 0x400u) {  // with a fixed exponent
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return __uint_as_float(__float_as_uint(value) | sign);
  }
  if (magnitude >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  return __uint_as_float(sign | ((magnitude << 13) + (112u << 23)));
}
// To the nearest, to even where there are two.
static inline unsigned short rnnc_to_f16(float value) {
  const unsigned all = __float_as_uint(value);
  const unsigned sign = all >> 16 & 0x8000u;
  const unsigned bits = all & 0x7fffffffu;
  if (bits > 0x7f800000u) return 0x7fff;
  if (bits >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);
  if (bits < 0x38800000u) {  // adding 0.5 rounds to multiples of 2^-24
    return static_cast<unsigned short>(
        sign | (__float_as_uint(__uint_as_float(bits) + 0.5f) - __float_as_uint(0.5f)));
  }
  const unsigned rounded = bits + 0xfffu + (bits >> 13 & 1u);
  return static_cast<unsigned short>(sign | ((rounded - (112u << 23)) >> 13));
}
static inline unsigned short rnnc_to_bf16(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static inline unsigned rnnc_to_tf32(float value) {
  const unsigned bits = __float_as_uint(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits & 0xffffe000u;
  return (bits + 0x1000u) & 0xffffe000u;
}
static inline float rnnc_max(float a, float b) {
  return a != a || b != b ? __uint_as_float(0x7fffffffu) : a > b ? a : b;
}
static inline float rnnc_min(float a, float b) {
  return a != a || b != b ? __uint_as_float(0x7fffffffu) : a < b ? a : b;
}
static inline float rnnc_reciprocal(float a) {
  return 1.0f / a;
}
static inline float rnnc_near_exp2(float a) {
  return __builtin_exp2f(a);
}
static inline float rnnc_near_divide(float a, float b) {
  return a / b;
}
static inline float rnnc_near_sqrt(float a) {
  return __builtin_sqrtf(a);
}

static inline void rnnc_keep_here(unsigned&) {}
template <typename T>
static inline T* rnnc_kept(T* address) {
  return address;
}
static inline unsigned rnnc_kept(unsigned address) {
  return address;
}

static inline void rnnc_emulated_multiply(rnnc::emulator::LaneWork& work, const unsigned* low,
                                          const unsigned* high, const unsigned* b) {
  work.a[0] = low;
  work.a[1] = high;
  work.a[2] = low + 1;
  work.a[3] = high + 1;
  work.b[0] = b;
  work.b[1] = b + 1;
  rnnc::emulator::machine->sync_warp(work);
}
template <rnnc_engine Engine>
static inline void rnnc_multiply_tile(float* sum, const unsigned* low, const unsigned* high,
                                      const unsigned* b) {
  using rnnc::emulator::WarpWork;
  rnnc::emulator::LaneWork work;
  work.work = Engine == rnnc_engine::bf16  ? WarpWork::MultiplyBf16
              : Engine == rnnc_engine::f16 ? WarpWork::MultiplyF16
                                           : WarpWork::MultiplyTf32;
  work.sum = sum;
  rnnc_emulated_multiply(work, low, high, b);
}
static inline void rnnc_multiply_parts(float* large, float* small, const unsigned* low,
                                       const unsigned* high, const unsigned* b) {
  rnnc::emulator::LaneWork work;
  work.work = rnnc::emulator::WarpWork::MultiplyParts;
  work.sum = large;
  work.small = small;
  rnnc_emulated_multiply(work, low, high, b);
}

template <int Bytes>
static inline void rnnc_copy(unsigned to, const char* from, bool inside) {
  rnnc::emulator::machine->copy(to, from, Bytes, inside);
}
static inline void rnnc_load_shared(unsigned address, unsigned* words) {
  const unsigned char* const from = rnnc::emulator::here->shared + address;
  __cvta_generic_to_shared(from + 15);
  if (address % 16 != 0) {
    rnnc::emulator::machine->fail("rnnc_load_shared reads an address that is no multiple of 16");
  }
  __builtin_memcpy(words, from, 16);
}
static inline void rnnc_end_copies() {
  rnnc::emulator::machine->end_copies();
}
static inline void rnnc_wait_copies(int pending) {
  rnnc::emulator::machine->wait_copies(pending);
}

static inline void rnnc_begin_barrier(unsigned barrier) {
  rnnc::emulator::machine->begin_barrier(barrier);
}
static inline void rnnc_publish_barriers() {}
static inline void rnnc_expect(unsigned barrier, unsigned bytes) {
  rnnc::emulator::machine->expect(barrier, bytes);
}
static inline void rnnc_await(unsigned barrier, unsigned parity) {
  rnnc::emulator::machine->await(barrier, parity);
}
static inline void rnnc_copy_bulk(unsigned to, const char* from, int bytes, unsigned barrier) {
  rnnc::emulator::machine->copy_bulk(to, from, static_cast<unsigned>(bytes), barrier);
}

template <int Bytes>
static inline void rnnc_poll(const void* from, unsigned* words) {
  if (reinterpret_cast<unsigned long long>(from) % Bytes != 0) {
    rnnc::emulator::machine->fail("rnnc_poll reads an address that is not a multiple of its size");
  }
  words[0] = 0;
  __builtin_memcpy(words, from, Bytes);
}
template <int Bytes>
static inline void rnnc_publish(void* to, const unsigned* words) {
  if (reinterpret_cast<unsigned long long>(to) % Bytes != 0) {
    rnnc::emulator::machine->fail("rnnc_publish writes an address that is no multiple of its size");
  }
  rnnc::emulator::machine->publish(to, words, Bytes);
}
static inline unsigned rnnc_cluster_rank() {
  return rnnc::emulator::here->cluster_rank;
}
static inline void rnnc_sync_cluster() {
  rnnc::emulator::machine->sync_cluster();
}
static inline unsigned rnnc_address_in_cluster(unsigned shared_address, unsigned rank) {
  if (rank >= rnnc::emulator::here->cluster_size) {
    rnnc::emulator::machine->fail("an address is asked for that no block of the cluster has");
  }
  return shared_address | (rank + 1) << rnnc::emulator::kClusterRankShift;
}
template <int Bytes>
static inline void rnnc_store_in_cluster(unsigned to, const unsigned* words, unsigned barrier) {
  rnnc::emulator::machine->store_in_cluster(to, words, Bytes, barrier);
}
// Here the look that comes too early is the one that waits.
static inline bool rnnc_has_arrived(unsigned barrier, unsigned parity) {
  rnnc::emulator::machine->await(barrier, parity);
  return true;
}
static inline void rnnc_arrive(unsigned* counter) {
  rnnc::emulator::machine->release();
  ++*counter;
}
static inline unsigned rnnc_load_acquire(const unsigned* from) {
  return *static_cast<const volatile unsigned*>(from);
}
static inline void rnnc_spin_pause() {
  rnnc::emulator::machine->pause();
}
static inline unsigned rnnc_clock() {
  return 0;
}
static inline void rnnc_spend(unsigned, unsigned) {
  rnnc::emulator::machine->pause();
}
static inline void rnnc_sync_warp() {
  __syncwarp();
}
static inline void rnnc_bar_sync(int id, int threads) {
  rnnc::emulator::machine->sync_block(static_cast<unsigned>(id), static_cast<unsigned>(threads));
}
[[noreturn]] static inline void rnnc_give_up() {
  __builtin_trap();
}
static inline void rnnc_prefetch(const void* from) {
  static_cast<void>(*static_cast<const volatile char*>(from));  // what cannot be read is an error
}
static inline unsigned long long rnnc_globaltimer() {
  return rnnc::emulator::machine->nanoseconds();
}
static inline void rnnc_let_next_begin() {}
static inline void rnnc_wait_for_previous() {
  rnnc::emulator::machine->wait_for_previous();
}

// ---- Running a kernel. ----

namespace rnnc::emulator {

template <typename T>
struct Plain {
  typedef T type;
};
template <typename T>
struct Plain<const T> : Plain<T> {};
template <typename T>
struct Plain<T&> : Plain<T> {};

template <unsigned...>
struct Numbers {};
#if defined(__clang__)
template <typename, unsigned... I>
using NumbersOf = Numbers<I...>;
template <unsigned Count>
using NumbersTo = __make_integer_seq<NumbersOf, unsigned, Count>;
#else
template <unsigned Count>
using NumbersTo = Numbers<__integer_pack(Count)...>;
#endif

template <auto Kernel>
struct KernelOf;
template <typename... Parameters, void (*Kernel)(Parameters...)>
struct KernelOf<Kernel> {
  template <unsigned... I>
  static void run(void** parameters, Numbers<I...>) {
    Kernel(*static_cast<typename Plain<Parameters>::type*>(parameters[I])...);
  }
  static void run(void** parameters) { run(parameters, NumbersTo<sizeof...(Parameters)>()); }
  static constexpr unsigned sizes[sizeof...(Parameters) + 1] = {
      sizeof(typename Plain<Parameters>::type)..., 0};
  static constexpr KernelEntry entry(const char* name) {
    return {name, run, sizes, sizeof...(Parameters)};
  }
};

}  // namespace rnnc::emulator
