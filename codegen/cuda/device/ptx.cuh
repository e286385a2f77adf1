// What CUDA C++ has no spelling for: one function per instruction or two, and no PTX elsewhere.
// Every unit starts with it. RNNC_EMULATED: the functions come from tests/emulator/device.h, which
// has each of them in plain C++.

#ifndef RNNC_EMULATED

enum class rnnc_engine {
  f32,    // exact, on the ordinary units
  split,  // f32 in parts on tensor cores, to much the same accuracy (rnnc_tile_sums)
  tf32,   // the others on tensor cores
  bf16,
  f16,
};

// ---- Numbers. ----

static __device__ __forceinline__ float rnnc_from_f16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
static __device__ __forceinline__ unsigned short rnnc_to_f16(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
static __device__ __forceinline__ unsigned short rnnc_to_bf16(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
// To the nearest, away from zero where there are two.
static __device__ __forceinline__ unsigned rnnc_to_tf32(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}
// NaN if either is.
static __device__ __forceinline__ float rnnc_max(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
static __device__ __forceinline__ float rnnc_min(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
// Within an ulp, and without the branch that a division has: in chains of dependent work the paths
// of a warp would take turns. What would be below 2^-126 is 0.
static __device__ __forceinline__ float rnnc_reciprocal(float a) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
}
// 2^a, a / b of normal b, and roots, within 2 ulp. What would be below 2^-126 is 0.
static __device__ __forceinline__ float rnnc_near_exp2(float a) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
}
static __device__ __forceinline__ float rnnc_near_divide(float a, float b) {
  float result;
  asm("div.full.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
static __device__ __forceinline__ float rnnc_near_sqrt(float a) {
  float result;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
}

// Keeps what is computed of a word where it stands: else it would be computed before a loop that
// does not change the word, and take registers all the time.
static __device__ __forceinline__ void rnnc_keep_here(unsigned& word) {
  asm volatile("" : "+r"(word));
}
// Keeps an address in registers, which is there before what follows: else it would be computed
// again at each use.
template <typename T>
static __device__ __forceinline__ T* rnnc_kept(T* address) {
  asm volatile("" : "+l"(address));
  return address;
}
static __device__ __forceinline__ unsigned rnnc_kept(unsigned address) {
  asm volatile("" : "+r"(address));
  return address;
}

// sum[16][8] += a[16][k] * b[8][k]^T for the k of two words. In lane 4 * i + j, `low` and `high`
// are two words of rows i and i + 8 of `a`, `b` is of row i of `b`, all of the same k, which are no
// other lane's of that i. `sum` holds rows i and i + 8, columns 2j and 2j + 1.
template <rnnc_engine Engine>
static __device__ __forceinline__ void rnnc_multiply_tile(float* sum, const unsigned* low,
                                                          const unsigned* high, const unsigned* b) {
#define RNNC_MMA(kind)                                         \
  asm("mma.sync.aligned." kind                                 \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "        \
      "{%0, %1, %2, %3};"                                      \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) \
      : "r"(low[0]), "r"(high[0]), "r"(low[1]), "r"(high[1]), "r"(b[0]), "r"(b[1]))
  if constexpr (Engine == rnnc_engine::bf16) {
    RNNC_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  } else if constexpr (Engine == rnnc_engine::f16) {
    RNNC_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  } else {
    RNNC_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  }
#undef RNNC_MMA
}

// Likewise of f32 in parts, large ones and small ones (rnnc_tile_sums): a part is rounded to the
// nearest, away from zero where there are two, without an instruction for conversions, which are
// slow. (Of a NaN whose bits are all ones this would make a zero.) One statement: NVRTC's
// optimiser takes half as long for a kernel, and parts are made once all the same.
static __device__ __forceinline__ void rnnc_multiply_parts(float* large, float* small,
                                                           const unsigned* low,
                                                           const unsigned* high,
                                                           const unsigned* b) {
  asm(R"({
    .reg .b32 a<4>, b<2>, small_a<4>, small_b<2>;
    add.u32 a0, %8, 0x1000;   and.b32 a0, a0, 0xffffe000;  sub.f32 small_a0, %8, a0;
    add.u32 a1, %9, 0x1000;   and.b32 a1, a1, 0xffffe000;  sub.f32 small_a1, %9, a1;
    add.u32 a2, %10, 0x1000;  and.b32 a2, a2, 0xffffe000;  sub.f32 small_a2, %10, a2;
    add.u32 a3, %11, 0x1000;  and.b32 a3, a3, 0xffffe000;  sub.f32 small_a3, %11, a3;
    add.u32 b0, %12, 0x1000;  and.b32 b0, b0, 0xffffe000;  sub.f32 small_b0, %12, b0;
    add.u32 b1, %13, 0x1000;  and.b32 b1, b1, 0xffffe000;  sub.f32 small_b1, %13, b1;
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
        {%4, %5, %6, %7}, {a0, a1, a2, a3}, {small_b0, small_b1}, {%4, %5, %6, %7};
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
        {%4, %5, %6, %7}, {small_a0, small_a1, small_a2, small_a3}, {b0, b1}, {%4, %5, %6, %7};
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
        {%0, %1, %2, %3}, {a0, a1, a2, a3}, {b0, b1}, {%0, %1, %2, %3};
  })"
      : "+f"(large[0]), "+f"(large[1]), "+f"(large[2]), "+f"(large[3]), "+f"(small[0]),
        "+f"(small[1]), "+f"(small[2]), "+f"(small[3])
      : "r"(low[0]), "r"(high[0]), "r"(low[1]), "r"(high[1]), "r"(b[0]), "r"(b[1]));
}

// ---- Copies to shared memory. ----

// Copies Bytes to shared memory at address `to`, or zeros if nothing is `inside`.
template <int Bytes>
static __device__ __forceinline__ void rnnc_copy(unsigned to, const char* from, bool inside) {
  const auto global = static_cast<unsigned long long>(__cvta_generic_to_global(from));
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(global), "r"(inside ? 16 : 0)
                 : "memory");
  } else if constexpr (Bytes >= 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(to), "l"(global), "n"(Bytes), "r"(inside ? Bytes : 0)
                 : "memory");
  } else {
    unsigned short bits = 0;
    if (inside) bits = *reinterpret_cast<const unsigned short*>(from);
    asm volatile("st.shared.u16 [%0], %1;" : : "r"(to), "h"(bits) : "memory");
  }
}
// 16 bytes of shared memory. (Through a pointer, a load waits for the place of the block in its
// cluster, of which the pointer's address is made each time.)
static __device__ __forceinline__ void rnnc_load_shared(unsigned address, unsigned* words) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}
// What was copied since the last call is one group.
static __device__ __forceinline__ void rnnc_end_copies() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
// Waits until at most `pending` groups are on their way, or fewer.
static __device__ __forceinline__ void rnnc_wait_copies(int pending) {
  switch (pending) {
    case 0:
      asm volatile("cp.async.wait_group 0;" : : : "memory");
      break;
    case 1:
      asm volatile("cp.async.wait_group 1;" : : : "memory");
      break;
    case 2:
      asm volatile("cp.async.wait_group 2;" : : : "memory");
      break;
    case 3:
      asm volatile("cp.async.wait_group 3;" : : : "memory");
      break;
    case 4:
      asm volatile("cp.async.wait_group 4;" : : : "memory");
      break;
    case 5:
      asm volatile("cp.async.wait_group 5;" : : : "memory");
      break;
    case 6:
      asm volatile("cp.async.wait_group 6;" : : : "memory");
      break;
    default:
      asm volatile("cp.async.wait_group 7;" : : : "memory");
      break;
  }
}

