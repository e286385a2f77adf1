#include "passes/tile/recurrence_tiles.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "ir/base/arithmetic.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/recurrence_sides.h"
#include "passes/tile/recurrence_needs.h"
#include "passes/tile/recurrence_time.h"

namespace rnnc::test {
namespace {

/// A phase of one product, of `members` matrices of `length` rows.
struct PhaseSize {
  int64_t length = 1;
  int64_t members = 1;
  int64_t k = 1;
  int64_t blocks = 1;
};

struct Subject {
  Plan plan;
  RecurrenceLaunch launch;
};

Access row_of(Subject& subject, int64_t width, DType dtype) {
  Buffer buffer;
  buffer.dtype = dtype;
  buffer.extent = Extent::Chunk;
  buffer.width = width;
  subject.plan.buffers.push_back(buffer);
  return {static_cast<BufferId>(subject.plan.buffers.size() - 1), 0, 0, width};
}

/// Each phase reads what the one before it stores, and keeps a value of its own from step to step.
Subject recurrence(DType dtype, int64_t batch, const std::vector<PhaseSize>& sizes,
                   bool tf32 = false) {
  Subject subject;
  subject.plan.dtype = dtype;
  subject.plan.tf32 = tf32;
  subject.plan.batch = batch;
  std::vector<Access> results;
  for (const PhaseSize& size : sizes) results.push_back(row_of(subject, size.length, dtype));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto members = static_cast<uint32_t>(sizes[i].members);
    const Access kept = row_of(subject, sizes[i].length, DType::f32);
    FusedLaunch phase;
    phase.kernel = static_cast<uint32_t>(i);
    phase.accesses.resize(members);
    phase.accesses.insert(phase.accesses.end(), {kept, kept, results[i]});
    phase.products.push_back({results[(i + sizes.size() - 1) % sizes.size()],
                              {},
                              sizes[i].k,
                              sizes[i].blocks,
                              0,
                              members});
    Kernel kernel;
    kernel.length = sizes[i].length;
    kernel.arguments.assign(members, {.vector = true, .product = true});
    kernel.arguments.push_back({.vector = true});
    kernel.arguments.push_back({.vector = true, .written = true});
    kernel.arguments.push_back({.dtype = dtype, .vector = true, .written = true});
    subject.plan.kernels.push_back(std::move(kernel));
    subject.launch.phases.push_back(std::move(phase));
  }
  return subject;
}

Subject lstm(DType dtype, int64_t batch, int64_t hidden, bool tf32 = false) {
  return recurrence(dtype, batch, {{hidden, 4, hidden}}, tf32);
}

/// The tile, which the subject's launch then has; or why there is none.
Result<RecurrenceTile> choose(Subject& subject, const Machine& machine = h200_machine()) {
  Result<RecurrenceTile> tile =
      choose_recurrence_tile(subject.plan, subject.launch.phases, machine);
  if (tile) subject.launch.tile = *tile;
  return tile;
}

int64_t blocks_of(const Subject& subject, const RecurrenceTile& tile) {
  int64_t blocks = 0;
  for (size_t i = 0; i < subject.launch.phases.size(); ++i) {
    const FusedLaunch& phase = subject.launch.phases[i];
    const int64_t segments = phase.products[0].blocks;
    const int64_t segment = subject.plan.kernels[phase.kernel].length / segments;
    blocks = std::max(blocks, segments * ceil_div(segment, tile.units[i]));
  }
  return blocks;
}

/// What a tile takes, as the kernel counts it, in plain arithmetic.
struct Count {
  int64_t words = 0;      // of weights, in a thread
  int64_t registers = 0;  // of a thread, beside its weights
  int64_t shared = 0;     // bytes of a block, likewise
};

Count count(const Subject& subject, const RecurrenceTile& tile) {
  const bool f32 = subject.plan.dtype == DType::f32 && !subject.plan.tf32;
  const bool exact = f32 && !tile.split;
  const bool streams = tile.streamed_words > 0;
  const auto size = static_cast<int64_t>(size_of(subject.plan.dtype));
  const int64_t threads = 32 * tile.warps;
  const int64_t group_rows = ceil_div(subject.plan.batch, tile.groups);
  const int64_t laps = ceil_div(group_rows, tile.rows);
  const int64_t row_tiles = tile.rows / 8;
  int64_t words = 0, sums = 0, left = 0, carried = 0, columns = 0, most_pieces = 0;
  bool unaligned = false;  // rows of left operands
  for (size_t i = 0; i < subject.launch.phases.size(); ++i) {
    const FusedLaunch::Product& product = subject.launch.phases[i].products[0];
    const int64_t gate_warps = tile.warps / tile.k_warps;
    const int64_t tiles = ceil_div(ceil_div(product.members * tile.units[i], 16), gate_warps);
    const int64_t pieces = ceil_div(ceil_div(product.k * size, 64), tile.k_warps);
    words += 8 * tiles * pieces;
    unaligned = unaligned || product.k * size % 16 != 0;
    sums = std::max(sums, exact ? 4 * tiles : tiles * row_tiles * (tile.split ? 8 : 4));
    left = std::max(left, std::min<int64_t>(pieces * row_tiles * 4, streams ? 32 : 64) +
                              (tile.split ? 8 * row_tiles : 0));
    const int64_t span = std::min<int64_t>(tile.units[i], 2);
    carried += span * ceil_div(tile.rows, threads / (tile.units[i] / span)) * laps;
    columns = std::max(columns, 16 * tiles * gate_warps + 4);
    most_pieces = std::max(most_pieces, pieces);
  }
  const int64_t sum_rows = streams ? 2 * ceil_div(std::min(tile.rows, group_rows), 2) : tile.rows;
  const bool alike = laps > 2 || (laps > 1 && tile.rows > 16);
  return {
      .words = words,
      .registers = sums + left + (alike ? 0 : carried) + (unaligned ? 52 : 28) + (streams ? 56 : 0),
      .shared = 2 * tile.k_warps * sum_rows * columns * 4 + (alike ? carried * threads * 4 : 0) +
                (exact ? tile.warps * 8 * 64 * most_pieces : 0)};
}

int64_t most_registers(const RecurrenceTile& tile, const Machine& machine) {
  return std::min<int64_t>(255, machine.registers / (32 * tile.warps));
}

/// What is wrong with a tile.
std::string misfit(const Subject& subject, const RecurrenceTile& tile, const Machine& machine) {
  const Count counted = count(subject, tile);
  const int64_t group_rows = ceil_div(subject.plan.batch, tile.groups);
  const bool exact = subject.plan.dtype == DType::f32 && !subject.plan.tf32 && !tile.split;
  const int64_t in_shared = counted.words - tile.weight_registers - tile.streamed_words;
  const int64_t word_bytes = 4 * 32 * tile.warps;
  if (tile.groups < 1 || tile.groups > subject.plan.batch) return "groups";
  if (tile.blocks != blocks_of(subject, tile)) return "blocks";
  if (tile.blocks * tile.groups > machine.units) return "units of the machine";
  if (tile.warps % tile.k_warps != 0) return "warps along k";
  if (tile.weight_registers % 8 != 0 || tile.streamed_words % 8 != 0) return "parts of tiles";
  if (in_shared < 0) return "weights in registers";
  if (counted.registers + tile.weight_registers > most_registers(tile, machine)) return "registers";
  if (counted.shared + in_shared * word_bytes > machine.shared_bytes) return "shared memory";
  if (tile.blocks * tile.groups * tile.streamed_words * word_bytes > machine.cache_bytes) {
    return "cache";
  }
  if (exact && (tile.rows != 8 || (tile.streamed_words > 0 && group_rows > 2))) return "rows";
  if (tile.split && (subject.plan.dtype != DType::f32 || subject.plan.tf32)) return "split";
  return "";
}

/// Of any sizes, with as many weights in registers as fit; it may still not fit.
RecurrenceTile random_tile(const Subject& subject, const Machine& machine,
                           std::mt19937_64& random) {
  const auto up_to = [&](int64_t most) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  RecurrenceTile tile;
  tile.warps = int64_t{2} << up_to(3);
  tile.k_warps = tile.warps >> (up_to(2) - 1);
  tile.rows = int64_t{4} << up_to(3);
  tile.split = random() % 2 == 0;
  // As few groups as have that many rows.
  const int64_t rows = up_to(subject.plan.batch);
  tile.groups = ceil_div(subject.plan.batch, rows);
  std::map<int64_t, int64_t> of_length;
  for (const FusedLaunch& phase : subject.launch.phases) {
    const int64_t length = subject.plan.kernels[phase.kernel].length;
    const int64_t most =
        std::min<int64_t>(128, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length))));
    int64_t units = random() % 8 == 0 ? 1 : 2 * up_to(std::max<int64_t>(most / 2, 1));
    if (units > 64) units = units / 32 * 32;
    if (units > 32) units = units / 8 * 8;
    tile.units.push_back(of_length.emplace(length, std::min(units, most)).first->second);
  }
  tile.blocks = blocks_of(subject, tile);
  tile.streamed_words = random() % 2 == 0 ? 8 : 0;
  const Count counted = count(subject, tile);
  const int64_t free = most_registers(tile, machine) - counted.registers;
  tile.weight_registers = std::min(counted.words, std::max<int64_t>(free, 0) / 8 * 8);
  if (tile.streamed_words > 0) {
    const int64_t room = std::max<int64_t>(machine.shared_bytes - counted.shared, 0);
    tile.streamed_words =
        counted.words - tile.weight_registers - room / (8 * 4 * 32 * tile.warps) * 8;
  }
  return tile;
}

