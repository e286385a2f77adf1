/// Graphs as nodes and edges to be drawn: the step Graph, and launches (launch_picture.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc::explain {

struct GraphPicture {
  enum class Kind : uint8_t {
    Input,
    Param,
    Constant,
    State,
    Product,
    Reduction,
    Elementwise,
    Structure,
    Output,
  };
  struct Node {
    Kind kind = Kind::Elementwise;
    std::string label;   // "matmul", "h[t-1]"
    std::string detail;  // its shape, "[512]"; of a launch, how it runs
    /// Where it runs: "once", "parallel", "last", or the states of its recurrence.
    std::string stage;
    /// Of a graph that was made of a text: what the value is called there, as "i" or
    /// "`W_i @ x[t]` in i"; where it stands, as "lstm.rnn:15:7". Else empty.
    std::string name = {};
    std::string place = {};
    bool local = false;       // the name is that of a whole line
    std::string launch = {};  // of a launch: its id, "3.1" (LaunchInfo)
    friend bool operator==(const Node&, const Node&) = default;
  };
  struct Edge {
    uint32_t from = 0;
    uint32_t to = 0;
    bool through_time = false;  // from a state's new value to where the next step reads it
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  /// What a loop, or calls one after the other, have written out or launched: `count` copies of
  /// `length` nodes from `first` on, which differ in the values they read alone. Repeats within one
  /// are those of its first copy, and come after it.
  struct Repeat {
    uint32_t first = 0;
    uint32_t length = 0;
    uint32_t count = 0;
    friend bool operator==(const Repeat&, const Repeat&) = default;
  };
  std::vector<Node> nodes;  // before those that use them, outputs last
  std::vector<Edge> edges;
  std::vector<Repeat> repeats;

  friend bool operator==(const GraphPicture&, const GraphPicture&) = default;

  /// Number of nodes of a kind.
  int count(Kind kind) const;
};

/// `graph` is bound and verified.
GraphPicture picture_of(const Graph& graph);

std::string_view name_of(GraphPicture::Kind kind);

}  // namespace rnnc::explain
