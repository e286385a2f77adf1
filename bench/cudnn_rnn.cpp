// Time per step of LSTM and GRU in cuDNN, called directly: each of its algorithms, launched plainly
// and replayed as a CUDA graph. One line of JSON for each shape; see README.md for how to build it.
//
//     cudnn_rnn [--training | --backward] [--seconds S] CELL:LAYERS:HIDDEN:BATCH:STEPS:DTYPE …
//     cudnn_rnn LSTM:4:512:64:100:f32 LSTM:4:512:64:100:tf32 GRU:1:1024:16:256:bf16
//
// The input is as wide as the hidden state. f32 is exact (CUDNN_FMA_MATH), tf32 is f32 with cuDNN's
// default math; f16 and bf16 are storage types, and sums are f32 or whatever else cuDNN takes.
// --backward: forward for training, then the gradients of the input and of the weights; for each
// algorithm also what each of the three takes, launched plainly.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "cudnn_rnn: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::fprintf(stderr, "cudnn_rnn: %s: %s\n", what, cudnnGetErrorString(status));
  std::exit(1);
}

struct Math {
  std::string name;
  cudnnDataType_t precision;
  cudnnMathType_t type;
};

/// A storage type, and the ways to compute that go for it.
struct DType {
  cudnnDataType_t storage;
  size_t size;
  std::vector<Math> maths;
};

const std::map<std::string, DType> kDTypes = {
    {"f32", {CUDNN_DATA_FLOAT, 4, {{"fma", CUDNN_DATA_FLOAT, CUDNN_FMA_MATH}}}},
    {"tf32", {CUDNN_DATA_FLOAT, 4, {{"default", CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH}}}},
    {"f16",
     {CUDNN_DATA_HALF,
      2,
      {{"f32 tensor", CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH},
       {"f16 tensor", CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH}}}},
    {"bf16",
     {CUDNN_DATA_BFLOAT16,
      2,
      {{"f32 tensor", CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH},
       {"bf16 tensor", CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH}}}},
};

const std::pair<const char*, cudnnRNNAlgo_t> kAlgorithms[] = {
    {"standard", CUDNN_RNN_ALGO_STANDARD},
    {"persist static", CUDNN_RNN_ALGO_PERSIST_STATIC},
    {"persist dynamic", CUDNN_RNN_ALGO_PERSIST_DYNAMIC},
    {"persist static small h", CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H},
};

struct Shape {
  std::string cell;
  int layers = 0, hidden = 0, batch = 0, steps = 0;
  std::string dtype;
};

std::optional<Shape> parse_shape(const std::string& text) {
  std::istringstream words(text);
  Shape shape;
  std::string word;
  if (!std::getline(words, shape.cell, ':')) return std::nullopt;
  for (int* number : {&shape.layers, &shape.hidden, &shape.batch, &shape.steps}) {
    if (!std::getline(words, word, ':')) return std::nullopt;
    *number = std::atoi(word.c_str());
    if (*number < 1) return std::nullopt;
  }
  std::getline(words, shape.dtype);
  const bool good = (shape.cell == "LSTM" || shape.cell == "GRU") && kDTypes.contains(shape.dtype);
  return good ? std::optional(shape) : std::nullopt;
}

