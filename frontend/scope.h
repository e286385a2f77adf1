/// Names and values inside one body while it is elaborated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/ast.h"
#include "ir/graph.h"

namespace rnnc {

/// The value of an expression.
struct Value {
  enum class Kind : uint8_t {
    Poison,  // of something wrong and already reported; goes through everything in silence
    Number,  // known now
    Node,    // a node of the graph
  };
  Kind kind = Kind::Poison;
  double number = 0;
  NodeId node = kNoNode;

  static Value of_number(double number) { return {Kind::Number, number, kNoNode}; }
  static Value of_node(NodeId node) { return {Kind::Node, 0, node}; }
  bool is_poison() const { return kind == Kind::Poison; }
};

/// What a name stands for.
struct Binding {
  enum class Kind : uint8_t {
    Dim,
    Input,
    Param,
    State,
    Local,
    LoopIndex,
    Poison,  // unknown or unusable, already reported
  };
  Kind kind = Kind::Poison;
  SourceLocation location;              // of its declaration
  Dim dim;                              // Dim; LoopIndex: its number
  Value value;                          // Input, Param, Local; State: at t-1
  uint32_t decl = 0;                    // Input, State: index in the graph
  Value next;                           // State: at t
  std::optional<SourceLocation> given;  // State: where `h[t]` was given
  bool used = false;
};

/// "an input", "a param"…
const char* describe(Binding::Kind kind);

/// One body: of a cell or network (each call has its own), of a fn, or of a const.
struct Frame {
  enum class Kind : uint8_t { Cell, Network, Function, Constant };
  /// A line that gives a value to a name: what reading too early names.
  struct Given {
    std::string name;
    SourceLocation target;
    SourceLocation statement;
  };

  Kind kind = Kind::Constant;
  const ast::Definition* definition = nullptr;  // Cell, Network
  std::string prefix;                           // "LSTM.0." in front of params and states
  bool in_initial_value = false;                // of a state: params and constants alone
  std::map<std::string, Binding, std::less<>> names;
  std::vector<Given> given;
  std::map<std::string, int, std::less<>> layer_counts;
  std::set<std::string, std::less<>> layer_names;

  Binding* find(std::string_view name) {
    const auto found = names.find(name);
    return found == names.end() ? nullptr : &found->second;
  }
};

}  // namespace rnnc