#if __CUDA_ARCH__ >= 900
// A barrier that a stage's copies complete once `rnnc_expect` says how many bytes they are, which
// may be after they began.
static __device__ __forceinline__ void rnnc_begin_barrier(unsigned barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(barrier) : "memory");
}
// Makes new barriers known to copies.
static __device__ __forceinline__ void rnnc_publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
static __device__ __forceinline__ void rnnc_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(barrier), "r"(bytes)
               : "memory");
}
static __device__ __forceinline__ void rnnc_await(unsigned barrier, unsigned parity) {
  unsigned there;
  do {
    asm volatile(
        "{\n"
        ".reg .pred there;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 there, [%1], %2;\n"
        "selp.u32 %0, 1, 0, there;\n"
        "}"
        : "=r"(there)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (there == 0);
}
static __device__ __forceinline__ void rnnc_copy_bulk(unsigned to, const char* from, int bytes,
                                                      unsigned barrier) {
  const auto global = static_cast<unsigned long long>(__cvta_generic_to_global(from));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(to), "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}
#endif

// ---- Between the threads of a launch. ----

// Words that other blocks may be writing: from the L2 cache, all Bytes at once, in no order with
// other accesses. 2 bytes are the low half of a word, whose other half becomes zero.
template <int Bytes>
static __device__ __forceinline__ void rnnc_poll(const void* from, unsigned* words) {
  static_assert(Bytes == 2 || Bytes == 4 || Bytes == 8 || Bytes == 16, "words or half a word");
  const auto global = static_cast<unsigned long long>(__cvta_generic_to_global(from));
  if constexpr (Bytes == 16) {
    asm volatile(
        "{\n"
        ".reg .b64 first, second;\n"
        "ld.relaxed.gpu.global.v2.b64 {first, second}, [%4];\n"
        "mov.b64 {%0, %1}, first;\n"
        "mov.b64 {%2, %3}, second;\n"
        "}"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
        : "l"(global)
        : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile(
        "{\n"
        ".reg .b64 both;\n"
        "ld.relaxed.gpu.global.b64 both, [%2];\n"
        "mov.b64 {%0, %1}, both;\n"
        "}"
        : "=r"(words[0]), "=r"(words[1])
        : "l"(global)
        : "memory");
  } else if constexpr (Bytes == 4) {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(words[0]) : "l"(global) : "memory");
  } else {
    unsigned short half;
    asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(half) : "l"(global) : "memory");
    words[0] = half;
  }
}
// Stores what others poll; 2 bytes are those of the low half of a word. Two words at a place that
// is aligned to both are there together, or neither is.
template <int Bytes>
static __device__ __forceinline__ void rnnc_publish(void* to, const unsigned* words) {
  static_assert(Bytes == 2 || Bytes == 4 || Bytes == 8 || Bytes == 16, "words or half a word");
  const auto global = static_cast<unsigned long long>(__cvta_generic_to_global(to));
  if constexpr (Bytes == 16) {
    asm volatile(
        "{\n"
        ".reg .b64 first, second;\n"
        "mov.b64 first, {%1, %2};\n"
        "mov.b64 second, {%3, %4};\n"
        "st.relaxed.gpu.global.v2.b64 [%0], {first, second};\n"
        "}"
        :
        : "l"(global), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
        : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile(
        "{\n"
        ".reg .b64 both;\n"
        "mov.b64 both, {%1, %2};\n"
        "st.relaxed.gpu.global.b64 [%0], both;\n"
        "}"
        :
        : "l"(global), "r"(words[0]), "r"(words[1])
        : "memory");
  } else if constexpr (Bytes == 4) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(global), "r"(words[0]) : "memory");
  } else {
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;"
                 :
                 : "l"(global), "h"(static_cast<unsigned short>(words[0]))
                 : "memory");
  }
}
#if __CUDA_ARCH__ >= 900
// Which block of its cluster this is; 0 without clusters.
static __device__ __forceinline__ unsigned rnnc_cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// As __syncthreads for all threads of a cluster's blocks that have not ended. A block's shared
// memory is there for others from the first one on and until the last one.
static __device__ __forceinline__ void rnnc_sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;" : : : "memory");
  asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
}
// What block `rank` of the cluster has at this address of shared memory, for
// rnnc_store_in_cluster.
static __device__ __forceinline__ unsigned rnnc_address_in_cluster(unsigned shared_address,
                                                                   unsigned rank) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address), "r"(rank));
  return address;
}
// Stores to shared memory of a block of the cluster that has not ended, and counts the bytes at a
// barrier of that block. Nobody else orders the store.
template <int Bytes>
static __device__ __forceinline__ void rnnc_store_in_cluster(unsigned to, const unsigned* words,
                                                             unsigned barrier) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "words");
  if constexpr (Bytes == 16) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, "
        "[%5];"
        :
        : "r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(barrier)
        : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, [%3];"
        :
        : "r"(to), "r"(words[0]), "r"(words[1]), "r"(barrier)
        : "memory");
  } else {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 :
                 : "r"(to), "r"(words[0]), "r"(barrier)
                 : "memory");
  }
}
// Whether a phase of a barrier has ended, of which even ones have parity 0; what was stored in the
// cluster can be read then.
static __device__ __forceinline__ bool rnnc_has_arrived(unsigned barrier, unsigned parity) {
  unsigned there;
  asm volatile(
      "{\n"
      ".reg .pred there;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 there, [%1], %2;\n"
      "selp.u32 %0, 1, 0, there;\n"
      "}"
      : "=r"(there)
      : "r"(barrier), "r"(parity)
      : "memory");
  return there != 0;
}
#else
// No plan for older GPUs has any of these; units for them compile with all of the text.
static __device__ __forceinline__ void rnnc_begin_barrier(unsigned) {}
static __device__ __forceinline__ void rnnc_publish_barriers() {}
static __device__ __forceinline__ void rnnc_expect(unsigned, unsigned) {}
static __device__ __forceinline__ void rnnc_sync_cluster() {}
static __device__ __forceinline__ unsigned rnnc_address_in_cluster(unsigned, unsigned) {
  return 0;
}
template <int Bytes>
static __device__ __forceinline__ void rnnc_store_in_cluster(unsigned, const unsigned*, unsigned) {}
static __device__ __forceinline__ bool rnnc_has_arrived(unsigned, unsigned) {
  return true;
}
#endif
// Counts one more, after all that this thread has written.
static __device__ __forceinline__ void rnnc_arrive(unsigned* counter) {
  const auto global = static_cast<unsigned long long>(__cvta_generic_to_global(counter));
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" : : "l"(global) : "memory");
}
// What those who arrived had written can be read afterwards.
static __device__ __forceinline__ unsigned rnnc_load_acquire(const unsigned* from) {
  const auto global = static_cast<unsigned long long>(__cvta_generic_to_global(from));
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(global) : "memory");
  return value;
}
// In every loop that waits for other threads. Nothing here; the emulator lets them run.
static __device__ __forceinline__ void rnnc_spin_pause() {}
// So many cycles, at least.
static __device__ __forceinline__ unsigned rnnc_clock() {
  unsigned now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  return now;
}
static __device__ __forceinline__ void rnnc_spend(unsigned since, unsigned cycles) {
  while (rnnc_clock() - since < cycles) {
  }
}

static __device__ __forceinline__ void rnnc_sync_warp() {
  __syncwarp();
}
// As __syncthreads for whole warps, `threads` in all, that agree on the barrier: 1 to 15.
static __device__ __forceinline__ void rnnc_bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}
// Ends the launch, and the context with it.
static __device__ __forceinline__ void rnnc_give_up() {
  printf("rnnc: block %u, thread %u waited for others in vain\n", blockIdx.x, threadIdx.x);
  asm volatile("trap;");
}
// Brings what lies there into the L2 cache.
static __device__ __forceinline__ void rnnc_prefetch(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(from)));
}
// Nanoseconds.
static __device__ __forceinline__ unsigned long long rnnc_globaltimer() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

// ---- Programmatic dependent launch. ----

// The next launch may begin, which then waits for this one's end.
static __device__ __forceinline__ void rnnc_let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// The launches before this one have ended, and what they wrote can be read. Every thread calls it,
// those with nothing to do too, so that the end of a launch means that of all before it.
static __device__ __forceinline__ void rnnc_wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif  // RNNC_EMULATED
