#include "tests/support/cells/sequence_graphs.h"

#include "ir/graph/text.h"
#include "passes/graph/delays.h"
#include "tests/support/cells/golden_cases.h"

namespace rnnc::test {
namespace {

/// x[t-1] and h[t-2], a declared initial state from a param and one from a constant.
constexpr std::string_view kQrnn = R"(graph Qrnn(I = 5, H = 7) {
  input x: [I]
  param W: [H, I]
  param V: [H, I]
  param U: [H, H]
  param h0: [H]
  state h: [H]
  state c: [H]
  %0 = param h0 : [H]
  %1 = const -0.5 : []
  %2 = param W : [H, I]
  %3 = input x : [I]
  %4 = matmul %2, %3 : [H]
  %5 = param V : [H, I]
  %6 = input x @ 1 : [I]
  %7 = matmul %5, %6 : [H]
  %8 = add %4, %7 : [H]
  %9 = tanh %8 : [H]
  %10 = param U : [H, H]
  %11 = state h @ 2 : [H]
  %12 = matmul %10, %11 : [H]
  %13 = add %4, %12 : [H]
  %14 = sigmoid %13 : [H]
  %15 = state c @ 1 : [H]
  %16 = sub %9, %15 : [H]
  %17 = mul %14, %16 : [H]
  %18 = add %15, %17 : [H]
  %19 = tanh %18 : [H]
  init h = %0
  init c = %1
  next h = %19
  next c = %18
  output y = %19
}
)";

/// x, a state that products read, one that only elementwise ops do and one that starts as a param,
/// all further back than there are states for.
constexpr std::string_view kHistories = R"(graph Histories(I = 3, H = 5) {
  input x: [I]
  param W: [H, I]
  param R: [H, H]
  param V: [H, H]
  param s: [H]
  state h: [H]
  state g: [H]
  state k: [H]
  %0 = param W : [H, I]
  %1 = input x @ 9 : [I]
  %2 = input x : [I]
  %3 = add %1, %2 : [I]
  %4 = matmul %0, %3 : [H]
  %5 = param R : [H, H]
  %6 = state h @ 10 : [H]
  %7 = matmul %5, %6 : [H]
  %8 = param V : [H, H]
  %9 = state h @ 1 : [H]
  %10 = matmul %8, %9 : [H]
  %11 = state h @ 3 : [H]
  %12 = state g @ 9 : [H]
  %13 = state k @ 10 : [H]
  %14 = add %4, %7 : [H]
  %15 = add %14, %10 : [H]
  %16 = sub %15, %11 : [H]
  %17 = add %16, %13 : [H]
  %18 = tanh %17 : [H]
  %19 = mul %12, %12 : [H]
  %20 = add %19, %18 : [H]
  %21 = tanh %20 : [H]
  %22 = param s : [H]
  %23 = state k @ 2 : [H]
  %24 = mul %22, %23 : [H]
  %25 = const 0.25 : []
  init h = %25
  next h = %18
  init g = %25
  next g = %21
  init k = %22
  next k = %24
  output y = %21
  output z = %18
}
)";

/// A loop that carries the newest step of a history: nothing comes of what is read far back.
constexpr std::string_view kUnread = R"(graph Unread(H = 5) {
  input x: [H]
  state h: [H]
  %0 = input x : [H]
  %1 = state h @ 2 : [H]
  %2 = state h @ 12 : [H]
  %3 = add %0, %1 : [H]
  %4 = tanh %3 : [H]
  %5 = const 0.25 : []
  init h = %5
  next h = %4
  output y = %4
}
)";

/// Locals and a layer's input at earlier steps, near and far, within the recurrence, below and above
/// it.
constexpr std::string_view kLocals = R"(graph Locals(I = 3, H = 5) {
  input x: [I]
  param W: [H, I]
  param R: [H, H]
  param Inner.0.V: [H, H]
  state h: [H]
  state u@1: [H]
  state Inner.0.x@1: [H]
  state Inner.0.u@1: [H]
  state w@1: [H]
  %0 = input x : [I]
  %1 = state h @ 1 : [H]
  %2 = param W : [H, I]
  %3 = param R : [H, H]
  %4 = const 0 : []
  %5 = matmul %2, %0 : [H]
  %6 = state u@1 @ 2 : [H]
  %7 = add %5, %6 : [H]
  %8 = state u@1 @ 12 : [H]
  %9 = sub %7, %8 : [H]
  %10 = tanh %9 : [H]
  %11 = param Inner.0.V : [H, H]
  %12 = matmul %11, %10 : [H]
  %13 = state Inner.0.x@1 @ 9 : [H]
  %14 = index %13 at 0 : []
  %15 = state Inner.0.u@1 @ 1 : [H]
  %16 = mul %14, %15 : [H]
  %17 = add %12, %16 : [H]
  %18 = state u@1 @ 1 : [H]
  %19 = matmul %3, %1 : [H]
  %20 = add %18, %19 : [H]
  %21 = add %20, %17 : [H]
  %22 = tanh %21 : [H]
  %23 = sub %22, %17 : [H]
  %24 = state w@1 @ 10 : [H]
  %25 = add %23, %24 : [H]
  %26 = mean %25 : []
  %27 = index %6 at 4 : []
  %28 = mul %26, %27 : []
  init h = %4
  next h = %22
  init u@1 = %4
  next u@1 = %10
  init Inner.0.x@1 = %4
  next Inner.0.x@1 = %10
  init Inner.0.u@1 = %4
  next Inner.0.u@1 = %12
  init w@1 = %4
  next w@1 = %23
  output y = %25
  output z = %28
}
)";

