/// The step Graph: one time step of a cell or network as a DAG of values.
///
/// Values have a shape and no element type: the Graph is arithmetic over the reals, its meaning is
/// the float64 interpreter's, and the storage type of every array is the Plan's choice. A leading
/// batch axis is implied on every value that depends on an input or a state.
///
/// A state is a pair: `Op::State` nodes read it at t - delay, and `StateDecl::next` is the value it
/// takes at t. Those pairs, `Op::Reverse` and `Op::Earlier` are the only edges that cross steps.
///
/// Every value that varies over time runs forward (inputs and outputs do) or in reverse, where
/// step t stands for step T - 1 - t of the sequence: `Op::Reverse` goes from one to the other, and
/// no op mixes them. A state runs as `StateDecl::reversed` says.
///
/// A `descending` Graph goes over the sequence from step T - 1 to step 0, and a state read at t - 1
/// is then the one of step t + 1: adjoints run this way. Steps keep their numbers; values that run
/// in reverse have theirs too, and also go from T - 1 to 0.
///
/// After all steps come values made of totals (`Op::Total`: sums over steps and batch), of states'
/// last values (`Op::Final`) and of invariants: `results` name those that are wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/source_file.h"
#include "ir/base/source_location.h"
#include "ir/graph/dim.h"
#include "ir/graph/ops.h"

namespace rnnc {

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

struct Type {
  Shape shape;
  size_t rank() const { return shape.size(); }
  bool is_scalar() const { return shape.empty(); }
  friend bool operator==(const Type&, const Type&) = default;
};

struct Node {
  Op op = Op::Constant;
  Type type;
  std::vector<NodeId> operands;     // always smaller ids: the arena is in topological order
  uint32_t decl = 0;                // Input, Param, State, Final: index into the Graph's lists.
                                    // Valid, Reset: 1 for values that run in reverse, else 0
  uint32_t delay = 0;               // Input, State: steps back in time. Reset: how many steps
                                    // before count too
  double value = 0;                 // Constant
  std::vector<double> values = {};  // Vector
  Dim begin = {};                   // Slice, Index: the first element
  Dim end = {};                     // Slice: past the last element
  SourceLocation location;
};

/// A dim symbol of the graph, with the default the source gives it. A fixed dim has decided how the
/// graph is built, so it stands in no shape and has no other value.
struct DimDecl {
  std::string name;
  std::optional<int64_t> default_value;
  bool fixed = false;
};

/// An input of integers is a scalar of at most `kMostInteger` in magnitude. What names it as an
/// operand is `Rows`, `Real`, `Reverse` or, as what is left, a `Total` of rows.
struct InputDecl {
  std::string name;
  Type type;
  SourceLocation location;
  bool integer = false;
};
/// Every type that arithmetic is in holds these exactly.
inline constexpr int64_t kMostInteger = int64_t{1} << 24;

/// A parameter; its name is the tensor's name in a weights file (`LSTM.0.W_i` in a network). An
/// array of L params is one of shape [L, ...]; N blocks of a block-diagonal [H, K] are one of shape
/// [N, H / N, K / N].
struct ParamDecl {
  std::string name;
  Type type;
  SourceLocation location;
};

/// Names of implied states, which hold earlier values, end in `@` and how far they reach back:
/// `h@2` is what `h[t-2]` reads at the next step, `x@1` what `x[t-1]` does, `u@1` that of a local.
/// Many of them are one, `h@history` (passes/graph/delays.h). `t@1` is the number of the next step
/// (`step()`), and `reverse.t@1` that of values that run in reverse.
struct StateDecl {
  std::string name;
  Type type;              // of an array of L states [L, ...]
  NodeId init = kNoNode;  // value before the first step; depends on params and constants alone
  NodeId next = kNoNode;  // value at step t
  SourceLocation location;
  bool reversed = false;  // runs from the sequence's last step to its first
  /// The state that this one is an earlier value of, or several of them along a first axis of its
  /// own: what it, or each of them, starts as if the caller gives that one a value and this one
  /// none. (A program asks for a history where its state is given.)
  std::optional<uint32_t> delay_of = {};
};

struct OutputDecl {
  std::string name;
  NodeId value = kNoNode;
  SourceLocation location;
};

/// What is left after all steps: [...], the same for the batch, or [B, ...] if made of `Op::Final`
/// outside of totals.
struct ResultDecl {
  std::string name;
  NodeId value = kNoNode;
  SourceLocation location;
};

/// A line `i = …` of the text, as often as it is used: `LSTM.0.i` in a network's first layer.
struct EquationDecl {
  std::string name;  // of what it gives: "i", of a state "h[t]", of an array's element "a[2]"
  SourceLocation location;  // of its right side
};

/// Owns its nodes in one vector; ids are indices. A plain value: copy it freely.
struct Graph {
  std::string name;
  bool descending = false;  // steps run from the last to the first
  std::vector<DimDecl> dims;
  std::vector<InputDecl> inputs;
  std::vector<ParamDecl> params;
  std::vector<StateDecl> states;
  std::vector<OutputDecl> outputs;
  std::vector<ResultDecl> results;
  std::vector<Node> nodes;
  /// What people know values by, and the files that locations speak of, the prelude last
  /// (ir/graph/places.h). Both are empty if the Graph was not made of a text.
  std::vector<EquationDecl> equations;
  std::shared_ptr<const std::vector<SourceFile>> sources;

