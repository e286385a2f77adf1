/// rnnc's C++ API: compile a step Graph once, run it many times.
///
///     Unit unit("lstm.rnn", text);                               // frontend/unit.h
///     auto graph = unit.lower("LSTM", {});
///     auto program = Program::compile(*graph, {.dims = {{"I", 80}, {"H", 512}}});
///     program->prepare(/*batch=*/16, /*max_steps=*/100);
///     std::vector<char> workspace(*program->workspace_size(16, 100));
///     program->forward({.steps = 100, .batch = 16, .inputs = …, .params = …, .outputs = …,
///                       .workspace = workspace.data(), .workspace_bytes = workspace.size()});
///
/// `runtime/program/run.h` has a call that does all of that with named host arrays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/cpu/cpu_target.h"
#include "ir/base/dtype.h"
#include "ir/graph/graph.h"
#include "passes/options/pass_set.h"
#include "passes/options/strategy.h"
#include "runtime/backend/device.h"

namespace rnnc {

class Backend;
struct Plan;

inline constexpr int64_t kDefaultCacheLimit = int64_t{1} << 30;

struct CompileOptions {
  DimBindings dims = {};  // values of the Graph's symbols; defaults fill the rest
  DType dtype =
      DType::f32;  // storage of inputs, params and outputs. f64: CPU only; bf16 and f16: GPU only
  Device device = {};       // the CPU unless said otherwise
  bool allow_tf32 = false;  // GPU, f32: products may round their operands to TF32
  int threads = 0;          // CPU, at most 4096: 0 means one per hardware thread
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
};

/// What calls of a prepared shape may come with. Each has a plan of its own, so that calls without
/// them pay nothing.
struct SequenceFeatures {
  bool lengths = false;
  bool resets = false;
  friend auto operator<=>(const SequenceFeatures&, const SequenceFeatures&) = default;
};

/// One array of a program. `shape` is that of one step and one sequence.
struct ArrayInfo {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::f32;
  int64_t elements() const;  // product of `shape`; 0 if it is none of an array
};

/// What a program takes and gives, in order of declaration. Arrays are dense and row-major:
/// inputs and outputs [T, B, shape...], params [shape...], initial and final states
/// [B, shape...]. States have the compute type (f32 where storage is 16-bit).
///
/// Behind the declared states come the implied ones, which hold earlier values: `h@2` is what
/// `h[t-2]` reads at the next step, `x@1` what `x[t-1]` does. All states together are what a later
/// call needs to go on exactly where this one ended.
struct Signature {
  std::string name;
  std::vector<ArrayInfo> inputs, params, states, outputs;
  /// Whether a sequence may be run in pieces: false if a layer runs in reverse, whose first step is
  /// the sequence's last.
  bool streams = true;
  std::string in_reverse = {};  // what runs in reverse, for errors: "layer `GRU.1`"
};

/// What a prepared shape runs, for those who explain or measure it.
struct PreparedPlan {
  const Plan* plan = nullptr;       // until the shape is prepared for more steps
  PassSet passes = PassSet::all();  // the options', but Resident where the GPU refused it or
                                    // tuning found launches faster
  int64_t tile_rank = 0;
  int64_t spare_registers = 0;        // that its tiles leave, because the best of all spilled
  Strategy strategy = Strategy::Any;  // the options', or what tuning found fastest
};

/// A cudaStream_t on a GPU; unused on the CPU. nullptr is the default stream.
using Stream = void*;

/// Arguments of one forward call. Pointers are to the program's device and stay the caller's.
/// Lists line up with the Signature.
struct ForwardArgs {
  int64_t steps = 0;
  int64_t batch = 0;
  std::span<const void* const> inputs = {};
  std::span<const void* const> params = {};
  std::span<void* const> outputs = {};
  /// Empty, or one each; null: as declared (an implied state of a given one: its value).
  std::span<const void* const> initial_states = {};
  /// Empty, or one each; null: not wanted. May be the memory of `initial_states`.
  std::span<void* const> final_states = {};
  /// Promises that the memory of `params` has not changed since the last call that was given it, so
  /// that values derived from params alone (packed weights) are not made again. Where other params
  /// came in between, which the program knows, they are made again all the same. It does not see
  /// replays of calls that were captured in a CUDA graph.
  bool reuse_params = false;
  void* workspace = nullptr;  // any address: `workspace_size` includes room to align it
  size_t workspace_bytes = 0;
  Stream stream = nullptr;

  /// [B] on the device, steps of each sequence, clamped to [0, steps]; null: all are `steps` long.
  /// Past a sequence's end its states stay and its outputs are zero. A layer in reverse begins at
  /// each sequence's own last step.
  const int32_t* lengths = nullptr;
  /// [T, B] on the device; nonzero at (t, b): sequence b begins anew at step t, with the declared
  /// initial states (not given ones) and nothing before. Null: never.
  const uint8_t* reset = nullptr;

  // Reserved; setting one is an error until the feature exists.
  void* reserve = nullptr;  // saved for a backward pass
  size_t reserve_bytes = 0;
};

/// A compiled cell or network on one device. Nothing throws: where memory runs out, and of a
/// program that was moved from, every call is an error.
///
/// Thread-safety: calls on one Program must not overlap (one that does is an error), and its
/// forward calls on a GPU must be in stream order (one stream, or ordered by events), because they
/// share the program's resident memory. Different Programs are independent, from any threads.
/// Destroying one, with its Runners, waits for its GPU, so not while any thread captures a CUDA
/// graph there.
class Program {
 public:
  /// Checks dims, dtype and device. May be slow, allocate and use the disk.
  static Result<Program> compile(const Graph& graph, const CompileOptions& options);
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  const Signature& signature() const;
  const CompileOptions& options() const;

  /// Makes any T <= max_steps at this batch size runnable with exactly these features: plan,
  /// kernels, resident memory. May be slow, allocate and use the disk. Both at least 1. Preparing
  /// again what is prepared is free. Where a GPU has no room for a resident recurrence, or its code
  /// would be slow, the shape runs without: `notes` says so.
  Status prepare(int64_t batch, int64_t max_steps, SequenceFeatures features = {});

  /// For people, a sentence each: what of the shapes prepared so far runs otherwise than asked for,
  /// and why. `rnnc` prints them as notes.
  std::vector<std::string> notes() const;
  /// An error if the shape is not prepared.
  Result<PreparedPlan> prepared(int64_t batch, int64_t steps, SequenceFeatures features = {}) const;

  /// Bytes of workspace for a prepared shape, room to align it included, more for more steps if a
  /// layer runs in reverse; an error if it is not prepared.
  Result<size_t> workspace_size(int64_t batch, int64_t steps, SequenceFeatures features = {}) const;

  /// Runs the sequence. Never allocates, never synchronises with the GPU (on the CPU it returns
  /// when the work is done); may be captured in a CUDA graph. Refuses, before anything is
  /// launched, a shape that is not prepared and arguments that are missing.
  /// steps >= 1, batch >= 1.
  Status forward(const ForwardArgs& args);

  /// The program's device: its memory, and waiting for it.
  Backend& backend();

 private:
  friend class Runner;
  struct Impl;
  explicit Program(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // null: moved from. Its Runners have a part in it
};

}  // namespace rnnc
