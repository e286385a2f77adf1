/// Names and values inside one body while it is elaborated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/syntax/ast.h"
#include "ir/graph/graph.h"

namespace rnnc {

/// The value of an expression.
struct Value {
  enum class Kind : uint8_t {
    Poison,  // of something wrong and already reported; goes through everything in silence
    Empty,   // a vector without elements, to which `concat` adds
    Number,  // known now
    Node,    // a node of the graph
  };
  Kind kind = Kind::Poison;
  double number = 0;
  NodeId node = kNoNode;
  bool blocks = false;  // a block-diagonal matrix [N * P, N * Q]; the node is [N, P, Q]

  static Value of_nothing() { return {Kind::Empty}; }
  static Value of_number(double number) { return {Kind::Number, number, kNoNode}; }
  static Value of_node(NodeId node) { return {Kind::Node, 0, node}; }
  bool is_poison() const { return kind == Kind::Poison; }
};

struct Frame;

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
  /// A state's value at t.
  struct Next {
    Value value;
    std::optional<SourceLocation> given;   // where the body gives it
    std::optional<SourceLocation> missed;  // where an array's element was read before
  };
  Kind kind = Kind::Poison;
  SourceLocation location;      // of its declaration
  Dim dim;                      // Dim; LoopIndex: its number
  std::optional<Dim> position;  // Local: what it is as a position, if it is made of dims
  Value value;                  // Input, Param, Local; State: at t-1. Of an array, all of it
  const ast::Expr* argument = nullptr;  // Dim: a fn's, as its caller wrote it…
  Frame* caller = nullptr;              // …in this body
  uint32_t decl = 0;                    // State, the graph's own Input: index in the graph
  int64_t length = 0;                   // Param, State, Local: of an array; 0 for a single one
  std::map<int64_t, Value> elements;    // Local: of an array
  std::vector<Next> next;               // State: one, or one for each of an array
  std::map<int64_t, Value> past;        // State, the graph's own Input: further back, by delay
  bool used = false;
};

/// "an input", "a param"…
const char* describe(Binding::Kind kind);

/// Whether this is `t`.
bool is_time_step(const ast::Expr& expr);

/// One body: of a cell or network (each call has its own), of a fn, or of a const.
struct Frame {
  enum class Kind : uint8_t { Cell, Network, Function, Constant };
  /// A line that gives a value to a name: what reading too early names.
  struct Given {
    std::string name;
    SourceLocation target;
    SourceLocation statement;
  };
  /// What a local or a layer's input was at earlier steps: a state takes what it is at a step's end.
  struct Kept {
    uint32_t decl = 0;              // of the state
    SourceLocation read;            // where it was first read so
    std::map<int64_t, Value> past;  // by delay
  };
  /// A name, and which element of an array it is.
  using Part = std::pair<std::string, int64_t>;
  static constexpr int64_t kNoArray = -1;

  Kind kind = Kind::Constant;
  const ast::Definition* definition = nullptr;  // Cell, Network
  uint32_t file = 0;                            // that the body stands in
  std::string prefix;                           // "LSTM.0." in front of params and states
  bool reversed = false;                        // time runs from the end: its states are `reversed`
  bool in_step = false;                         // called, directly or not, from a cell
  bool in_initial_value = false;                // of a state: params and constants alone
  std::map<std::string, Binding, std::less<>> names;
  std::map<Part, Kept> kept;
  std::map<std::string, int, std::less<>> layer_counts;
  std::map<std::string, SourceLocation, std::less<>> layer_names;  // given with `as`, and where

  /// All of the body, in its order; made anew by each call, for errors.
  std::vector<Given> given() const;
  /// Whether it can call cells and networks.
  bool has_layers() const { return kind == Kind::Cell || kind == Kind::Network; }
  Binding* find(std::string_view name) {
    const auto found = names.find(name);
    return found == names.end() ? nullptr : &found->second;
  }
};

}  // namespace rnnc
