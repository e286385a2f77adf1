/// What a device must do for the runtime. One implementation per device kind, in runtime/cpu and
/// runtime/cuda; either can be left out of a build.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ir/plan/plan.h"
#include "passes/options/machine.h"
#include "runtime/backend/backward_args.h"
#include "runtime/backend/device.h"
#include "runtime/backend/forward_args.h"
#include "runtime/backend/kernel_cache.h"
#include "runtime/backend/options.h"

namespace rnnc {

/// The arrays of a call by the role of the plan's buffers that they are, and by slot.
class CallArrays {
 public:
  void set(Role role, std::span<const void* const> arrays) {
    arrays_[static_cast<size_t>(role)] = arrays;
  }
  /// Null where the call has none. Only arrays of roles that a plan writes are written through it.
  std::byte* at(Role role, uint32_t slot) const {
    const std::span<const void* const> arrays = arrays_[static_cast<size_t>(role)];
    return slot < arrays.size() ? static_cast<std::byte*>(const_cast<void*>(arrays[slot]))
                                : nullptr;
  }

 private:
  std::array<std::span<const void* const>, kCallerRoles> arrays_;
};

/// Bytes to which a call's workspace is aligned.
inline constexpr size_t kWorkspaceAlignment = 256;

/// Which part of its sequences a call runs, of a plan with one sweep. Calls of all parts, in the
/// order of the plan's steps, on one workspace that nothing else touches in between, are one run:
/// totals go on from one to the next.
struct CallPiece {
  int64_t first_step = 0;  // steps of the sequences before the call's
  bool begins = true;      // totals begin at zero
  bool ends = true;        // the Last stages run
};

/// What an executable is called with, checked against its plan.
struct Call {
  int64_t steps = 0;
  /// States have an initial and a final array each, null where none was given or is wanted: what an
  /// implied state starts as instead is settled already.
  CallArrays arrays;
  /// Aligned to kWorkspaceAlignment, of `workspace_bytes(plan, steps)`.
  std::byte* workspace = nullptr;
  Stream stream = nullptr;
  const int32_t* lengths = nullptr;  // as in ForwardArgs, of whole sequences
  const uint8_t* reset = nullptr;    // likewise
  CallPiece piece = {};
  LaunchTimes* times = nullptr;  // as in ForwardArgs
};

/// The first address from `memory` on that is aligned as workspaces are; null of null.
std::byte* aligned(void* memory);

/// The call that checked arguments ask for. `initial_states`: what each state starts as.
Call make_call(const ForwardArgs& args, std::span<const void* const> initial_states);
/// That of a half of a backward call, whose other arrays are still to be set.
Call make_call(const BackwardArgs& args);

/// A plan compiled, loaded and given its own memory. See ir/plan/plan.h for what running it
/// means.
class Executable {
 public:
  virtual ~Executable() = default;
  /// `run_once`: runs the Once stages first.
  virtual Status run(const Call& call, bool run_once) = 0;
  /// Why the device cannot run the plan's resident recurrences, for people; then nothing else may
  /// be asked of this. Empty: it can.
  virtual std::string refusal() const { return ""; }
  /// Why another plan may be faster, for people. Empty: nothing speaks for one.
  virtual std::string doubt() const { return ""; }
};

/// What a device was given once and can be given again with one launch.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  /// Launches it on `stream()`, and does not wait.
  virtual Status replay() = 0;
  /// Its own, which waits for no other: wait for what comes before a replay, and for the last
  /// replay before this is destroyed.
  virtual Stream stream() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Result<std::unique_ptr<Executable>> prepare(Plan plan) = 0;
  /// For the cost model of the plans made for it.
  virtual Machine machine() const = 0;
  /// What its code is compiled for, such as "sm_90"; "": this machine's CPU.
  virtual std::string arch() const { return ""; }
  /// All of device, driver and compiler that decides how fast a plan is.
  virtual std::string identity() const { return machine().name; }

  /// Memory of the device, for the convenience calls and tests (not used by `forward`).
  virtual Result<void*> allocate(size_t bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual Status upload(void* device, const void* host, size_t bytes) = 0;
  virtual Status download(void* host, const void* device, size_t bytes) = 0;
  /// Fills memory with zero bytes, in the stream's order; neither allocates nor waits.
  virtual Status clear(void* device, size_t bytes, Stream stream) = 0;
  /// Copies memory of the device to memory of the device that does not overlap with it, likewise.
  virtual Status copy(void* to, const void* from, size_t bytes, Stream stream) = 0;
  /// Waits for all work on the stream.
  virtual Status synchronize(Stream stream) = 0;

  /// Seconds that `work` takes on the stream, its end included. Here: a steady clock around `work`
  /// and `synchronize`; devices with events of their own use those.
  virtual Result<double> time(const std::function<Status()>& work, Stream stream);

  /// Captures in a CUDA graph what `work` gives to the stream that it is called with, without
  /// running it. `work` neither allocates nor waits; its pointers and sizes are those of every
  /// replay. Other threads may go on with other programs. Here: an error, for devices without
  /// graphs.
  virtual Result<std::unique_ptr<CapturedWork>> capture(const std::function<Status(Stream)>& work);
};

/// `cache` outlives the backend. An error in plain words where the build or the machine lacks the
/// device.
Result<std::unique_ptr<Backend>> make_backend(const CompileOptions& options, KernelCache& cache);
Result<std::unique_ptr<Backend>> make_cpu_backend(const CompileOptions& options,
                                                  KernelCache& cache);
Result<std::unique_ptr<Backend>> make_cuda_backend(const CompileOptions& options,
                                                   KernelCache& cache);

/// Of programs that were moved from: every call is an error.
Backend& no_backend();

/// What `list_devices` says of each kind; defined in runtime/cpu and runtime/cuda. Without a driver
/// or a GPU, one unusable "cuda" with the reason.
DeviceDescription describe_cpu_device();
std::vector<DeviceDescription> describe_cuda_devices();

}  // namespace rnnc
