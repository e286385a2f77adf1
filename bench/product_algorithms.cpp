// cuBLASLt's algorithms for the products of recurrent networks, each timed: how much its favourite
// loses to the best of eight, and how much the one loses that runtime/cuda/product.cpp takes.
//
//     product_algorithms [--products N] [--seed N] [--f32-results] [--all]
//
// Products are drawn: 16-bit rows @ weights, as inputs and gradients by inputs are, of 512 to 65,536
// rows and 128 to 3,072 terms; in turns, four calls in a row, medians of nine. A line for each range
// of terms: the mean (geometric) and the worst of time over that of the best, the same of what is
// taken and of that beside the favourite, and of how many algorithms results have the favourite's
// bits. `--all`: a line for each product and algorithm, too. README.md says how to build it.
#include <cublasLt.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr int kMost = 8;  // algorithms
constexpr size_t kWorkspace = size_t{32} << 20;
constexpr size_t kElements = size_t{1} << 28;  // of an operand at most
constexpr double kMostOfOneGroup = 23'552;     // as in runtime/cuda/product.cpp
constexpr int kCalls = 4;
constexpr int kRounds = 9;

template <typename Code>
void check(Code status, const char* what) {
  if (static_cast<int>(status) == 0) return;
  std::fprintf(stderr, "product_algorithms: %s: error %d\n", what, static_cast<int>(status));
  std::exit(1);
}

struct Options {
  int products = 100;
  unsigned seed = 1;
  bool f32_results = false;
  bool all = false;
};

struct Shape {
  int64_t rows, n, k;
};

std::vector<Shape> draw(const Options& options) {
  std::mt19937 random(options.seed);
  const auto one_of = [&random](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  std::vector<Shape> shapes;
  while (std::ssize(shapes) < options.products) {
    const int64_t k = one_of({128, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 3072});
    const int64_t hidden = random() % 3 != 0 ? k : one_of({256, 512, 768, 1024, 1536, 2048});
    const int64_t n = hidden * one_of({1, 2, 3, 4, 4});
    const int64_t rows = one_of({512, 1024, 2048, 4096, 8192, 16384, 32768, 65536});
    const auto most = static_cast<int64_t>(kElements);
    if (rows * n <= most && rows * k <= most) shapes.push_back({rows, n, k});
  }
  return shapes;
}

/// Numbers of either sign: zeros would take less power, and clocks would stay higher.
void* random_operand(unsigned seed) {
  constexpr size_t kPart = size_t{1} << 22;
  std::mt19937 random(seed);
  std::vector<__half> part(kPart);
  for (__half& value : part) value = __float2half((float(random() % 65536) / 65536 - 0.5F) * 0.2F);
  char* operand = nullptr;
  check(cudaMalloc(&operand, kElements * sizeof(__half)), "cudaMalloc");
  check(cudaMemcpy(operand, part.data(), kPart * sizeof(__half), cudaMemcpyHostToDevice), "upload");
  for (size_t done = kPart; done < kElements; done *= 2) {
    const size_t count = std::min(done, kElements - done) * sizeof(__half);
    check(cudaMemcpy(operand + done * sizeof(__half), operand, count, cudaMemcpyDeviceToDevice),
          "copying");
  }
  return operand;
}

class Gpu {
 public:
  Gpu() : left_(random_operand(1)), weight_(random_operand(2)) {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    check(cudaMalloc(&out_, kElements * sizeof(float)), "cudaMalloc");
    check(cudaMalloc(&workspace_, kWorkspace), "cudaMalloc");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0), "asking");
  }

  struct Algorithm {
    cublasLtMatmulHeuristicResult_t found = {};
    double tile_elements = 0;
    std::vector<double> microseconds;
    bool same_bits = false;
    double median() const { return microseconds[microseconds.size() / 2]; }
  };

  /// Best first, as the library has them; timed.
  std::vector<Algorithm> measure(const Shape& shape, bool f32_results) {
    describe(shape, f32_results);
    std::vector<Algorithm> algorithms = ask(shape);
    const size_t bytes = size_t(shape.rows * shape.n) * (f32_results ? 4 : 2);
    std::vector<char> first;
    for (Algorithm& algorithm : algorithms) {
      run(algorithm);
      std::vector<char> results(std::min(bytes, size_t{1} << 24));
      check(cudaMemcpy(results.data(), out_, results.size(), cudaMemcpyDeviceToHost), "download");
      if (first.empty()) first = results;
      algorithm.same_bits = results == first;
    }
    for (int round = 0; round < kRounds; ++round) {
      for (Algorithm& algorithm : algorithms) algorithm.microseconds.push_back(time(algorithm));
    }
    for (Algorithm& algorithm : algorithms) std::ranges::sort(algorithm.microseconds);
    return algorithms;
  }

 private:
  /// Column-major, as runtime/cuda/product.cpp has them: out' = weight' @ left'.
  void describe(const Shape& shape, bool f32_results) {
    check(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing");
    const cublasOperation_t turned = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(&operation_, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                         sizeof(turned)),
          "describing");
    const cudaDataType_t out = f32_results ? CUDA_R_32F : CUDA_R_16F;
    check(cublasLtMatrixLayoutInit(&a_, CUDA_R_16F, shape.k, shape.n, shape.k), "describing");
    check(cublasLtMatrixLayoutInit(&b_, CUDA_R_16F, shape.k, shape.rows, shape.k), "describing");
    check(cublasLtMatrixLayoutInit(&d_, out, shape.n, shape.rows, shape.n), "describing");
  }

  std::vector<Algorithm> ask(const Shape& shape) {
    cublasLtMatmulPreferenceOpaque_t preference = {};
    check(cublasLtMatmulPreferenceInit(&preference), "describing");
    const size_t workspace = kWorkspace;
    check(cublasLtMatmulPreferenceSetAttribute(
              &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)),
          "describing");
    const uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    check(cublasLtMatmulPreferenceSetAttribute(&preference,
                                               CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                               &reductions, sizeof(reductions)),
          "describing");
    cublasLtMatmulHeuristicResult_t found[kMost];
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_, &operation_, &a_, &b_, &d_, &d_, &preference,
                                         kMost, found, &count),
          "asking for algorithms");
    std::vector<Algorithm> algorithms;
    for (const auto& one : std::span(found, size_t(count))) {
      if (one.state != CUBLAS_STATUS_SUCCESS) continue;
      const double tiles = one.wavesCount * multiprocessors_;
      Algorithm& algorithm = algorithms.emplace_back();
      algorithm.found = one;
      algorithm.tile_elements = double(shape.rows * shape.n) / tiles;
    }
    return algorithms;
  }

  void run(const Algorithm& algorithm) {
    const float one = 1;
    const float zero = 0;
    check(cublasLtMatmul(handle_, &operation_, &one, weight_, &a_, left_, &b_, &zero, out_, &d_,
                         out_, &d_, &algorithm.found.algo, workspace_, kWorkspace, nullptr),
          "multiplying");
  }

  double time(const Algorithm& algorithm) {
    run(algorithm);
    check(cudaEventRecord(begin_), "cudaEventRecord");
    for (int i = 0; i < kCalls; ++i) run(algorithm);
    check(cudaEventRecord(end_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "multiplying");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds * 1e3 / kCalls;
  }

  cublasLtHandle_t handle_ = nullptr;
  void *left_, *weight_, *out_ = nullptr, *workspace_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  int multiprocessors_ = 0;
  cublasLtMatmulDescOpaque_t operation_ = {};
  cublasLtMatrixLayoutOpaque_t a_ = {}, b_ = {}, d_ = {};
};