TEST(RecurrenceTiles, WeightsGoToRegistersFirst) {
  Subject subject = lstm(DType::bf16, 16, 1024);
  ASSERT_TRUE(choose(subject));
  EXPECT_EQ(misfit(subject, subject.launch.tile, h200_machine()), "");
  EXPECT_EQ(needs_of(subject.plan, subject.launch, h200_machine()).weights_in_shared, 0);

  Subject large = lstm(DType::bf16, 16, 2048);
  ASSERT_TRUE(choose(large));
  EXPECT_EQ(misfit(large, large.launch.tile, h200_machine()), "");
  EXPECT_GT(large.launch.tile.weight_registers, 0);
  const RecurrenceTime time = time_of(large.plan, large.launch, h200_machine());
  EXPECT_EQ(large.launch.tile.step_seconds, time.step);
  EXPECT_EQ(large.launch.tile.start_seconds, time.start);
  EXPECT_GT(needs_of(large.plan, large.launch, h200_machine()).weights_in_shared, 0);
}

TEST(RecurrenceTiles, NeedsAreAllThatABlockHas) {
  Subject subject = lstm(DType::bf16, 16, 2048);
  ASSERT_TRUE(choose(subject));
  const TileNeeds needs = needs_of(subject.plan, subject.launch, h200_machine());
  EXPECT_LE(needs.registers, 255);
  EXPECT_LE(needs.shared_bytes, h200_machine().shared_bytes);
  EXPECT_LT(needs.weights_in_shared, needs.shared_bytes);
}

