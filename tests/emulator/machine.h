/// What generated units see of the emulator. It includes nothing, so that units compile quickly.
#pragma once

namespace rnnc::emulator {

struct Index {
  unsigned x = 1, y = 1, z = 1;
};

/// Where a thread is, of which CUDA's variables tell.
struct ThreadPlace {
  Index thread, block, block_size, grid_size;
  unsigned lane = 0;                // in its warp
  unsigned cluster_rank = 0;        // of the block
  unsigned cluster_size = 1;        // blocks
  unsigned char* shared = nullptr;  // memory of the block; addresses there are offsets from here
};

/// Shared memory of a block: what a launch asks for, then what kernels declare with a size.
inline constexpr unsigned kDynamicShared = 227 * 1024;
inline constexpr unsigned kStaticShared = 256 * 1024;

/// An address in a cluster is one of shared memory, and above it 1 more than the block's rank; 0
/// there is the block that asks.
inline constexpr unsigned kClusterRankShift = 24;

/// What the lanes of a warp do together. The lane that comes last does it for all.
enum class WarpWork {
  Sync,
  Shuffle,
  Ballot,
  // Products, of all lanes.
  MultiplyBf16,
  MultiplyF16,
  MultiplyTf32,
  MultiplyParts,
};
struct LaneWork {
  WarpWork work = WarpWork::Sync;
  unsigned lanes = 0xffffffffu;
  // Shuffle: of the lane to read from. Ballot: word != 0.
  unsigned word = 0;
  unsigned source = 0;
  unsigned result = 0;
  // Products: the fragments of mma.sync in PTX's order.
  const unsigned* a[4] = {};
  const unsigned* b[2] = {};
  float* sum = nullptr;
  float* small = nullptr;  // MultiplyParts: sums of what has a small factor
};

/// What a thread can ask for; all that waits lets other threads run.
class Machine {
 public:
  /// For `threads` threads of the block, or all that have not ended if 0.
  virtual void sync_block(unsigned barrier, unsigned threads) = 0;
  virtual void sync_warp(LaneWork& own) = 0;
  /// For all threads of the cluster that have not ended. What they published before can be seen.
  virtual void sync_cluster() = 0;
  /// A turn of a loop that waits.
  virtual void pause() = 0;
  virtual void wait_for_previous() = 0;

  /// Asynchronous copies: done now, or when the thread waits for them.
  virtual void copy(unsigned to, const void* from, unsigned bytes, bool inside) = 0;
  virtual void end_copies() = 0;
  virtual void wait_copies(unsigned pending) = 0;

  /// Barriers that count bytes, at addresses of shared memory.
  virtual void begin_barrier(unsigned barrier) = 0;
  virtual void expect(unsigned barrier, unsigned bytes) = 0;
  virtual void await(unsigned barrier, unsigned parity) = 0;
  virtual void copy_bulk(unsigned to, const void* from, unsigned bytes, unsigned barrier) = 0;

  /// A relaxed store, which others may see later than what follows it.
  virtual void publish(void* to, const void* from, unsigned bytes) = 0;
  /// The same to shared memory of a block of the cluster, of which a barrier counts the bytes.
  virtual void store_in_cluster(unsigned to, const void* from, unsigned bytes,
                                unsigned barrier) = 0;
  /// Others see all stores so far before what follows; also: something has changed.
  virtual void release() = 0;
  virtual unsigned long long nanoseconds() = 0;
  /// Ends the launch with an error.
  [[noreturn]] virtual void fail(const char* why) = 0;

 protected:
  ~Machine() = default;
};

/// A kernel of a unit; `name` is null after the last.
struct KernelEntry {
  const char* name;
  void (*run)(void** parameters);
  const unsigned* sizes;  // of parameters, in bytes
  unsigned parameters;
};

/// What a unit's `rnnc_emulated_unit()` returns.
struct Unit {
  Machine** machine;
  const ThreadPlace** here;    // of the thread that runs
  const unsigned* shared_end;  // of the variables that kernels declare, so far
  const KernelEntry* kernels;
};

}  // namespace rnnc::emulator
