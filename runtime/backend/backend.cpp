#include "runtime/backend/backend.h"

#include <chrono>

namespace rnnc {

namespace {

/// All but the arrays.
template <typename Args>
Call begin_call(const Args& args) {
  Call call;
  call.steps = args.steps;
  call.stream = args.stream;
  call.lengths = args.lengths;
  call.reset = args.reset;
  call.workspace = aligned(args.workspace);
  call.times = args.times;
  return call;
}

}  // namespace

Call make_call(const ForwardArgs& args, std::span<const void* const> initial_states) {
  Call call = begin_call(args);
  call.arrays.set(Role::Input, args.inputs);
  call.arrays.set(Role::Param, args.params);
  call.arrays.set(Role::Output, args.outputs);
  call.arrays.set(Role::InitialState, initial_states);
  call.arrays.set(Role::FinalState, args.final_states);
  return call;
}

Call make_call(const BackwardArgs& args) {
  Call call = begin_call(args);
  call.arrays.set(Role::Param, args.params);
  return call;
}

std::byte* aligned(void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return static_cast<std::byte*>(memory) +
         (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
}

namespace {

class NoBackend : public Backend {
 public:
  Result<std::unique_ptr<Executable>> prepare(Plan /*plan*/) override { return refuse(); }
  Machine machine() const override { return cpu_machine(1); }
  Result<void*> allocate(size_t /*bytes*/) override { return refuse(); }
  void release(void* /*memory*/) override {}
  Status upload(void* /*device*/, const void* /*host*/, size_t /*bytes*/) override {
    return refuse();
  }
  Status download(void* /*host*/, const void* /*device*/, size_t /*bytes*/) override {
    return refuse();
  }
  Status clear(void* /*device*/, size_t /*bytes*/, Stream /*stream*/) override { return refuse(); }
  Status copy(void* /*to*/, const void* /*from*/, size_t /*bytes*/, Stream /*stream*/) override {
    return refuse();
  }
  Status synchronize(Stream /*stream*/) override { return refuse(); }

 private:
  static tl::unexpected<Error> refuse() {
    return fail("there is no device: its program was moved from");
  }
};

}  // namespace

Backend& no_backend() {
  static NoBackend none;
  return none;
}

Result<double> Backend::time(const std::function<Status()>& work, Stream stream) {
  if (Status status = synchronize(stream); !status) return tl::unexpected(status.error());
  const auto start = std::chrono::steady_clock::now();
  if (Status status = work(); !status) return tl::unexpected(status.error());
  if (Status status = synchronize(stream); !status) return tl::unexpected(status.error());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<std::unique_ptr<CapturedWork>> Backend::capture(
    const std::function<Status(Stream)>& /*work*/) {
  return fail_as(ErrorKind::NotSupported,
                 "only a GPU can capture calls in a graph and replay them");
}

Result<std::unique_ptr<Backend>> make_backend(const CompileOptions& options,
                                              [[maybe_unused]] KernelCache& cache) {
#ifndef RNNC_WITH_CPU
  if (options.device.kind == Device::Kind::cpu) {
    return fail_as(ErrorKind::NoDevice, "device `cpu`: this build of rnnc has no CPU backend");
  }
#else
  if (options.device.kind == Device::Kind::cpu) return make_cpu_backend(options, cache);
#endif
#ifdef RNNC_WITH_CUDA
  return make_cuda_backend(options, cache);
#else
  return fail_as(ErrorKind::NoDevice, "device `{}`: this build of rnnc has no CUDA backend",
                 options.device.to_string());
#endif
}

}  // namespace rnnc