TEST(RecurrenceTiles, WhatDoesNotFitSaysWhatItNeeds) {
  const auto reason = [](Subject subject, const Machine& machine = h200_machine()) {
    const Result<RecurrenceTile> tile = choose(subject, machine);
    return tile ? "" : tile.error().message;
  };
  const std::string large = reason(lstm(DType::f32, 1, 4096));
  EXPECT_NE(large.find("KB of weights from the cache of all units, which has 51200"),
            std::string::npos)
      << large;
  EXPECT_NE(large.find(" KB of weights on each unit, which has room for "), std::string::npos)
      << large;
  EXPECT_NE(reason(lstm(DType::bf16, 1, 20000)).find("and NVIDIA H200 has room for 132"),
            std::string::npos);
  EXPECT_EQ(reason(lstm(DType::f64, 1, 4)), "f64 has no kernel for it");
}

TEST(RecurrenceTiles, WhatFindsNoRoomIsStreamed) {
  for (const auto& [dtype, batch] : {std::pair(DType::f32, 1), std::pair(DType::bf16, 40)}) {
    Subject subject = lstm(dtype, batch, dtype == DType::f32 ? 2019 : 2900);
    ASSERT_TRUE(choose(subject));
    EXPECT_EQ(misfit(subject, subject.launch.tile, h200_machine()), "");
    EXPECT_GT(subject.launch.tile.streamed_words, 0);
    const TileNeeds needs = needs_of(subject.plan, subject.launch, h200_machine());
    EXPECT_LE(needs.shared_bytes, h200_machine().shared_bytes);
    EXPECT_GT(needs.weights_in_shared, 100 << 10);
  }
}

