#include "passes/reroll/chain_links.h"

#include <limits>

namespace rnnc {
namespace {

constexpr size_t kMostSteps = 4;  // of a chain at one position

}  // namespace

std::optional<double> neutral_of(Op op) {
  switch (op) {
    case Op::Add:
      return -0.0;
    case Op::Mul:
      return 1.0;
    case Op::Min:
      return std::numeric_limits<double>::infinity();
    case Op::Max:
      return -std::numeric_limits<double>::infinity();
    default:
      return std::nullopt;
  }
}

ChainLink ChainLinks::link(uint32_t member, uint32_t before) const {
  const std::vector<uint32_t>& operands = body_[member].operands;
  const size_t other = operands[0] == before ? 1 : 0;
  return {member, operands[other], other == 0 && !neutral_of(body_[member].op)};
}

/// Whether b is what a is, one position on in some direction.
std::optional<int64_t> ChainLinks::direction(const ChainLink& a, const ChainLink& b) const {
  const KernelPlace& from = places_[a.operand];
  const KernelPlace& to = places_[b.operand];
  const int64_t distance = to.position - from.position;
  const bool next = body_[a.member].op == body_[b.member].op && from.kind >= 0 &&
                    from.kind == to.kind && a.swapped == b.swapped &&
                    (distance == 1 || distance == -1);
  return next ? std::optional(distance) : std::nullopt;
}

ChainLink ChainLinks::first(uint32_t member, const std::vector<ChainLink>& links) const {
  const std::vector<uint32_t>& operands = body_[member].operands;
  for (size_t steps = 1; steps <= kMostSteps && steps < links.size(); ++steps) {
    for (const size_t initial : {0, 1}) {
      const ChainLink made = link(member, operands[initial]);
      if (direction(made, links[steps])) return made;
    }
  }
  return link(member, operands[0]);
}

ChainPattern ChainLinks::pattern(const std::vector<ChainLink>& links, size_t begin,
                                 int64_t least) const {
  for (size_t steps = 1; steps <= kMostSteps && begin + steps < links.size(); ++steps) {
    const auto wanted = direction(links[begin], links[begin + steps]);
    if (!wanted) continue;
    size_t end = begin + steps;
    while (end < links.size() && direction(links[end - steps], links[end]) == wanted) ++end;
    const ChainPattern found = {steps, static_cast<int64_t>((end - begin) / steps), *wanted};
    if (found.positions + 1 >= least) return found;
  }
  return {};
}

}  // namespace rnnc
