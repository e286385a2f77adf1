/// The notation of the derivative columns in ops.def: `y * (1 - y)`, `where(gt(a, 0), 1, y + 1)`.
/// `a b c` are a scalar op's operands, `y` its result; functions are scalar ops by their names.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// A formula as a small tree in one vector: operands before the node that uses them, the root last.
struct Formula {
  enum class Kind : uint8_t { Number, Variable, Apply };
  struct Node {
    Kind kind = Kind::Number;
    double number = 0;
    uint32_t variable = 0;                // 0 1 2: a b c; 3: y
    Op op = Op::Add;                      // Apply: a scalar op
    std::vector<uint32_t> operands = {};  // Apply: indices into `nodes`
  };
  std::vector<Node> nodes;
};

Result<Formula> parse_formula(std::string_view text);

/// The partial derivative of a scalar op by one of its operands (0 to arity - 1). Thread-safe.
const Formula& derivative(Op op, size_t operand);

double evaluate(const Formula& formula, double a, double b, double c, double y);

/// Adds the formula to a graph, elementwise over the op's operands and its result.
NodeId build(Graph& graph, const Formula& formula, std::span<const NodeId> operands, NodeId result,
             SourceLocation location = {});

}  // namespace rnnc