TEST(RecurrenceTiles, InputsTakeTheSharedMemoryThatIsLeft) {
  Subject subject = lstm(DType::bf16, 16, 1024);
  // Pre-activations of four gates, beside the recurrence.
  FusedLaunch& phase = subject.launch.phases[0];
  for (int gate = 0; gate < 4; ++gate) {
    phase.accesses.push_back(row_of(subject, 1024, DType::f32));
    subject.plan.kernels[0].arguments.push_back({.dtype = DType::f32, .vector = true});
  }
  ASSERT_TRUE(choose(subject));
  EXPECT_EQ(subject.launch.tile.input_steps, 8);
  const TileNeeds all = needs_of(subject.plan, subject.launch, h200_machine());
  subject.launch.tile.input_steps = 0;
  const TileNeeds none = needs_of(subject.plan, subject.launch, h200_machine());
  const int64_t step = (all.shared_bytes - none.shared_bytes) / 8;
  EXPECT_GT(step, 0);
  std::set<int64_t> seen;
  for (int64_t room = 0; room <= 9; ++room) {
    Machine machine = h200_machine();
    machine.shared_bytes = none.shared_bytes + room * step;
    const Result<RecurrenceTile> tile =
        choose_recurrence_tile(subject.plan, subject.launch.phases, machine);
    ASSERT_TRUE(tile);
    const RecurrenceLaunch launch{subject.launch.phases, *tile};
    EXPECT_LE(needs_of(subject.plan, launch, machine).shared_bytes, machine.shared_bytes);
    seen.insert(tile->input_steps);
  }
  EXPECT_GE(seen.size(), 3u);  // 0, 2, 4, 8
}

TEST(RecurrenceTiles, ManyRowsSplitProductsOfF32) {
  Subject one = lstm(DType::f32, 1, 1024);
  ASSERT_TRUE(choose(one));
  EXPECT_FALSE(one.launch.tile.split);
  Subject many = lstm(DType::f32, 32, 1024);
  ASSERT_TRUE(choose(many));
  EXPECT_TRUE(many.launch.tile.split);
  const Result<RecurrenceTile> exact =
      choose_recurrence_tile(many.plan, many.launch.phases, h200_machine(), {.split = false});
  ASSERT_TRUE(exact);
  EXPECT_FALSE(exact->split);
}

TEST(RecurrenceTiles, RegistersAreLeftWhereThatIsAskedFor) {
  Subject subject = lstm(DType::bf16, 16, 2048);
  ASSERT_TRUE(choose(subject));
  const double step = time_of(subject.plan, subject.launch, h200_machine()).step;
  EXPECT_GT(needs_of(subject.plan, subject.launch, h200_machine()).registers, 255 - 32);
  const Result<RecurrenceTile> spare = choose_recurrence_tile(
      subject.plan, subject.launch.phases, h200_machine(), {.spare_registers = 32});
  ASSERT_TRUE(spare);
  const RecurrenceLaunch other{subject.launch.phases, *spare};
  EXPECT_LE(needs_of(subject.plan, other, h200_machine()).registers, 255 - 32);
  EXPECT_GE(time_of(subject.plan, other, h200_machine()).step, step);
}