  const Node& operator[](NodeId id) const { return nodes[id]; }

  // Builders. They compute the result's type; operands must fit (RNNC_CHECK), since user mistakes
  // are found before. `infer_type` tells beforehand.
  NodeId input(uint32_t decl, uint32_t delay = 0, SourceLocation location = {});
  NodeId param(uint32_t decl, SourceLocation location = {});
  NodeId state(uint32_t decl, uint32_t delay = 1, SourceLocation location = {});
  NodeId constant(double value, SourceLocation location = {});
  NodeId apply(Op op, std::vector<NodeId> operands, SourceLocation location = {});
  NodeId vector(std::vector<double> values, SourceLocation location = {});
  NodeId range(Dim size, SourceLocation location = {});
  NodeId eye(Dim size, SourceLocation location = {});
  NodeId valid(bool reversed, SourceLocation location = {});
  NodeId reset(bool reversed, uint32_t back = 0, SourceLocation location = {});
  NodeId final_state(uint32_t decl, SourceLocation location = {});
  NodeId total(NodeId value, SourceLocation location = {});
  NodeId total(NodeId left, NodeId right, Shape shape, SourceLocation location = {});
  NodeId broadcast(NodeId scalar, Shape shape, SourceLocation location = {});
  NodeId slice(NodeId operand, Dim begin, Dim end, SourceLocation location = {});
  NodeId index(NodeId operand, Dim position, SourceLocation location = {});

  /// Replaces bound symbols in every shape and position and drops them from `dims`.
  void bind(const DimBindings& bindings);
};

/// Whether the value is one of integers: an input of them, or its reversal.
bool is_integer(const Graph& graph, NodeId id);
/// The tables whose rows the integers of an input name, each as often as they do.
std::vector<NodeId> tables_of(const Graph& graph, uint32_t input);

/// The type of `op` on operands of these types, where they alone decide it: MatMul, Concat, Stack,
/// Transpose, Reverse, reductions and scalar ops. Nothing when they do not fit.
std::optional<Type> infer_type(Op op, const std::vector<Type>& operands);

/// `bindings` completed with the graph's defaults. An error names every symbol without a value,
/// every name in `bindings` that the graph does not have, every fixed dim that they give another
/// value, every shape that these values make fractional, negative, empty or absurdly large, and
/// every slice and index out of range. With what this returns, `bind` leaves plain numbers.
Result<DimBindings> complete_bindings(const Graph& graph, const DimBindings& bindings);

}  // namespace rnnc