/// The rule of runtime/cuda/product.cpp.
const Gpu::Algorithm& taken(std::span<const Gpu::Algorithm> algorithms) {
  for (const Gpu::Algorithm& algorithm : algorithms) {
    if (algorithm.tile_elements < kMostOfOneGroup &&
        algorithm.found.workspaceSize <= algorithms.front().found.workspaceSize) {
      return algorithm;
    }
  }
  return algorithms.front();
}

struct Ratios {
  double logarithms = 0, worst = 0;
  int count = 0;
  void add(double ratio) {
    logarithms += std::log(ratio);
    worst = std::max(worst, ratio);
    ++count;
  }
  double mean() const { return std::exp(logarithms / count); }
};

struct Summary {
  Ratios favourite, chosen, beside;
  int algorithms = 0, same_bits = 0;
};

Options parse(std::span<char*> words) {
  Options options;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < words.size();
    if (word == "--products" && has_value) {
      options.products = std::atoi(words[++i]);
    } else if (word == "--seed" && has_value) {
      options.seed = unsigned(std::atoi(words[++i]));
    } else if (word == "--f32-results") {
      options.f32_results = true;
    } else if (word == "--all") {
      options.all = true;
    } else {
      std::fprintf(stderr, "product_algorithms: `%s`?\n", words[i]);
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse({argv, size_t(argc)});
  Gpu gpu;
  std::map<int64_t, Summary> summaries;  // by the greatest number of terms
  for (const Shape& shape : draw(options)) {
    const std::vector<Gpu::Algorithm> algorithms = gpu.measure(shape, options.f32_results);
    if (algorithms.empty()) continue;
    const double first = algorithms.front().median();
    const double chosen = taken(algorithms).median();
    const double best = std::ranges::min(algorithms, {}, &Gpu::Algorithm::median).median();
    Summary& summary = summaries[shape.k <= 384 ? 384 : shape.k <= 1024 ? 1024 : 3072];
    summary.favourite.add(first / best);
    summary.chosen.add(chosen / best);
    summary.beside.add(chosen / first);
    summary.algorithms += int(algorithms.size());
    for (const Gpu::Algorithm& algorithm : algorithms) summary.same_bits += algorithm.same_bits;
    if (!options.all) continue;
    std::printf("[%ld, %ld] @ [%ld, %ld]\n", long(shape.rows), long(shape.k), long(shape.k),
                long(shape.n));
    for (const Gpu::Algorithm& algorithm : algorithms) {
      std::printf("  %8.2f us, tiles of %.0f, workspace %zu%s\n", algorithm.median(),
                  algorithm.tile_elements, algorithm.found.workspaceSize,
                  &algorithm == &algorithms.front() ? ", favourite" : "");
    }
  }
  std::printf(
      "terms at most  products  favourite: mean, worst  taken: mean, worst"
      "  taken/favourite: mean, worst  same bits\n");
  for (const auto& [terms, summary] : summaries) {
    std::printf("%13ld%10d%17.3f%7.2f%13.3f%7.2f%22.3f%7.2f%7d of %d\n", long(terms),
                summary.favourite.count, summary.favourite.mean(), summary.favourite.worst,
                summary.chosen.mean(), summary.chosen.worst, summary.beside.mean(),
                summary.beside.worst, summary.same_bits, summary.algorithms);
  }
}