/// Device memory.
class Memory {
 public:
  explicit Memory(size_t bytes) {
    check(cudaMalloc(&memory_, std::max<size_t>(bytes, 1)), "cudaMalloc");
    check(cudaMemset(memory_, 0, std::max<size_t>(bytes, 1)), "cudaMemset");
  }
  ~Memory() { cudaFree(memory_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* get() const { return memory_; }

  /// Uniform numbers in ±bound. They repeat, at a distance that no row of a matrix has: drawing
  /// each would take longer than what is measured.
  void fill(size_t count, double bound, cudnnDataType_t type) const {
    constexpr size_t kPeriod = 1000003;
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(static_cast<float>(-bound),
                                                  static_cast<float>(bound));
    const auto upload = [&](auto convert) {
      std::vector<decltype(convert(0.0F))> values(count);
      for (size_t i = 0; i < count; ++i) {
        values[i] = i < kPeriod ? convert(uniform(random)) : values[i - kPeriod];
      }
      const size_t bytes = count * sizeof values[0];
      check(cudaMemcpy(memory_, values.data(), bytes, cudaMemcpyHostToDevice), "upload");
    };
    if (type == CUDNN_DATA_FLOAT) upload([](float value) { return value; });
    if (type == CUDNN_DATA_HALF) upload([](float value) { return __float2half(value); });
    if (type == CUDNN_DATA_BFLOAT16) upload([](float value) { return __float2bfloat16(value); });
  }

  std::vector<float> read(size_t first, size_t count, cudnnDataType_t type) const {
    std::vector<float> numbers(count);
    const auto download = [&](auto like, auto convert) {
      std::vector<decltype(like)> values(count);
      const size_t bytes = count * sizeof like;
      const char* source = static_cast<const char*>(memory_) + first * sizeof like;
      check(cudaMemcpy(values.data(), source, bytes, cudaMemcpyDeviceToHost), "download");
      std::ranges::transform(values, numbers.begin(), convert);
    };
    if (type == CUDNN_DATA_FLOAT) download(0.0F, [](float value) { return value; });
    if (type == CUDNN_DATA_HALF)
      download(__half(), [](__half value) { return __half2float(value); });
    if (type == CUDNN_DATA_BFLOAT16) {
      download(__nv_bfloat16(), [](__nv_bfloat16 value) { return __bfloat162float(value); });
    }
    return numbers;
  }

 private:
  void* memory_ = nullptr;
};

/// The stream and cuDNN's handle on it.
struct Context {
  cudaStream_t stream = nullptr;
  cudnnHandle_t handle = nullptr;
  cudnnForwardMode_t mode = CUDNN_FWD_MODE_INFERENCE;
  bool backward = false;
  bool given_states = false;  // and gradients by them
  double seconds = 0.5;       // of each measurement

  Context() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudnnCreate(&handle), "cudnnCreate");
    check(cudnnSetStream(handle, stream), "cudnnSetStream");
  }
};

