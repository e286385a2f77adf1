// Measures rnnc on an LSTM: time per step, or with --compile the time to compile and prepare it,
// cold and from the cache. Prints one line of JSON. torch_compare.py runs it beside PyTorch.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "frontend/unit.h"
#include "runtime/run.h"

namespace {

using rnnc::Array;
using rnnc::CompileOptions;
using rnnc::DType;
using rnnc::Graph;
using rnnc::Program;
using rnnc::Result;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string file = "examples/cells/lstm.rnn";
  std::string device = "cpu";
  std::string dtype = "f32";
  int64_t steps = 512;
  int64_t batch = 16;
  int64_t hidden = 512;
  int64_t input = 0;  // 0: as hidden
  int threads = 2;
  int repeats = 30;
  bool compile = false;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Array random_array(std::vector<int64_t> shape, double scale, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(static_cast<float>(-scale),
                                                static_cast<float>(scale));
  Array array = Array::zeros(DType::f32, std::move(shape));
  auto* values = reinterpret_cast<float*>(array.data.data());
  for (int64_t i = 0; i < array.elements(); ++i) values[i] = uniform(random);
  return array;
}

Result<Graph> load_lstm(const Options& options) {
  std::ifstream file(options.file, std::ios::binary);
  if (!file) return rnnc::fail("cannot read {}: run from the repository's root", options.file);
  rnnc::Unit unit(options.file, std::string(std::istreambuf_iterator<char>(file), {}));
  auto graph = unit.lower("LSTM", {});
  if (!graph) return rnnc::fail("{}", unit.render());
  return *std::move(graph);
}

Result<CompileOptions> compile_options(const Options& options) {
  CompileOptions compile;
  auto device = rnnc::Device::parse(options.device);
  if (!device) return tl::unexpected(device.error());
  const auto dtype = rnnc::parse_dtype(options.dtype);
  if (!dtype) return rnnc::fail("unknown dtype {}", options.dtype);
  compile.device = *device;
  compile.dtype = *dtype;
  compile.threads = options.threads;
  compile.dims = {{"I", options.input > 0 ? options.input : options.hidden}, {"H", options.hidden}};
  return compile;
}

Result<nlohmann::json> measure_steps(const Graph& graph, const CompileOptions& compile,
                                     const Options& options) {
  auto program = Program::compile(graph, compile);
  if (!program) return tl::unexpected(program.error());
  std::mt19937 random(1);
  const double scale = 1 / std::sqrt(static_cast<double>(options.hidden));
  rnnc::RunArgs args;
  for (const rnnc::ArrayInfo& param : program->signature().params) {
    args.params.push_back({param.name, random_array(param.shape, scale, random)});
  }
  for (const rnnc::ArrayInfo& input : program->signature().inputs) {
    std::vector<int64_t> shape = {options.steps, options.batch};
    shape.insert(shape.end(), input.shape.begin(), input.shape.end());
    args.inputs.push_back({input.name, random_array(std::move(shape), 1, random)});
  }
  rnnc::Runner runner(*program);
  if (auto result = runner.run(args); !result) return tl::unexpected(result.error());
  const auto seconds = runner.time_per_step(options.repeats);
  if (!seconds) return tl::unexpected(seconds.error());
  return nlohmann::json{{"microseconds_per_step", *seconds * 1e6}};
}

/// Seconds to compile and prepare.
Result<double> compile_once(const Graph& graph, const CompileOptions& compile,
                            const Options& options) {
  const auto begin = Clock::now();
  auto program = Program::compile(graph, compile);
  if (!program) return tl::unexpected(program.error());
  if (auto status = program->prepare(options.batch, options.steps); !status) {
    return tl::unexpected(status.error());
  }
  return seconds_since(begin);
}

/// Another size goes first, uncached, so that the device's context and libraries are live.
Result<nlohmann::json> measure_compile(const Graph& graph, CompileOptions compile,
                                       const Options& options) {
  CompileOptions other = compile;
  other.dims = {{"I", 8}, {"H", 8}};
  if (auto live = compile_once(graph, other, options); !live) return tl::unexpected(live.error());

  compile.cache_directory = std::filesystem::temp_directory_path() /
                            fmt::format("rnnc_bench_{}", static_cast<int64_t>(getpid()));
  const auto cold = compile_once(graph, compile, options);
  const auto cached = compile_once(graph, compile, options);
  std::filesystem::remove_all(compile.cache_directory);
  if (!cold) return tl::unexpected(cold.error());
  if (!cached) return tl::unexpected(cached.error());
  return nlohmann::json{{"cold_seconds", *cold}, {"cached_seconds", *cached}};
}

Result<nlohmann::json> measure(const Options& options) {
  const auto graph = load_lstm(options);
  if (!graph) return tl::unexpected(graph.error());
  const auto compile = compile_options(options);
  if (!compile) return tl::unexpected(compile.error());
  return options.compile ? measure_compile(*graph, *compile, options)
                         : measure_steps(*graph, *compile, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures rnnc on an LSTM");
  app.add_option("--file", options.file, "file with the cell LSTM")->capture_default_str();
  app.add_option("--device", options.device, "cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--dtype", options.dtype, "f32, bf16, f16 or f64")->capture_default_str();
  app.add_option("--steps", options.steps)->capture_default_str();
  app.add_option("--batch", options.batch)->capture_default_str();
  app.add_option("--hidden", options.hidden)->capture_default_str();
  app.add_option("--input", options.input, "input size; 0: as hidden")->capture_default_str();
  app.add_option("--threads", options.threads, "of the CPU")->capture_default_str();
  app.add_option("--repeats", options.repeats, "forward calls, of which the median counts")
      ->capture_default_str();
  app.add_flag("--compile", options.compile, "measure compiling instead of running");
  CLI11_PARSE(app, argc, argv);

  const auto result = measure(options);
  if (!result) {
    std::fprintf(stderr, "rnnc_bench: %s\n", result.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", result->dump().c_str());
}
