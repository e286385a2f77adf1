/// What an editor wants of a check besides its diagnostics.
#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "ir/base/source_location.h"
#include "ir/graph/graph.h"

namespace rnnc {

struct CheckWatch {
  /// Of names where they are declared or given, and of expressions, by file, begin and end; of what
  /// a loop repeats, at its first turn. What calls inline is not among them.
  using Places = std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Type>;

  std::function<bool()> stop;  // asked now and then: true ends the check before its time
  bool stopped = false;
  Places types;
  std::vector<Graph> graphs;  // of the cells and networks without errors, with symbolic dims

  void add(SourceLocation place, const Type& type) {
    types.try_emplace({place.file, place.begin, place.end}, type);
  }
};

}  // namespace rnnc
