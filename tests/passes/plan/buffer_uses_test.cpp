#include "ir/plan/buffer_uses.h"

#include <gtest/gtest.h>

#include "tests/passes/plan/small_plan.h"

namespace rnnc::test {
namespace {

using Uses = std::vector<BufferUse>;

Uses of(const BufferUses& uses, BufferId id) {
  return {uses.of(id).begin(), uses.of(id).end()};
}

/// x → gemm, gemm += → p → tanh → h, a state that a later stage reads.
struct Chain {
  Chain() {
    p = small.buffer("p", Extent::Chunk, 4);
    h = small.buffer("h", Extent::Chunk, 4, 1);
    y = small.buffer("y", Extent::Chunk, 4);
    alone = small.buffer("alone", Extent::Chunk, 4);
    weight = small.program_buffer("W", Extent::Invariant, 16);
    GemmLaunch more = small.gemm(p, small.row(y), weight);
    more.accumulate = true;
    const ElementwiseLaunch tanh = small.tanh({small.row(p)}, {small.row(h)});
    small.stage(Domain::Sequence, {small.gemm(p, small.row(y), weight), more, tanh});
    small.stage(Domain::Sequence, {small.tanh({small.row(h)}, {small.row(alone)})});
    small.state(h);
  }

  SmallPlan small;
  BufferId p, h, y, alone, weight;
};

TEST(BufferUses, AreInOrderOfExecutionAndStatesLast) {
  const Chain chain;
  const BufferUses uses(chain.small.plan);
  EXPECT_EQ(of(uses, chain.p),
            (Uses{{{{0, 0}}, true}, {{{0, 1}}, false}, {{{0, 1}}, true}, {{{0, 2}}, false}}));
  EXPECT_EQ(of(uses, chain.weight), (Uses{{{{0, 0}}, false}, {{{0, 1}}, false}}));
  const Uses states = of(uses, chain.h);
  ASSERT_GT(states.size(), 2U);
  EXPECT_EQ(states[0], (BufferUse{{{0, 2}}, true}));
  EXPECT_EQ(states[1], (BufferUse{{{1, 0}}, false}));
  for (size_t i = 2; i < states.size(); ++i) EXPECT_FALSE(states[i].place) << i;
  const auto later = static_cast<BufferId>(chain.small.plan.buffers.size());
  EXPECT_TRUE(uses.of(later).empty());
}

TEST(BufferUses, TellWhoNeedsAValue) {
  const Chain chain;
  const BufferUses uses(chain.small.plan);
  EXPECT_TRUE(uses.is_read(chain.p));
  EXPECT_FALSE(uses.is_read(chain.alone));
  EXPECT_EQ(uses.only_writer(chain.alone), (LaunchPlace{1, 0}));
  EXPECT_EQ(uses.only_writer(chain.p), std::nullopt) << "two products write it";
  EXPECT_EQ(uses.only_writer(chain.h), std::nullopt) << "a state begins with it";
  EXPECT_EQ(uses.only_writer(chain.weight), std::nullopt) << "nothing writes it";
  const LaunchPlace all[] = {{0, 0}, {0, 1}, {0, 2}};
  EXPECT_TRUE(uses.are_of(chain.p, all));
  EXPECT_FALSE(uses.are_of(chain.p, std::span(all).first(2)));
  EXPECT_FALSE(uses.are_of(chain.h, all)) << "states and another stage use it, too";
}

}  // namespace
}  // namespace rnnc::test