/// Both directions side by side, and on top of them a reversed and a forward layer: three sweeps.
constexpr std::string_view kBidirectional = R"(graph Bidirectional(I = 3, H = 5) {
  input x: [I]
  param W: [H, I]
  param R: [H, H]
  param V: [H, I]
  param S: [H, H]
  param s0: [H]
  param U: [H, 2 * H]
  state F.h: [H]
  state B.h: [H] reversed
  state B.x@1: [I] reversed
  state T.h: [H] reversed
  state T.n: []
  %0 = const 0 : []
  %1 = param s0 : [H]
  %2 = param W : [H, I]
  %3 = input x : [I]
  %4 = matmul %2, %3 : [H]
  %5 = param R : [H, H]
  %6 = state F.h @ 1 : [H]
  %7 = matmul %5, %6 : [H]
  %8 = add %4, %7 : [H]
  %9 = tanh %8 : [H]
  %10 = reverse %3 : [I]
  %11 = param V : [H, I]
  %12 = state B.x@1 @ 1 : [I]
  %13 = add %10, %12 : [I]
  %14 = matmul %11, %13 : [H]
  %15 = param S : [H, H]
  %16 = state B.h @ 1 : [H]
  %17 = matmul %15, %16 : [H]
  %18 = add %14, %17 : [H]
  %19 = tanh %18 : [H]
  %20 = reverse %19 : [H]
  %21 = concat %9, %20 : [2 * H]
  %22 = reverse %21 : [2 * H]
  %23 = param U : [H, 2 * H]
  %24 = matmul %23, %22 : [H]
  %25 = state T.h @ 1 : [H]
  %26 = mul %25, %24 : [H]
  %27 = add %26, %24 : [H]
  %28 = tanh %27 : [H]
  %29 = reverse %28 : [H]
  %30 = sum %29 : []
  %31 = state T.n @ 1 : []
  %32 = const 0.5 : []
  %33 = mul %31, %32 : []
  %34 = add %33, %30 : []
  init F.h = %0
  init B.h = %1
  init B.x@1 = %0
  init T.h = %32
  init T.n = %0
  next F.h = %9
  next B.h = %19
  next B.x@1 = %10
  next T.h = %28
  next T.n = %34
  output both = %21
  output top = %29
  output n = %34
}
)";

/// R @ h and h @ Q with N blocks each, and P @ g at all steps at once.
constexpr std::string_view kBlocks = R"(graph Blocks(I = 4, H = 15, N = 5) {
  input x: [I]
  param W: [H, I]
  param R: [N, H / N, H / N]
  param Q: [N, H / N, H / N]
  param P: [N, 2, H / N]
  state h: [H]
  state g: [H]
  %0 = const 0.25 : []
  %1 = param W : [H, I]
  %2 = input x : [I]
  %3 = matmul %1, %2 : [H]
  %4 = param R : [N, H / N, H / N]
  %5 = state h @ 1 : [H]
  %6 = matmul %4, %5 : [H]
  %7 = add %3, %6 : [H]
  %8 = tanh %7 : [H]
  %9 = param Q : [N, H / N, H / N]
  %10 = state g @ 1 : [H]
  %11 = matmul %10, %9 : [H]
  %12 = add %11, %8 : [H]
  %13 = tanh %12 : [H]
  %14 = param P : [N, 2, H / N]
  %15 = matmul %14, %13 : [2 * N]
  init h = %0
  init g = %0
  next h = %8
  next g = %13
  output y = %13
  output z = %15
}
)";

