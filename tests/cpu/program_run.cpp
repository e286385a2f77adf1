#include "tests/cpu/program_run.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "frontend/unit.h"
#include "passes/graph/delays.h"
#include "tests/cpu/allocation_count.h"
#include "tests/cpu/value_of.h"
#include "tests/support/kept_kernels.h"

namespace rnnc::test {
namespace {

/// Arrays in the program's dtype.
class CallArrays {
 public:
  CallArrays(const std::vector<std::vector<double>>& values, DType dtype) : dtype_(dtype) {
    for (const auto& array : values) {
      bytes_.emplace_back(array.size() * size_of(dtype));
      convert(array.data(), DType::f64, bytes_.back().data(), dtype, array.size());
    }
  }
  /// Inputs, each in its own.
  CallArrays(const std::vector<std::vector<double>>& values, const std::vector<ArrayInfo>& infos,
             DType dtype)
      : CallArrays(values, dtype) {
    for (size_t i = 0; i < infos.size(); ++i) {
      bytes_[i].resize(values[i].size() * size_of(infos[i].dtype));
      convert(values[i].data(), DType::f64, bytes_[i].data(), infos[i].dtype, values[i].size());
    }
  }
  /// Room for arrays that a call writes.
  CallArrays(const std::vector<ArrayInfo>& arrays, int64_t rows, DType dtype) : dtype_(dtype) {
    for (const ArrayInfo& array : arrays) {
      bytes_.emplace_back(array.elements() * rows * size_of(dtype));
    }
  }
  /// Null for empty arrays.
  template <typename Pointer>
  std::vector<Pointer> pointers() {
    std::vector<Pointer> result;
    result.reserve(bytes_.size());
    for (auto& array : bytes_) result.push_back(array.empty() ? nullptr : array.data());
    return result;
  }
  std::vector<std::vector<double>> values() const {
    std::vector<std::vector<double>> result;
    for (const auto& array : bytes_) {
      result.emplace_back(array.size() / size_of(dtype_));
      convert(array.data(), dtype_, result.back().data(), DType::f64, result.back().size());
    }
    return result;
  }

 private:
  DType dtype_;
  std::vector<std::vector<std::byte>> bytes_;
};

double worst_of_arrays(const std::vector<std::vector<double>>& got,
                       const std::vector<std::vector<double>>& wanted) {
  RNNC_CHECK(got.size() == wanted.size(), "different numbers of arrays");
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    RNNC_CHECK(got[i].size() == wanted[i].size(), "different sizes");
    double largest = 0;
    double difference = 0;
    for (size_t j = 0; j < got[i].size(); ++j) {
      if (std::isnan(wanted[i][j]) || got[i][j] == wanted[i][j]) {
        if (std::isnan(wanted[i][j]) != std::isnan(got[i][j])) {
          return std::numeric_limits<double>::infinity();
        }
        continue;
      }
      if (!std::isfinite(got[i][j])) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, std::fabs(wanted[i][j]));
      difference = std::max(difference, std::fabs(got[i][j] - wanted[i][j]));
    }
    worst = std::max(worst, difference / (1 + largest));
  }
  return worst;
}

}  // namespace

Graph example_graph(const std::string& file, const std::string& cell, const DimBindings& dims) {
  std::ifstream stream(std::string(RNNC_SOURCE_DIR) + "/examples/cells/" + file);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  Unit unit(file, std::move(text));
  auto graph = unit.lower(cell, dims);
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind(value_of(complete_bindings(*graph, dims)));
  return *graph;
}

Graph with_states(Graph graph) {
  run_delays(graph);
  return graph;
}

CpuProgram::CpuProgram(const Graph& graph, const CompileOptions& options, int64_t batch,
                       int64_t max_steps, SequenceFeatures features)
    : program_(value_of(Program::compile(graph, with_kept_kernels(options)))) {
  const Status prepared = program_.prepare(batch, max_steps, features);
  RNNC_CHECK(prepared.has_value(), "{}", prepared.error().message);
}

InterpreterResult CpuProgram::run(const InterpreterArgs& args, bool reuse_params,
                                  const CallSequences& sequences) {
  const DType dtype = program_.options().dtype;
  const Signature& signature = program_.signature();
  CallArrays inputs(args.inputs, signature.inputs, dtype);
  CallArrays params(args.params, dtype);
  CallArrays initial_states(args.initial_states, dtype);
  CallArrays outputs(signature.outputs, args.steps * args.batch, dtype);
  CallArrays final_states(signature.states, args.batch, dtype);
  const auto input_pointers = inputs.pointers<const void*>();
  const auto param_pointers = params.pointers<const void*>();
  const auto initial_pointers = initial_states.pointers<const void*>();
  const auto output_pointers = outputs.pointers<void*>();
  const auto final_pointers = final_states.pointers<void*>();
  const SequenceFeatures features = {.lengths = !sequences.lengths.empty(),
                                     .resets = !sequences.resets.empty()};
  const size_t bytes = value_of(program_.workspace_size(args.batch, args.steps, features));
  std::vector<std::byte> workspace(bytes + 256);
  void* aligned = workspace.data();
  size_t space = workspace.size();
  std::align(256, bytes, aligned, space);

  ForwardArgs call;
  call.steps = args.steps;
  call.batch = args.batch;
  call.inputs = input_pointers;
  call.params = param_pointers;
  call.outputs = output_pointers;
  call.initial_states = initial_pointers;
  call.final_states = final_pointers;
  call.reuse_params = reuse_params;
  if (features.lengths) call.lengths = sequences.lengths.data();
  if (features.resets) call.reset = sequences.resets.data();
  call.workspace = aligned;
  call.workspace_bytes = bytes;
  const int64_t before = allocation_count();
  const Status status = program_.forward(call);
  allocations_ = allocation_count() - before;
  RNNC_CHECK(status.has_value(), "{}", status.error().message);
  return {outputs.values(), final_states.values()};
}

double worst_error(const InterpreterResult& got, const InterpreterResult& wanted) {
  return std::max(worst_of_arrays(got.outputs, wanted.outputs),
                  worst_of_arrays(got.final_states, wanted.final_states));
}

}  // namespace rnnc::test
