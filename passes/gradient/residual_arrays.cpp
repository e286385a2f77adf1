#include "passes/gradient/residual_arrays.h"

#include <map>
#include <tuple>
#include <utility>

namespace rnnc {
namespace {

/// Fewer do not become a loop.
constexpr size_t kLeast = 8;

}  // namespace

std::vector<std::vector<NodeId>> find_residual_arrays(const Graph& graph,
                                                      const std::vector<bool>& residuals,
                                                      const std::vector<bool>& reversed) {
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, Op, int64_t>;
  std::map<Key, size_t> known;
  std::vector<std::vector<NodeId>> arrays;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph[id];
    const SourceLocation& at = node.location;
    const bool in_text = at.begin != at.end && node.op != Op::State;
    if (!residuals[id] || reversed[id] || !in_text || node.type.rank() > 1) continue;
    const int64_t width = node.type.is_scalar() ? 0 : element_count(node.type.shape);
    const Key key(at.file, at.begin, at.end, node.op, width);
    const auto [found, is_new] = known.try_emplace(key, arrays.size());
    if (is_new) arrays.emplace_back();
    arrays[found->second].push_back(id);
  }
  std::erase_if(arrays, [](const std::vector<NodeId>& array) { return array.size() < kLeast; });
  return arrays;
}

}  // namespace rnnc
