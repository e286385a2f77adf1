#include "runtime/cuda/cuda_backend.h"

#include "codegen/cuda/cuda_code.h"
#include "runtime/cuda/graph.h"

namespace rnnc::cuda {
namespace {

cudaStream_t as_cuda(Stream stream) {
  return static_cast<cudaStream_t>(stream);
}

/// A CUDA event, destroyed at the end.
class Event {
 public:
  Event() : error_(cudaEventCreate(&event_)) {}
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Status record(Stream stream) {
    if (error_ != cudaSuccess) return check_cuda(error_, "creating an event");
    return check_cuda(cudaEventRecord(event_, as_cuda(stream)), "recording an event");
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
  cudaError_t error_;
};

class CudaCapturedWork : public CapturedWork {
 public:
  CudaCapturedWork(int device, OwnStream stream, StepGraph graph)
      : device_(device), stream_(std::move(stream)), graph_(std::move(graph)) {}
  ~CudaCapturedWork() override {
    const DeviceScope scope(device_);
    const CaptureNeutralScope neutral;
    graph_ = StepGraph();
  }

  Status replay() override {
    const DeviceScope scope(device_);
    if (!scope.status()) return scope.status();
    return graph_.replay(stream_.get());
  }
  Stream stream() const override { return stream_.get(); }

 private:
  const int device_;
  OwnStream stream_;
  StepGraph graph_;
};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(CudaContext context) : context_(std::move(context)) {}

  ~CudaBackend() override {
    const DeviceScope scope(context_.device.index);
    const CaptureNeutralScope neutral;
    context_.lt.reset();
  }

  Result<std::unique_ptr<Executable>> prepare(Plan plan) override {
    const DeviceScope scope(context_.device.index);
    if (!scope.status()) return tl::unexpected(scope.status().error());
    const CaptureNeutralScope neutral;
    return prepare_cuda_executable(std::move(plan), context_);
  }

  Machine machine() const override { return cuda_machine(context_.device); }

  std::string arch() const override { return context_.arch; }

  std::string identity() const override {
    const CudaDevice& device = context_.device;
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    return fmt::format("{} with {} multiprocessors, driver {}, {} by NVRTC {}", device.name,
                       device.multiprocessors, driver, context_.arch,
                       nvrtc_version().value_or("none"));
  }

  Result<void*> allocate(size_t bytes) override {
    const DeviceScope scope(context_.device.index);
    if (!scope.status()) return tl::unexpected(scope.status().error());
    const CaptureNeutralScope neutral;
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(context_.device, context_.allocator, bytes);
    if (!memory) return tl::unexpected(memory.error());
    return static_cast<void*>(memory->release());
  }

  void release(void* memory) override {
    const DeviceScope scope(context_.device.index);
    const CaptureNeutralScope neutral;
    DeviceMemory::free(context_.allocator, memory);
  }

  Status upload(void* device, const void* host, size_t bytes) override {
    const DeviceScope scope(context_.device.index);
    if (!scope.status()) return scope.status();
    // From pageable memory the copy may return before it is done, and streams that do not wait for
    // the default stream could overtake it.
    return check_cuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "uploading")
        .and_then([] { return check_cuda(cudaStreamSynchronize(nullptr), "uploading"); });
  }

  Status download(void* host, const void* device, size_t bytes) override {
    const DeviceScope scope(context_.device.index);
    if (!scope.status()) return scope.status();
    return check_cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "downloading");
  }

  Status clear(void* device, size_t bytes, Stream stream) override {
    const DeviceScope scope(context_.device.index);
    if (!scope.status()) return scope.status();
    return check_cuda(cudaMemsetAsync(device, 0, bytes, as_cuda(stream)), "clearing");
  }

  Status copy(void* to, const void* from, size_t bytes, Stream stream) override {
    const DeviceScope scope(context_.device.index);
    if (!scope.status()) return scope.status();
    return check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, as_cuda(stream)),
                      "copying");
  }

  Status synchronize(Stream stream) override {
    const DeviceScope scope(context_.device.index);
    if (!scope.status()) return scope.status();
    return check_cuda(cudaStreamSynchronize(as_cuda(stream)), "running");
  }

  Result<double> time(const std::function<Status()>& work, Stream stream) override {
    const DeviceScope scope(context_.device.index);
    if (!scope.status()) return tl::unexpected(scope.status().error());
    Event start;
    Event stop;
    float milliseconds = 0;
    const Status status =
        start.record(stream)
            .and_then(work)
            .and_then([&] { return stop.record(stream); })
            .and_then([&] { return check_cuda(cudaEventSynchronize(stop.get()), "running"); })
            .and_then([&] {
              return check_cuda(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()),
                                "timing");
            });
    if (!status) return tl::unexpected(status.error());
    return static_cast<double>(milliseconds) * 1e-3;
  }

  Result<std::unique_ptr<CapturedWork>> capture(
      const std::function<Status(Stream)>& work) override {
    const DeviceScope scope(context_.device.index);
    if (!scope.status()) return tl::unexpected(scope.status().error());
    const CaptureNeutralScope neutral;
    Result<OwnStream> stream = OwnStream::create();
    if (!stream) return tl::unexpected(stream.error());
    Result<StepGraph> graph =
        StepGraph::capture({&*stream, 1}, [&] { return work(stream->get()); });
    if (!graph) return tl::unexpected(graph.error());
    return std::make_unique<CudaCapturedWork>(context_.device.index, std::move(*stream),
                                              std::move(*graph));
  }

 private:
  CudaContext context_;
};

}  // namespace
}  // namespace rnnc::cuda

namespace rnnc {

Result<std::unique_ptr<Backend>> make_cuda_backend(const CompileOptions& options,
                                                   KernelCache& cache) {
  const auto unusable = [&options](const Error& reason) {
    return fail_as(ErrorKind::NoDevice, "device `{}` cannot be used: {}",
                   options.device.to_string(), reason.message);
  };
  if (options.dtype == DType::f64) {
    return fail_as(ErrorKind::NotSupported,
                   "f64 runs on the CPU only; on a GPU use f32, bf16 or f16");
  }
  Result<cuda::CudaDevice> device = cuda::describe_cuda_device(options.device.index);
  if (!device) return unusable(device.error());
  if (Status status = cuda::leave(*device, options.spare_multiprocessors); !status) {
    return tl::unexpected(status.error());
  }
  const Result<std::string> arch = cuda_arch_for(device->major, device->minor);
  if (!arch) return unusable(arch.error());
  return std::make_unique<cuda::CudaBackend>(cuda::CudaContext{.device = *device,
                                                               .arch = *arch,
                                                               .graphs = options.graphs,
                                                               .allocator = options.allocator,
                                                               .cache = cache,
                                                               .lt = nullptr});
}

}  // namespace rnnc
