#include "tests/support/shared_program.h"

#include <gtest/gtest.h>

#include "ir/graph/text.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/backend/backend.h"
#include "runtime/program/run.h"

namespace rnnc::test {
namespace {

constexpr int64_t kSteps = 5;

/// `W + V` is made once for all steps, and both products have packed weights.
constexpr std::string_view kGraph = R"(graph Shared(I = 12, H = 20) {
  input x: [I]
  param W: [H, I]
  param V: [H, I]
  param R: [H, H]
  state h: [H]
  %0 = param W : [H, I]
  %1 = param V : [H, I]
  %2 = input x : [I]
  %3 = matmul %0, %2 : [H]
  %4 = matmul %1, %2 : [H]
  %5 = add %3, %4 : [H]
  %6 = param R : [H, H]
  %7 = state h @ 1 : [H]
  %8 = matmul %6, %7 : [H]
  %9 = add %5, %8 : [H]
  %10 = tanh %9 : [H]
  %11 = const 0 : []
  init h = %11
  next h = %10
  output h = %10
}
)";

Program compile(const CompileOptions& options) {
  const Result<Graph> graph = parse_graph(kGraph);
  RNNC_CHECK(graph, "{}", graph.error().message);
  Result<Program> program = Program::compile(*graph, options);
  RNNC_CHECK(program, "{}", program.error().message);
  return *std::move(program);
}

/// Numbers of one caller, `who`.
std::vector<NamedArray> params_of(const Signature& signature, uint64_t who) {
  Result<std::vector<NamedArray>> params = random_weights(signature.params, who);
  RNNC_CHECK(params, "{}", params.error().message);
  return *std::move(params);
}

RunArgs inputs(const Signature& signature, int64_t batch, bool lengths) {
  ArrayInfo x = signature.inputs[0];
  x.shape.insert(x.shape.begin(), {kSteps, batch});
  RunArgs args{.inputs = {{"x", random_array(x, 1, 7)}}, .params = {}, .initial_states = {}};
  if (lengths) args.lengths = std::vector<int64_t>(batch, kSteps);
  return args;
}

std::vector<std::byte> bits_of(const Result<RunResult>& result) {
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->outputs[0].array.data : std::vector<std::byte>();
}

std::vector<std::byte> expected_bits(const CompileOptions& options, uint64_t who, int64_t batch,
                                     bool lengths) {
  Program program = compile(options);
  RunArgs args = inputs(program.signature(), batch, lengths);
  args.params = params_of(program.signature(), who);
  return bits_of(Runner(program).run(args));
}

/// Arrays on the program's device.
class OnDevice {
 public:
  explicit OnDevice(Backend& backend) : backend_(backend) {}
  ~OnDevice() {
    for (void* memory : memories_) backend_.release(memory);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void* add(size_t bytes) { return memories_.emplace_back(backend_.allocate(bytes).value()); }
  void* add(const Array& array) {
    void* memory = add(array.data.size());
    EXPECT_TRUE(backend_.upload(memory, array.data.data(), array.data.size()));
    return memory;
  }

 private:
  Backend& backend_;
  std::vector<void*> memories_;
};

/// One forward call with params of its own, which it promises to be those of the call before.
std::vector<std::byte> forward(Program& program, uint64_t who, int64_t batch) {
  const Signature& signature = program.signature();
  const Status prepared = program.prepare(batch, kSteps);
  EXPECT_TRUE(prepared) << prepared.error().message;
  OnDevice arrays(program.backend());
  std::vector<const void*> params;
  for (const NamedArray& param : params_of(signature, who))
    params.push_back(arrays.add(param.array));
  const Array x = inputs(signature, batch, false).inputs[0].array;
  const std::vector<const void*> given = {arrays.add(x)};
  Array h{.dtype = signature.outputs[0].dtype, .shape = {kSteps, batch, 20}, .data = {}};
  h.data.resize(static_cast<size_t>(h.elements()) * size_of(h.dtype));
  const std::vector<void*> outputs = {arrays.add(h.data.size())};
  ForwardArgs args;
  args.steps = kSteps;
  args.batch = batch;
  args.inputs = given;
  args.params = params;
  args.outputs = outputs;
  args.reuse_params = true;
  args.workspace_bytes = program.workspace_size(batch, kSteps).value();
  args.workspace = arrays.add(args.workspace_bytes + 1);
  const Status ran = program.forward(args);
  EXPECT_TRUE(ran) << ran.error().message;
  EXPECT_TRUE(program.backend().synchronize(nullptr));
  EXPECT_TRUE(program.backend().download(h.data.data(), outputs[0], h.data.size()));
  return h.as(compute_type(h.dtype)).data;
}

}  // namespace

void check_shared_program(const CompileOptions& options) {
  Program program = compile(options);
  std::vector<Runner> runners;
  for (uint64_t who = 0; who < 3; ++who) {
    runners.emplace_back(program);
    const Status loaded = runners[who].load_params(params_of(program.signature(), who));
    ASSERT_TRUE(loaded) << loaded.error().message;
  }
  struct Call {
    uint64_t who;
    int64_t batch = 2;
    bool lengths = false;
    bool direct = false;  // a forward call, no runner's
  };
  // Each runner meets what every other caller left behind, at its own shape and at others.
  const Call calls[] = {{0},
                        {1},
                        {0},
                        {0, 3},
                        {1, 3},
                        {1},
                        {0, 3},
                        {2, 2, true},
                        {0},
                        {1, 2, true},
                        {2, 2, true},
                        {5, 2, false, true},
                        {1},
                        {0},
                        {6, 2, false, true},
                        {1},  // else the next may have its arrays where the last one's were
                        {5, 2, false, true},
                        {2, 3},
                        {0, 3}};
  for (size_t i = 0; i < std::size(calls); ++i) {
    const auto& [who, batch, lengths, direct] = calls[i];
    SCOPED_TRACE(fmt::format("call {}: caller {}, batch {}", i, who, batch));
    const std::vector<std::byte> bits =
        direct ? forward(program, who, batch)
               : bits_of(runners[who].run(inputs(program.signature(), batch, lengths)));
    EXPECT_EQ(bits, expected_bits(options, who, batch, lengths));
  }
  // Other params of a runner are other params, though they lie where the old ones did.
  ASSERT_TRUE(runners[0].load_params(params_of(program.signature(), 9)));
  EXPECT_EQ(bits_of(runners[0].run(inputs(program.signature(), 3, false))),
            expected_bits(options, 9, 3, false));
  EXPECT_EQ(bits_of(runners[0].run(inputs(program.signature(), 2, false))),
            expected_bits(options, 9, 2, false));
}

}  // namespace rnnc::test