// Whose weights in registers are as many as its registers allow is not known from a tile.
TEST(RecurrenceTiles, FewerWeightsInRegistersAreMoreInSharedMemory) {
  Subject subject = lstm(DType::bf16, 16, 2048);
  ASSERT_TRUE(choose(subject));
  const TileNeeds needs = needs_of(subject.plan, subject.launch, h200_machine());
  const double step = time_of(subject.plan, subject.launch, h200_machine()).step;
  subject.launch.tile.weight_registers -= 16;
  const TileNeeds fewer = needs_of(subject.plan, subject.launch, h200_machine());
  const int64_t threads = 32 * subject.launch.tile.warps;
  EXPECT_EQ(fewer.registers, needs.registers - 16);
  EXPECT_EQ(fewer.weights_in_shared, needs.weights_in_shared + 16 * 4 * threads);
  EXPECT_GT(time_of(subject.plan, subject.launch, h200_machine()).step, step);
}

TEST(RecurrenceTiles, TheBatchIsSplitOnlyWhereThatIsFaster) {
  Subject one = lstm(DType::bf16, 1, 256);
  ASSERT_TRUE(choose(one));
  EXPECT_EQ(one.launch.tile.groups, 1);
  Subject many = lstm(DType::bf16, 64, 256);
  ASSERT_TRUE(choose(many));
  EXPECT_GT(many.launch.tile.groups, 1);
}

TEST(RecurrenceTiles, NoBlockHasElementsOfTwoBlocksOfAWeight) {
  Subject subject = recurrence(DType::bf16, 16, {{12 * 64, 4, 64, 12}});
  ASSERT_TRUE(choose(subject));
  EXPECT_LE(subject.launch.tile.units[0], 64);
  EXPECT_EQ(subject.launch.tile.blocks % 12, 0);
}

TEST(RecurrenceTiles, OddSizesFit) {
  for (const int64_t hidden : {1, 3, 7, 33, 300, 1000}) {
    for (const int64_t batch : {1, 3, 16}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{} {} {}", to_string(dtype), batch, hidden));
        Subject subject = lstm(dtype, batch, hidden);
        ASSERT_TRUE(choose(subject));
        EXPECT_EQ(misfit(subject, subject.launch.tile, h200_machine()), "");
      }
    }
  }
}

TEST(RecurrenceTiles, AMachineOfFewUnitsTakesSmallRecurrences) {
  Machine machine = h200_machine();
  machine.units = 4;
  Subject subject = lstm(DType::bf16, 16, 128);
  ASSERT_TRUE(choose(subject, machine));
  EXPECT_EQ(misfit(subject, subject.launch.tile, machine), "");
  Subject large = lstm(DType::bf16, 16, 1024);
  EXPECT_FALSE(choose(large, machine));
}

TEST(RecurrenceTiles, LargerRecurrencesTakeLonger) {
  const auto step = [](int64_t batch, int64_t hidden) {
    Subject subject = lstm(DType::bf16, batch, hidden);
    RNNC_CHECK(choose(subject));
    return time_of(subject.plan, subject.launch, h200_machine()).step;
  };
  EXPECT_LT(step(16, 256), step(16, 512));
  EXPECT_LT(step(16, 512), step(16, 2048));
  EXPECT_LT(step(16, 1024), step(64, 1024));
  EXPECT_GT(step(1, 8), 0.3e-6);
  EXPECT_LT(step(16, 1024), 4e-6);
}

