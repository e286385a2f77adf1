#include "tests/support/one_step_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "ir/graph/interpreter.h"
#include "passes/graph/delays.h"
#include "runtime/program/device_array.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/kept_kernels.h"

namespace rnnc::test {
namespace {

/// Where a call leaves its states: an array for each is given, or another.
enum class Finals : uint8_t { Apart, InPlace, Crossed, Shifted };
constexpr std::pair<Finals, const char*> kFinals[] = {{Finals::Apart, "apart"},
                                                      {Finals::InPlace, "in place"},
                                                      {Finals::Crossed, "crossed"},
                                                      {Finals::Shifted, "one element off"}};

using Values = std::vector<double>;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(const Values& values, DType dtype) {
  Bytes bytes(values.size() * size_of(dtype));
  convert(values.data(), DType::f64, bytes.data(), dtype, values.size());
  return bytes;
}

Values values_of(const Bytes& bytes, DType dtype) {
  Values values(bytes.size() / size_of(dtype));
  convert(bytes.data(), dtype, values.data(), DType::f64, values.size());
  return values;
}

/// An array of the device's that may begin some bytes behind an aligned address.
class Place {
 public:
  Place(Backend& backend, size_t bytes, size_t shift = 0)
      : backend_(&backend),
        memory_(std::make_unique<DeviceArray>(backend)),
        bytes_(bytes),
        shift_(shift) {
    EXPECT_TRUE(memory_->reserve(bytes + shift));
    put(Bytes(bytes, std::byte{0xff}));
  }
  std::byte* get() const { return static_cast<std::byte*>(memory_->get()) + shift_; }
  void put(const Bytes& bytes) const {
    EXPECT_TRUE(backend_->upload(get(), bytes.data(), bytes.size()));
  }
  /// NaN, in any type.
  void poison() const { put(Bytes(bytes_, std::byte{0xff})); }
  Bytes take() const {
    Bytes bytes(bytes_);
    EXPECT_TRUE(backend_->download(bytes.data(), get(), bytes.size()));
    return bytes;
  }

 private:
  Backend* backend_;
  std::unique_ptr<DeviceArray> memory_;
  size_t bytes_, shift_;
};

template <typename Pointer>
std::vector<Pointer> pointers_to(const std::vector<Place>& places) {
  std::vector<Pointer> pointers;
  for (const Place& place : places) pointers.push_back(place.get());
  return pointers;
}

class OneStepCalls {
 public:
  OneStepCalls(Program& program, const InterpreterArgs& args)
      : program_(program), args_(args), signature_(program.signature()) {}

  struct Results {
    std::vector<std::vector<Bytes>> outputs;  // by step
    std::vector<Bytes> finals;
  };

  Results run(Finals way, bool given) {
    const size_t shift = way == Finals::Shifted ? 1 : 0;  // elements
    std::vector<Place> params = arrays(signature_.params, 1, 0);
    for (size_t i = 0; i < params.size(); ++i) {
      params[i].put(bytes_of(args_.params[i], signature_.params[i].dtype));
    }
    std::vector<Place> now = arrays(signature_.states, args_.batch, shift);
    std::vector<Place> next = arrays(signature_.states, args_.batch, shift);
    for (size_t i = 0; given && i < now.size(); ++i) {
      now[i].put(bytes_of(args_.initial_states[i], signature_.states[i].dtype));
    }
    Results results;
    for (int64_t step = 0; step < args_.steps; ++step) {
      std::vector<const void*> initial = pointers_to<const void*>(now);
      if (step == 0 && !given) initial.clear();
      if (way == Finals::Crossed) std::rotate(now.begin(), now.begin() + 1, now.end());
      std::vector<Place>& finals = way == Finals::InPlace || way == Finals::Crossed ? now : next;
      const std::vector<Bytes> before = taken(now);
      results.outputs.push_back(call(step, params, initial, pointers_to<void*>(finals)));
      results.finals = taken(finals);
      if (&finals == &now) continue;
      EXPECT_TRUE(taken(now) == before) << "initial states have changed";
      std::swap(now, next);
      for (const Place& place : next) place.poison();
    }
    return results;
  }

 private:
  std::vector<Place> arrays(const std::vector<ArrayInfo>& infos, int64_t rows, size_t shift) {
    std::vector<Place> places;
    for (const ArrayInfo& info : infos) {
      const size_t element = size_of(info.dtype);
      const auto count = static_cast<size_t>(rows * info.elements());
      places.emplace_back(program_.backend(), count * element, shift * element);
    }
    return places;
  }