/// A stack of three layers of which each reads the one below as it was a step before.
constexpr std::string_view kArrays = R"(graph Arrays(H = 7) {
  input x: [H]
  param R: [3, H, H]
  param s0: [3, H]
  state s: [3, H]
  %0 = param s0 : [3, H]
  %1 = param R : [3, H, H]
  %2 = input x : [H]
  %3 = state s @ 1 : [3, H]
  %4 = index %3 at 0 : [H]
  %5 = index %3 at 1 : [H]
  %6 = index %3 at 2 : [H]
  %7 = index %1 at 0 : [H, H]
  %8 = index %1 at 1 : [H, H]
  %9 = index %1 at 2 : [H, H]
  %10 = matmul %7, %4 : [H]
  %11 = add %10, %2 : [H]
  %12 = tanh %11 : [H]
  %13 = matmul %8, %4 : [H]
  %14 = add %13, %5 : [H]
  %15 = tanh %14 : [H]
  %16 = matmul %9, %5 : [H]
  %17 = mul %16, %6 : [H]
  %18 = add %17, %15 : [H]
  %19 = tanh %18 : [H]
  %20 = stack %12, %15, %19 : [3, H]
  init s = %0
  next s = %20
  output y = %19
}
)";

/// A skew-symmetric recurrent weight less a multiple of the identity, an initial state computed
/// from params, and a transposed weight on top.
constexpr std::string_view kDerived = R"(graph Derived(I = 3, H = 37) {
  input x: [I]
  param W: [H, H]
  param V: [H, I]
  param gamma: []
  param s0: [H]
  state h: [H]
  %0 = param W : [H, H]
  %1 = transpose %0 : [H, H]
  %2 = sub %0, %1 : [H, H]
  %3 = param gamma : []
  %4 = eye : [H, H]
  %5 = mul %3, %4 : [H, H]
  %6 = sub %2, %5 : [H, H]
  %7 = state h @ 1 : [H]
  %8 = matmul %6, %7 : [H]
  %9 = param V : [H, I]
  %10 = input x : [I]
  %11 = matmul %9, %10 : [H]
  %12 = add %8, %11 : [H]
  %13 = tanh %12 : [H]
  %14 = add %7, %13 : [H]
  %15 = const 0.5 : []
  %16 = mul %14, %15 : [H]
  %17 = transpose %9 : [I, H]
  %18 = matmul %17, %16 : [I]
  %19 = param s0 : [H]
  %20 = tanh %19 : [H]
  init h = %20
  next h = %16
  output y = %18
}
)";

/// Gates cut from one product of the input beside the state, and a window that moves on by a step.
constexpr std::string_view kSlices = R"(graph Slices(I = 4, H = 9) {
  input x: [I]
  param W: [2 * H, I + H]
  param b: [2 * H]
  state h: [H]
  state w: [I]
  %0 = const 0.5 : []
  %1 = input x : [I]
  %2 = state h @ 1 : [H]
  %3 = concat %1, %2 : [H + I]
  %4 = param W : [2 * H, H + I]
  %5 = matmul %4, %3 : [2 * H]
  %6 = param b : [2 * H]
  %7 = add %5, %6 : [2 * H]
  %8 = slice %7 from 0 to H : [H]
  %9 = slice %7 from H to 2 * H : [H]
  %10 = sigmoid %8 : [H]
  %11 = tanh %9 : [H]
  %12 = sub %11, %2 : [H]
  %13 = mul %10, %12 : [H]
  %14 = add %2, %13 : [H]
  %15 = state w @ 1 : [I]
  %16 = slice %15 from 1 to I : [I - 1]
  %17 = slice %14 from H - 1 to H : [1]
  %18 = concat %16, %17 : [I]
  %19 = index %14 at 2 : []
  %20 = broadcast %19 : [I]
  %21 = concat %20, %18, %10 : [2 * I + H]
  init h = %0
  init w = %0
  next h = %14
  next w = %18
  output y = %21
}
)";

Graph bound(Graph graph, const DimBindings& dims) {
  const Result<DimBindings> complete = complete_bindings(graph, dims);
  RNNC_CHECK(complete.has_value(), "{}", complete.error().message);
  graph.bind(*complete);
  run_delays(graph);
  return graph;
}

Graph lstm(const DimBindings& dims) {
  GoldenCase lstm;
  lstm.cell = "LSTM";
  lstm.size.dims = {{"I", 3}, {"H", 17}};
  for (const auto& [name, value] : dims) lstm.size.dims[name] = value;
  Result<Graph> graph = golden_graph(lstm);
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  return *std::move(graph);
}

}  // namespace

std::vector<std::string> sequence_graphs() {
  std::vector<std::string> names = streaming_graphs();
  names.emplace_back("Bidirectional");
  return names;
}

std::vector<std::string> streaming_graphs() {
  return {"LSTM", "Qrnn", "Histories", "Unread", "Locals", "Blocks", "Arrays", "Derived", "Slices"};
}

Graph sequence_graph(const std::string& name, const DimBindings& dims) {
  if (name == "LSTM") return lstm(dims);
  for (const std::string_view text :
       {kQrnn, kHistories, kUnread, kLocals, kBidirectional, kBlocks, kArrays, kDerived, kSlices}) {
    Result<Graph> graph = parse_graph(text);
    RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
    if (graph->name == name) return bound(*std::move(graph), dims);
  }
  RNNC_CHECK(false, "there is no graph {}", name);
}

}  // namespace rnnc::test