/// Against many others: one is found where one of these fits, and none is faster.
TEST(RecurrenceTiles, TheBestOfAllThatFit) {
  std::mt19937_64 random(7);
  const auto up_to = [&](int64_t most) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  int found = 0;
  constexpr int kTrials = 40;
  for (int trial = 0; trial < kTrials; ++trial) {
    Machine machine = h200_machine();
    machine.units = static_cast<int>(up_to(trial % 2 == 0 ? 132 : 16));
    machine.shared_bytes = up_to(227) << 10;
    const bool half = random() % 2 == 0;
    std::vector<PhaseSize> phases;
    const int64_t count = up_to(2);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t blocks = up_to(3);
      phases.push_back({blocks * up_to(trial % 3 == 0 ? 1000 : 100), up_to(4),
                        up_to(trial % 3 == 0 ? 1000 : 100), blocks});
    }
    Subject subject = recurrence(half ? DType::bf16 : DType::f32, up_to(20), phases,
                                 /*tf32=*/random() % 2 == 0);
    SCOPED_TRACE(fmt::format("trial {}", trial));
    const Result<RecurrenceTile> chosen = choose(subject, machine);
    if (chosen) {
      ASSERT_EQ(misfit(subject, *chosen, machine), "");
    }
    const double seconds = chosen ? time_of(subject.plan, subject.launch, machine).step : 0;
    for (int i = 0; i < 2000; ++i) {
      const RecurrenceTile tile = random_tile(subject, machine, random);
      if (tile.streamed_words < 0 || !misfit(subject, tile, machine).empty()) continue;
      ASSERT_TRUE(chosen) << chosen.error().message << ", but " << to_string(tile);
      const RecurrenceLaunch other{subject.launch.phases, tile};
      EXPECT_LE(seconds, time_of(subject.plan, other, machine).step) << to_string(tile);
    }
    found += chosen ? 1 : 0;
  }
  EXPECT_GT(found, kTrials / 4);
  EXPECT_LT(found, kTrials);
}

TEST(RecurrenceTiles, SidesShareTheMachineAndHaveRoomForTheirOwn) {
  const PhaseSize layer = {512, 4, 512};
  Subject subject = recurrence(DType::bf16, 16, {layer, layer, layer});
  const auto step = [&](const std::vector<size_t>& sides) {
    const Result<RecurrenceTile> tile = choose_recurrence_tile(subject.plan, subject.launch.phases,
                                                               h200_machine(), {.sides = sides});
    RNNC_CHECK(tile.has_value(), "{}", tile.error().message);
    EXPECT_EQ(tile->sides, sides);
    EXPECT_EQ(tile->units.size(), 3u);
    EXPECT_LE(all_blocks(*tile), h200_machine().units);
    subject.launch.tile = *tile;
    EXPECT_LE(needs_of(subject.plan, subject.launch, h200_machine()).shared_bytes,
              h200_machine().shared_bytes);
    return time_of(subject.plan, subject.launch, h200_machine());
  };
  const RecurrenceTime one = step({0});
  const RecurrenceTime all = step({0, 1, 2});
  EXPECT_LT(all.step, 0.6 * one.step);
  EXPECT_GT(all.start, 2 * all.step);  // until the last side is at work
}

TEST(RecurrenceTiles, BehindTheBestAreOthersAndNoFaster) {
  const Subject subject = lstm(DType::bf16, 16, 1024);
  double last = 0;
  std::set<std::string> seen;
  for (const int64_t rank : {0, 1, 2, 3}) {
    RecurrenceLaunch launch = subject.launch;
    launch.tile =
        *choose_recurrence_tile(subject.plan, launch.phases, h200_machine(), {.rank = rank});
    EXPECT_TRUE(seen.insert(to_string(launch.tile)).second) << to_string(launch.tile);
    const double step = time_of(subject.plan, launch, h200_machine()).step;
    EXPECT_GE(step, last);
    last = step;
  }
}

}  // namespace
}  // namespace rnnc::test