  static std::vector<Bytes> taken(const std::vector<Place>& places) {
    std::vector<Bytes> all;
    for (const Place& place : places) all.push_back(place.take());
    return all;
  }

  std::vector<Bytes> call(int64_t step, const std::vector<Place>& params,
                          const std::vector<const void*>& initial,
                          const std::vector<void*>& finals) {
    const std::vector<Place> inputs = arrays(signature_.inputs, args_.batch, 0);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t count = args_.batch * signature_.inputs[i].elements();
      const auto first = args_.inputs[i].begin() + step * count;
      inputs[i].put(bytes_of(Values(first, first + count), signature_.inputs[i].dtype));
    }
    const std::vector<Place> outputs = arrays(signature_.outputs, args_.batch, 0);
    const auto input_pointers = pointers_to<const void*>(inputs);
    const auto param_pointers = pointers_to<const void*>(params);
    const auto output_pointers = pointers_to<void*>(outputs);
    ForwardArgs args;
    args.steps = 1;
    args.batch = args_.batch;
    args.inputs = input_pointers;
    args.params = param_pointers;
    args.outputs = output_pointers;
    args.initial_states = initial;
    args.final_states = finals;
    args.reuse_params = step > 0;
    args.workspace_bytes = program_.workspace_size(args_.batch, 1).value();
    const Place workspace(program_.backend(), args.workspace_bytes);
    args.workspace = workspace.get();
    const Status ran = program_.forward(args);
    EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
    EXPECT_TRUE(program_.backend().synchronize(nullptr));
    return taken(outputs);
  }

  Program& program_;
  const InterpreterArgs& args_;
  const Signature& signature_;
};

void expect_near(const Values& got, const double* wanted, double tolerance, std::string_view name) {
  double largest = 1;
  for (size_t i = 0; i < got.size(); ++i) largest = std::max(largest, std::fabs(wanted[i]));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::fabs(got[i] - wanted[i]), tolerance * largest) << name << " at " << i;
  }
}

void expect_right(const OneStepCalls::Results& got, const InterpreterResult& wanted,
                  const Signature& signature, double tolerance) {
  for (size_t step = 0; step < got.outputs.size(); ++step) {
    for (size_t i = 0; i < signature.outputs.size(); ++i) {
      const Values values = values_of(got.outputs[step][i], signature.outputs[i].dtype);
      expect_near(values, &wanted.outputs[i][step * values.size()], tolerance,
                  signature.outputs[i].name);
    }
  }
  for (size_t i = 0; i < signature.states.size(); ++i) {
    expect_near(values_of(got.finals[i], signature.states[i].dtype), wanted.final_states[i].data(),
                tolerance, signature.states[i].name);
  }
}

bool are_of_one_size(const std::vector<ArrayInfo>& arrays) {
  return std::ranges::all_of(
      arrays, [&](const ArrayInfo& array) { return array.elements() == arrays[0].elements(); });
}

}  // namespace

void check_one_step_calls(const Graph& graph, const CompileOptions& options,
                          const OneStepShape& shape, double tolerance) {
  Result<Program> program = Program::compile(graph, with_kept_kernels(options));
  ASSERT_TRUE(program) << program.error().message;
  const Status prepared = program->prepare(shape.batch, 1);
  ASSERT_TRUE(prepared) << prepared.error().message;
  const Signature& signature = program->signature();
  Graph complete = graph;
  run_delays(complete);
  const InterpreterArgs args =
      random_args(complete, shape.calls, shape.batch, 5, /*with_initial_states=*/true);
  // Of several sweeps the first leaves final states before the others begin.
  const bool may_cross = are_of_one_size(signature.states) &&
                         program->prepared(shape.batch, 1).value().plan->sweeps == 1;
  for (const bool given : {true, false}) {
    SCOPED_TRACE(given ? "given" : "as declared");
    InterpreterArgs same = args;
    if (!given) same.initial_states.clear();
    const InterpreterResult wanted = interpret(complete, same);
    OneStepCalls calls(*program, args);
    const OneStepCalls::Results first = calls.run(Finals::Apart, given);
    expect_right(first, wanted, signature, tolerance);
    for (const auto& [way, name] : kFinals) {
      if (way == Finals::Crossed && !may_cross) continue;
      SCOPED_TRACE(name);
      const OneStepCalls::Results other = calls.run(way, given);
      EXPECT_TRUE(other.outputs == first.outputs);
      EXPECT_TRUE(other.finals == first.finals);
    }
  }
}

}  // namespace rnnc::test
