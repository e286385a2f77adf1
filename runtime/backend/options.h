/// How a program is compiled, and what its calls may come with (runtime/program/program.h).
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "codegen/cpu/cpu_target.h"
#include "ir/base/dtype.h"
#include "ir/graph/graph.h"
#include "passes/options/pass_set.h"
#include "passes/options/strategy.h"
#include "runtime/backend/device.h"

namespace rnnc {

inline constexpr int64_t kDefaultCacheLimit = int64_t{1} << 30;

/// Where a program on a GPU has the memory that it keeps: from the caller, as with PyTorch's
/// allocator, or if both functions are null from CUDA.
struct DeviceAllocator {
  /// Memory of the program's device, which is current, aligned to 256 bytes; null: there is none.
  /// `stream` is the one that uses it first: null, which is waited for.
  void* (*allocate)(void* context, size_t bytes, void* stream) = nullptr;
  /// Nothing on the device uses the memory any more.
  void (*release)(void* context, void* memory) = nullptr;
  void* context = nullptr;

  explicit operator bool() const { return allocate != nullptr; }
};

struct CompileOptions {
  DimBindings dims = {};  // values of the Graph's symbols; defaults fill the rest
  DType dtype =
      DType::f32;  // storage of inputs, params and outputs. f64: CPU only; bf16 and f16: GPU only
  /// Of params and their gradients: f32, where arrays are 16-bit. What products take of them is
  /// rounded when they change, and that is all it costs.
  std::optional<DType> param_dtype = {};
  Device device = {};       // the CPU unless said otherwise
  bool allow_tf32 = false;  // GPU, f32: products may round their operands to TF32
  int threads = 0;          // CPU, at most 4096: 0 means one per hardware thread
  bool openmp = false;      // CPU: work is done by threads of the process's OpenMP runtime, if any
  CpuTarget cpu = {};       // CPU: which instructions, how wide vectors; a width may change bits
  /// Of compiled kernels, which are loaded as code: it is left alone, and `Program::notes` says so,
  /// if others than its owner may write there. Empty: nothing is kept on disk.
  std::filesystem::path cache_directory = {};
  /// Bytes that it may have; what was not used for longest goes first.
  int64_t cache_limit = kDefaultCacheLimit;
  /// Steps per chunk of the plan; 0: chosen from the batch size, and at most the steps prepared
  /// for. With a number, calls in pieces that are multiples of it give the bits of one call,
  /// whatever each was prepared for.
  int64_t chunk = 0;
  /// Run from each sequence's last step to its first. The graph must run forward throughout.
  bool reverse = false;
  PassSet passes = PassSet::all();
  /// GPU: launches of a chunk are captured once and replayed. Off for comparison.
  bool graphs = true;
  /// GPU: how recurrences of class block and dense run (passes/options/strategy.h). Where one
  /// cannot, preparing fails and says why; without a strategy there is always another way.
  Strategy strategy = Strategy::Any;
  /// GPU, resident recurrences: how their work lies on the GPU. 0: as the cost model likes best;
  /// more: so many places behind that, for comparison.
  int64_t tile_rank = 0;
  /// GPU, recurrences of class block and dense: preparing measures the best few of these, the best
  /// of each strategy unless one is given, and launches for each step, and keeps the fastest, which
  /// `cache_directory` remembers for this device, driver and compiler. Another may give other bits,
  /// so that what is remembered counts for programs with this option only. Preparing then runs
  /// calls on the default stream: not while a thread captures a CUDA graph.
  bool tune = false;
  DeviceAllocator allocator = {};  // GPU
  /// GPU: so many multiprocessors are left to what else runs there meanwhile, such as NCCL's kernels:
  /// resident kernels, whose blocks wait for one another, take the others.
  int spare_multiprocessors = 0;
};

/// What calls of a prepared shape may come with. Each has a plan of its own, so that calls without
/// them pay nothing.
struct SequenceFeatures {
  bool lengths = false;
  bool resets = false;
  friend auto operator<=>(const SequenceFeatures&, const SequenceFeatures&) = default;
};

}  // namespace rnnc