/// Median microseconds of a call on the stream; nothing if one fails.
std::optional<double> time_calls(const Context& context, const std::function<bool()>& call) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> times;
  double total = 0;
  constexpr int kWarmUp = 5;
  for (int i = 0; i < kWarmUp + 5 || (total < context.seconds * 1e6 && i < 2000); ++i) {
    cudaEventRecord(begin, context.stream);
    const bool good = call();
    cudaEventRecord(end, context.stream);
    if (!good || cudaEventSynchronize(end) != cudaSuccess) {
      times.clear();
      break;
    }
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    total += milliseconds * 1e3;
    if (i >= kWarmUp) times.push_back(milliseconds * 1e3);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (times.empty()) return std::nullopt;
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// The calls that `work` makes as a graph; null if it cannot be captured.
cudaGraphExec_t capture(const Context& context, const std::function<bool()>& work) {
  if (cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
    return nullptr;
  }
  const bool good = work();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  if (cudaStreamEndCapture(context.stream, &graph) == cudaSuccess && good) {
    cudaGraphInstantiate(&executable, graph, 0);
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // a failed capture is no error of the program
  return executable;
}

struct Variant {
  std::string algorithm, math;
  std::optional<double> plain = {}, graph = {};   // microseconds per call
  std::optional<double> forward = {}, data = {};  // likewise, parts of `plain`; what is left
                                                  // of it are the gradients of weights
  double difference = 0;                          // of the results from the first variant's
  size_t workspace_bytes = 0, reserve_bytes = 0;
  std::string failure = {};
};

/// One shape in cuDNN, its arrays on the device.
class Network {
 public:
  Network(const Context& context, const Shape& shape)
      : context_(context),
        shape_(shape),
        dtype_(kDTypes.at(shape.dtype)),
        elements_(size_t(shape.steps) * shape.batch * shape.hidden),
        x_(elements_ * dtype_.size),
        y_(elements_ * dtype_.size),
        dy_(context.backward ? elements_ * dtype_.size : 0),
        dx_(context.backward ? elements_ * dtype_.size : 0),
        lengths_(shape.batch * sizeof(int32_t)) {
    x_.fill(elements_, 1, dtype_.storage);
    if (context.given_states) give_states();
    if (context.backward) dy_.fill(elements_, 1, dtype_.storage);
    const std::vector<int32_t> lengths(shape.batch, shape.steps);
    check(cudaMemcpy(lengths_.get(), lengths.data(), lengths.size() * sizeof(int32_t),
                     cudaMemcpyHostToDevice),
          "upload");
    // Packed and padded arrays are the same where all sequences are equally long.
    check(cudnnCreateRNNDataDescriptor(&data_), "data descriptor");
    check(
        cudnnSetRNNDataDescriptor(data_, dtype_.storage, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                  shape.steps, shape.batch, shape.hidden, lengths.data(), nullptr),
        "data descriptor");
    check(cudnnCreateTensorDescriptor(&state_), "state descriptor");
    const int sizes[] = {shape.layers, shape.batch, shape.hidden};
    const int strides[] = {shape.batch * shape.hidden, shape.hidden, 1};
    check(cudnnSetTensorNdDescriptor(state_, dtype_.storage, 3, sizes, strides),
          "state descriptor");
    check(cudnnCreateDropoutDescriptor(&dropout_), "dropout descriptor");
    check(cudnnSetDropoutDescriptor(dropout_, context.handle, 0, nullptr, 0, 0),
          "dropout descriptor");
    check(cudnnCreateRNNDescriptor(&rnn_), "RNN descriptor");
  }
  ~Network() {
    cudnnDestroyRNNDescriptor(rnn_);
    cudnnDestroyDropoutDescriptor(dropout_);
    cudnnDestroyTensorDescriptor(state_);
    cudnnDestroyRNNDataDescriptor(data_);
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  std::vector<Variant> measure() {
    std::vector<Variant> variants;
    for (const auto& [name, algorithm] : kAlgorithms) {
      for (const Math& math : dtype_.maths) {
        Variant variant{.algorithm = name, .math = math.name};
        const cudnnStatus_t status = run(algorithm, math, variant);
        if (status != CUDNN_STATUS_SUCCESS) variant.failure = cudnnGetErrorString(status);
        variants.push_back(std::move(variant));
      }
    }
    return variants;
  }

 private:
  /// h and c, and what their gradients are written to.
  void give_states() {
    const size_t elements = size_t(shape_.layers) * shape_.batch * shape_.hidden;
    for (std::optional<Memory>* state : {&h_, &c_, &dh_, &dc_}) {
      state->emplace(elements * dtype_.size).fill(elements, 1, dtype_.storage);
    }
  }
  static void* address(const std::optional<Memory>& memory) {
    return memory ? memory->get() : nullptr;
  }

  cudnnStatus_t describe(cudnnRNNAlgo_t algorithm, const Math& math) {
    const cudnnRNNMode_t cell = shape_.cell == "LSTM" ? CUDNN_LSTM : CUDNN_GRU;
    const cudnnStatus_t status = cudnnSetRNNDescriptor_v8(
        rnn_, algorithm, cell, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
        dtype_.storage, math.precision, math.type, shape_.hidden, shape_.hidden, shape_.hidden,
        shape_.layers, dropout_, CUDNN_RNN_PADDED_IO_DISABLED);
    if (status != CUDNN_STATUS_SUCCESS || algorithm != CUDNN_RNN_ALGO_PERSIST_DYNAMIC) {
      return status;
    }
    return cudnnBuildRNNDynamic(context_.handle, rnn_, shape_.batch);
  }

  cudnnStatus_t run(cudnnRNNAlgo_t algorithm, const Math& math, Variant& variant) {
    if (auto status = describe(algorithm, math); status != CUDNN_STATUS_SUCCESS) return status;
    size_t workspace_bytes = 0;
    size_t reserve_bytes = 0;
    size_t weight_bytes = 0;
    if (auto status = cudnnGetRNNTempSpaceSizes(context_.handle, rnn_, context_.mode, data_,
                                                &workspace_bytes, &reserve_bytes);
        status != CUDNN_STATUS_SUCCESS) {
      return status;
    }
    if (auto status = cudnnGetRNNWeightSpaceSize(context_.handle, rnn_, &weight_bytes);
        status != CUDNN_STATUS_SUCCESS) {
      return status;
    }
    variant.workspace_bytes = workspace_bytes;
    variant.reserve_bytes = reserve_bytes;
    const Memory workspace(workspace_bytes);
    const Memory reserve(reserve_bytes);
    const Memory weights(weight_bytes);
    const Memory gradients(context_.backward ? weight_bytes : 0);
    weights.fill(weight_bytes / dtype_.size, 1 / std::sqrt(shape_.hidden), dtype_.storage);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    const auto forward = [&] {
      status = cudnnRNNForward(context_.handle, rnn_, context_.mode,
                               static_cast<const int32_t*>(lengths_.get()), data_, x_.get(), data_,
                               y_.get(), state_, address(h_), nullptr, state_, address(c_), nullptr,
                               weight_bytes, weights.get(), workspace_bytes, workspace.get(),
                               reserve_bytes, reserve_bytes > 0 ? reserve.get() : nullptr);
      return status == CUDNN_STATUS_SUCCESS;
    };
    const auto* lengths = static_cast<const int32_t*>(lengths_.get());
    const auto data = [&] {
      status =
          cudnnRNNBackwardData_v8(context_.handle, rnn_, lengths, data_, y_.get(), dy_.get(), data_,
                                  dx_.get(), state_, address(h_), nullptr, address(dh_), state_,
                                  address(c_), nullptr, address(dc_), weight_bytes, weights.get(),
                                  workspace_bytes, workspace.get(), reserve_bytes, reserve.get());
      return status == CUDNN_STATUS_SUCCESS;
    };
    const auto weight_gradients = [&] {
      cudaMemsetAsync(gradients.get(), 0, weight_bytes, context_.stream);  // they are added
      status = cudnnRNNBackwardWeights_v8(context_.handle, rnn_, CUDNN_WGRAD_MODE_ADD, lengths,
                                          data_, x_.get(), state_, address(h_), data_, y_.get(),
                                          weight_bytes, gradients.get(), workspace_bytes,
                                          workspace.get(), reserve_bytes, reserve.get());
      return status == CUDNN_STATUS_SUCCESS;
    };
    const auto call = [&] {
      return forward() && (!context_.backward || (data() && weight_gradients()));
    };
    variant.plain = time_calls(context_, call);
    if (!variant.plain) {
      check(cudaDeviceSynchronize(), "cuDNN's calls");
      return status;
    }
    variant.difference = compare(context_.backward ? dx_ : y_);
    if (context_.backward) {
      variant.forward = time_calls(context_, forward);
      const std::optional<double> both = time_calls(context_, [&] { return forward() && data(); });
      if (variant.forward && both) variant.data = *both - *variant.forward;
    }
    if (cudaGraphExec_t graph = capture(context_, call); graph != nullptr) {
      // As `rnnc bench` does it: what the host does for one is done while another runs.
      constexpr int kReplaysAtOnce = 4;
      variant.graph = time_calls(context_, [&] {
        bool good = true;
        for (int i = 0; i < kReplaysAtOnce; ++i) {
          good = good && cudaGraphLaunch(graph, context_.stream) == cudaSuccess;
        }
        return good;
      });
      if (variant.graph) *variant.graph /= kReplaysAtOnce;
      cudaGraphExecDestroy(graph);
    }
    return CUDNN_STATUS_SUCCESS;
  }

  /// The greatest difference from the first variant's results, of the step that runs last: all
  /// others are behind it.
  double compare(const Memory& sequence) {
    const size_t step = size_t(shape_.batch) * shape_.hidden;
    const size_t last = context_.backward ? 0 : elements_ - step;
    std::vector<float> results = sequence.read(last, step, dtype_.storage);
    if (reference_.empty()) reference_ = std::move(results);
    double difference = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      const double apart = std::abs(results[i] - reference_[i]);
      difference = apart <= difference ? difference : apart;  // NaN stays
    }
    return difference;
  }

  const Context& context_;
  Shape shape_;
  DType dtype_;
  size_t elements_;
  Memory x_, y_, dy_, dx_, lengths_;
  std::optional<Memory> h_, c_, dh_, dc_;
  cudnnRNNDataDescriptor_t data_ = nullptr;
  cudnnTensorDescriptor_t state_ = nullptr;
  cudnnDropoutDescriptor_t dropout_ = nullptr;
  cudnnRNNDescriptor_t rnn_ = nullptr;
  std::vector<float> reference_;
};

std::string number(std::optional<double> value, double divisor = 1) {
  return value && std::isfinite(*value) ? std::to_string(*value / divisor) : "null";
}

/// A line of JSON, times in microseconds per step.
std::string to_json(const Context& context, const Shape& shape,
                    const std::vector<Variant>& variants) {
  std::ostringstream json;
  std::optional<double> best;
  std::string best_name;
  std::string list;
  for (const Variant& variant : variants) {
    const std::string name = variant.algorithm + ", " + variant.math;
    for (const auto& [time, how] : {std::pair(variant.plain, ""), {variant.graph, ", graph"}}) {
      if (!time || (best && *best <= *time)) continue;
      best = time;
      best_name = name + how;
    }
    list += list.empty() ? "" : ", ";
    list += "{\"name\": \"" + name + "\", \"plain\": " + number(variant.plain, shape.steps) +
            ", \"graph\": " + number(variant.graph, shape.steps);
    if (variant.plain) {
      list += ", \"difference\": " + number(variant.difference) +
              ", \"workspace_bytes\": " + std::to_string(variant.workspace_bytes) +
              ", \"reserve_bytes\": " + std::to_string(variant.reserve_bytes);
    }
    if (variant.data) {
      const double weights = *variant.plain - *variant.forward - *variant.data;
      list += ", \"forward\": " + number(variant.forward, shape.steps) +
              ", \"data_gradients\": " + number(variant.data, shape.steps) +
              ", \"weight_gradients\": " + number(weights, shape.steps);
    }
    if (!variant.failure.empty()) list += ", \"failure\": \"" + variant.failure + "\"";
    list += "}";
  }
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  json << "{\"machine\": \"" << device.name << "\", \"cudnn\": " << cudnnGetVersion()
       << ", \"cell\": \"" << shape.cell << "\", \"layers\": " << shape.layers
       << ", \"hidden\": " << shape.hidden << ", \"batch\": " << shape.batch
       << ", \"steps\": " << shape.steps << ", \"dtype\": \"" << shape.dtype
       << "\", \"training\": " << (context.mode == CUDNN_FWD_MODE_TRAINING ? "true" : "false")
       << ", \"backward\": " << (context.backward ? "true" : "false") << ", \"best\": \""
       << best_name << "\", \"microseconds_per_step\": " << number(best, shape.steps)
       << ", \"variants\": [" << list << "]}";
  return json.str();
}

int usage() {
  std::fprintf(stderr,
               "usage: cudnn_rnn [--training | --backward] [--given-states] [--seconds S] "
               "CELL:LAYERS:HIDDEN:BATCH:STEPS:DTYPE …\n"
               "  CELL: LSTM or GRU; DTYPE: f32, tf32, f16 or bf16\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  bool training = false;
  bool backward = false;
  bool given_states = false;
  double seconds = 0.5;
  std::vector<Shape> shapes;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--training") {
      training = true;
    } else if (word == "--backward") {
      training = backward = true;
    } else if (word == "--given-states") {
      given_states = true;
    } else if (word == "--seconds" && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (const std::optional<Shape> shape = parse_shape(word)) {
      shapes.push_back(*shape);
    } else {
      return usage();
    }
  }
  if (shapes.empty()) return usage();
  Context context;
  context.mode = training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  context.backward = backward;
  context.given_states = given_states;
  context.seconds = seconds;
  for (const Shape& shape : shapes) {
    std::vector<Variant> variants = Network(context, shape).measure();
    std::printf("%s\n", to_json(context, shape, variants).c_str());
    std::fflush(stdout);
  }
}
