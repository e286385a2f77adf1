#include "tests/cpu/plan_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "runtime/cpu/cpu_executable.h"
#include "tests/cpu/kept_object.h"
#include "tests/cpu/value_of.h"

namespace rnnc::test {
namespace {

template <typename T>
std::vector<T> as(const Values& values) {
  return {values.begin(), values.end()};
}

template <typename T>
std::vector<Values> run_typed(const Plan& plan, const Call& call, const CpuTarget& target) {
  cpu::ThreadPools pools(call.threads);
  const auto executable = value_of(cpu::CpuExecutable::create(plan, compile(plan, target), pools));
  const auto bytes = static_cast<size_t>(workspace_bytes(plan, call.steps));
  const cpu::AlignedMemory workspace = value_of(cpu::AlignedMemory::allocate(bytes));
  std::fill_n(workspace.data(), bytes, std::byte{0xff});  // NaN

  std::vector<std::vector<T>> outputs;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.role == Role::Output) {
      outputs.emplace_back(buffer.width * call.steps * plan.batch, T{-9});
    }
  }
  const std::vector<T> input = as<T>(call.input);
  const std::vector<T> param = as<T>(call.param);
  const std::vector<const void*> inputs = {input.data()};
  const std::vector<const void*> params = {param.data()};
  std::vector<void*> output_pointers;
  for (auto& output : outputs) output_pointers.push_back(output.data());
  ForwardArgs args;
  args.steps = call.steps;
  args.batch = plan.batch;
  args.inputs = inputs;
  args.params = params;
  args.outputs = output_pointers;
  const std::vector<const void*> initial_states(plan.states.size());
  args.workspace = workspace.data();
  args.workspace_bytes = bytes;
  if (!call.lengths.empty()) args.lengths = call.lengths.data();
  if (!call.reset.empty()) args.reset = call.reset.data();
  const Status status = executable->run(make_call(args, initial_states), true);
  RNNC_CHECK(status.has_value(), "{}", status.error().message);
  std::vector<Values> results;
  for (const auto& output : outputs) results.emplace_back(output.begin(), output.end());
  return results;
}

}  // namespace

std::unique_ptr<CpuModule> compile(const Plan& plan, const CpuTarget& target) {
  static std::map<std::pair<DType, CpuTarget>, std::string> all_tiles;
  const std::string object = kept_object(plan, target);
  std::string& tiles = all_tiles[{plan.dtype, target}];
  if (tiles.empty()) tiles = value_of(compile_gemm_object(plan.dtype, target));
  return value_of(CpuModule::load(plan, object, tiles, target));
}

Values random_values(int64_t count) {
  std::mt19937 generator(1);
  std::uniform_int_distribution<int> uniform(-64, 64);
  Values values(count);
  for (double& value : values) value = uniform(generator) / 64.0;
  return values;
}

std::vector<Values> run(const Plan& plan, const Call& call, const CpuTarget& target) {
  const Status verified = verify(plan);
  EXPECT_TRUE(verified) << verified.error().message;
  return plan.dtype == DType::f64 ? run_typed<double>(plan, call, target)
                                  : run_typed<float>(plan, call, target);
}

}  // namespace rnnc::test
