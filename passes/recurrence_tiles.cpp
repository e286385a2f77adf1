// 1. Reduce the phases to what tiles depend on (recurrence_shapes.h): lengths, products, and how
//    much is carried.
// 2. State the problem: variables are the batch groups, warps, rows at once, and for each length
//    that phases have the elements that a block makes; and whether f32 products are split, and
//    weights streamed that find no room. Blocks follow from these. Registers and shared memory are
//    limited; weights fill the registers that are left, then shared memory. Of sides, which have
//    all of that in common, the one counts that needs most.
// 3. Solve it (passes/integer_problem.h) for the least time of a step.
//
// All quantities are expressions over the variables, the time included, so that the search can
// bound it.
#include "passes/recurrence_tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "ir/kernel_facts.h"
#include "ir/recurrence_exchange.h"
#include "ir/recurrence_inputs.h"
#include "ir/recurrence_kernel.h"
#include "ir/recurrence_sides.h"
#include "passes/integer_problem.h"
#include "passes/recurrence_shapes.h"

namespace rnnc {
namespace {

// ---- The kernel ----

constexpr int64_t kMostInputSteps = 8;
constexpr int64_t kMostCopies = 4;    // of a thread
constexpr int64_t kPadOfInputs = 16;  // bytes before them
constexpr int64_t kBytesOfWord = 4;
constexpr int64_t kBytesOfSector = 32;
constexpr int64_t kBytesOfLoad = 16;
constexpr int64_t kPadding = 4;              // columns behind a row of partial sums
constexpr int64_t kMostRegisters = 255;      // of a thread
constexpr int64_t kOtherRegisters = 28;      // addresses, counters, one element's arithmetic
constexpr int64_t kUnalignedRegisters = 24;  // of rows that are not loaded by 16 bytes
constexpr int64_t kStackRegisters = 8;       // places of arrays, that depend on the side
constexpr int64_t kRowsAdded = 2;            // of exact products, at once
constexpr int64_t kMostUnits = 128;
constexpr int64_t kStepsKept = 2;         // of what a block hands to itself
constexpr int64_t kStreamRegisters = 56;  // weights on their way from memory
constexpr int64_t kLeftWords = 64;        // of a product's left operand, at once
constexpr int64_t kLeftWordsOfStream = 32;
constexpr int64_t kMostReducedUnits = 32;  // lanes of a warp
constexpr int64_t kValuesInWaiting = 24;   // of an element, for a reduction
constexpr int64_t kReducing = 32;          // registers that reductions take besides
constexpr int64_t kBytesOfPart = 8;        // of a reduction
constexpr int64_t kBytesOfBarrier = 16;    // at most
constexpr int64_t kWarpsOfCluster = 8;     // of a block, at least: with 4, no size was faster

constexpr int64_t kMostWork = 4'000'000;  // of the search, for each length of phases

// ---- The model of time ----

constexpr double kTensorShare = 0.8;     // of the machine's rate of products, with tensor cores
constexpr double kExactShare = 0.84;     // and without
constexpr double kLeastExchange = 0.55;  // of the time in which all units exchange: that of two
constexpr double kLevelExchange = 0.75;  // likewise, from elements to what they are reduced to
constexpr double kPassOfLevelExchange = 0.3;  // besides, of a further pass: it waits alone
constexpr double kPartShare = 0.26;           // of the time to read parts, which few loads do
constexpr double kSharedBandwidth = 2.2e11;   // bytes per second of one unit
constexpr double kElementwiseSeconds = 1e-7;  // of the rows at once, beside special functions
constexpr double kSpecialSeconds = 3.6e-11;   // of one, on one unit
constexpr double kWarpSeconds = 2e-8;         // of adding a warp's sums to the others'
constexpr double kRowTileSeconds = 3e-7;      // of each tile of rows at once but the first
constexpr double kAlikeSeconds = 2e-7;        // of a pass, where one code serves all
constexpr double kPieceSeconds = 5e-8;        // of a warp, for 8 rows of 64 bytes along k
constexpr double kOwnTileSeconds = 5e-9;      // of a tile by 64 bytes, where nothing is waited for
constexpr double kOwnSeconds = 5e-8;          // until a block has what it hands to itself
constexpr double kClusterSeconds = 1e-8;      // of each cluster: the slowest counts
constexpr double kPeerSeconds = 4e-9;         // of each block of a cluster
constexpr double kSentSeconds = 1.3e-10;      // of a word to one of them
constexpr double kSectorSeconds = 1e-7;       // of blocks that share sectors of the exchange
constexpr double kExactPieceSeconds = 5e-9;   // of a row of a tile, for 64 bytes along k
constexpr double kExactPairSeconds = 2.5e-7;  // of two rows at once, beside their products
constexpr double kSplitShare = 0.8;           // of the rate of TF32 products that parts are
constexpr double kSplitSeconds = 1.3e-11;     // of a unit, to split a word of weights
constexpr double kTicks = 1e15;               // of a second: time is counted in whole ones

int64_t ticks(double seconds) {
  return std::llround(seconds * kTicks);
}

enum class Engine : uint8_t { Exact, Tf32, Half };

Engine engine_of(const Plan& plan) {
  if (plan.dtype != DType::f32) return Engine::Half;
  return plan.tf32 ? Engine::Tf32 : Engine::Exact;
}

/// The fewest groups for each number of rows that groups can have.
std::vector<int64_t> group_counts(int64_t batch, int64_t units) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count <= std::min(batch, units); ++count) {
    const int64_t rows = (batch + count - 1) / count;
    if ((batch + rows - 1) / rows == count) counts.push_back(count);
  }
  return counts;
}

// ---- The problem ----

class TileProblem {
 public:
  /// For `units` units of the machine.
  TileProblem(const Plan& plan, std::span<const FusedLaunch> phases, const Machine& machine,
              int64_t units, const TileChoice& choice)
      : plan_(plan),
        launch_phases_(phases),
        machine_(machine),
        sides_(choice.sides),
        machine_units_(units),
        spare_registers_(choice.spare_registers),
        engine_(engine_of(plan)),
        batch_(plan.batch),
        element_bytes_(static_cast<int64_t>(size_of(plan.dtype))),
        phases_(shapes_of(plan, phases, sides_)),
        unlike_(unlike_sides(phases_, sides_)),
        reduces_(count_reductions(plan, phases) > 0),
        all_share_k_(std::ranges::any_of(phases, have_unequal_sums)),
        groups_(problem_.variable("groups", one_of(group_counts(plan.batch, units)))),
        warps_(problem_.variable("warps", powers_of_two(4, 16))),
        k_warps_(problem_.variable("warps along k", powers_of_two(1, 16))),
        rows_(problem_.variable("rows", powers_of_two(8, 32))),
        splits_(problem_.variable("splits", may(choice.split && engine_ == Engine::Exact))),
        streams_(problem_.variable("streams", may(sides_.size() == 1))),
        clusters_(problem_.variable(
            "clusters",
            may(sides_.size() == 1 && machine.cluster_units > 1 && can_be_clusters(plan, phases)))),
        slots_(cluster_slots(plan, phases)),
        owns_(problem_.variable("own sums", may(!reduces_))),
        exact_(engine_ == Engine::Exact ? 1 - IntegerExpression(splits_) : 0),
        gate_warps_(ceil_div(warps_, k_warps_)),
        threads_(kThreadsOfWarp * IntegerExpression(warps_)),
        group_rows_(ceil_div(plan.batch, groups_)),
        passes_(ceil_div(group_rows_, rows_)) {
    add_units();
    add_memory();
    add_time();
    require();
  }

  Result<RecurrenceTile> solve(int64_t rank) const {
    const Result<Ranking> ranking = problem_.solve(
        {.least = time_, .most = static_cast<size_t>(rank) + 1, .most_work = kMostWork * lengths_});
    if (!ranking) return tl::unexpected(ranking.error());
    const Solution& best = ranking->best.back();
    RecurrenceTile tile;
    tile.groups = best[groups_];
    tile.blocks = best.value(blocks_);
    tile.warps = best[warps_];
    tile.k_warps = best[k_warps_];
    tile.rows = best[rows_];
    for (const IntegerVariable units : units_) tile.units.push_back(best[units]);
    tile.weight_registers = best.value(weight_registers_);
    tile.sides = sides_;
    tile.streamed_words = best.value(streamed_words_);
    tile.split = best[splits_] != 0;
    tile.own_sums = best[owns_] != 0;
    tile.clusters = best[clusters_] != 0;
    tile.input_steps = input_steps(tile, best);
    const RecurrenceTime time = this->time(best);
    tile.start_seconds = time.start;
    tile.step_seconds = time.step;
    return tile;
  }

  /// What a tile with fewer weights in registers than there could be leaves.
  int64_t spare_registers(const RecurrenceTile& tile) const {
    return solution_of(tile).value(weight_registers_) - tile.weight_registers;
  }

  TileNeeds needs(const RecurrenceTile& tile) const {
    const Solution solution = solution_of(tile);
    const int64_t weights = solution.value(weights_in_shared_);
    const int64_t inputs = tile.input_steps * this->inputs(tile).step_bytes;
    return {.registers = solution.value(registers_) + tile.weight_registers,
            .shared_bytes = solution.value(shared_bytes_) + weights + inputs,
            .weights_in_shared = weights};
  }

  RecurrenceTime time(const RecurrenceTile& tile) const { return time(solution_of(tile)); }

 private:
  /// Of a step, a block and the side that has the most.
  RecurrenceInputs inputs(const RecurrenceTile& tile) const {
    RecurrenceInputs most;
    for (size_t side = 0; side < sides_.size(); ++side) {
      const RecurrenceInputs of = inputs_of(plan_, launch_phases_, tile, side);
      most.step_bytes = std::max(most.step_bytes, of.step_bytes);
      most.copies = std::max(most.copies, of.copies);
    }
    return most;
  }

  /// As many as there is room for, up to what hides the memory's latency; none if a thread has
  /// many copies, whose addresses would take registers.
  int64_t input_steps(const RecurrenceTile& tile, const Solution& solution) const {
    const auto [list, bytes, sharers, copies] = inputs(tile);
    if (copies > kMostCopies) return 0;
    const int64_t room = machine_.shared_bytes - solution.value(shared_bytes_) -
                         solution.value(weights_in_shared_) - kPadOfInputs;
    for (int64_t steps = kMostInputSteps; bytes > 0 && steps > 1; steps /= 2) {
      if (steps * bytes <= room) return steps;
    }
    return 0;
  }

  RecurrenceTime time(const Solution& solution) const {
    const auto weights = static_cast<double>(solution.value(weight_bytes_));
    const double step = static_cast<double>(solution.value(time_)) / kTicks;
    const auto behind = static_cast<double>(sides_.size() - 1);  // steps, of the last side
    return {.start = weights * machine_.units / machine_.cache_bandwidth + behind * step,
            .step = step};
  }

  static Choices may(bool allowed) { return range(0, allowed ? 1 : 0); }

  /// Phases of one length have them together.
  void add_units() {
    std::map<int64_t, IntegerVariable> of_length;
    for (const PhaseShape& phase : phases_) {
      const auto length = static_cast<uint64_t>(phase.length);
      const auto [units, fresh] = of_length.try_emplace(phase.length);
      if (fresh) {
        ++lengths_;
        const bool reduces = std::ranges::any_of(phases_, [&](const PhaseShape& other) {
          return other.length == phase.length && other.reductions > 0;
        });
        units->second = problem_.variable(fmt::format("units of {}", length),
                                          unit_counts(phase.length, reduces));
      }
      units_.push_back(units->second);
      blocks_ = max(blocks_, blocks_of(units_.size() - 1));
    }
  }

  /// Lanes of a warp reduce the units of a row in pairs. Other units are even, for threads that
  /// have two each.
  static Choices unit_counts(int64_t length, bool reduces) {
    const auto all = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
    if (reduces) return powers_of_two(1, std::min(kMostReducedUnits, all));
    std::vector<int64_t> counts = {1};
    for (int64_t units = 2; units <= std::min(kMostUnits, all); units += units < 32   ? 2
                                                                         : units < 64 ? 8
                                                                                      : 32) {
      counts.push_back(units);
    }
    return one_of(std::move(counts));
  }

  IntegerExpression blocks_of(size_t i) const {
    const PhaseShape& phase = phases_[i];
    return phase.segments * ceil_div(phase.length / phase.segments, units_[i]);
  }

  /// 1 if what a block makes of a row is not whole sectors of 32 bytes, else 0.
  IntegerExpression shares_sectors(size_t i) const {
    const int64_t of_sector = kBytesOfSector / element_bytes_;
    return min(of_sector * ceil_div(units_[i], of_sector) - units_[i], 1);
  }

  bool opens_side(size_t phase) const { return std::ranges::binary_search(sides_, phase); }

  /// 1 if a block has whole segments of a phase's rows, else 0.
  IntegerExpression has_segments(size_t i) const {
    return 1 - min(blocks_of(i) - phases_[i].segments, 1);
  }

  /// Of the weights of a product, for one warp: across, and along k.
  IntegerExpression tiles(size_t i, const ProductShape& product) const {
    return ceil_div(ceil_div(product.members * IntegerExpression(units_[i]), kTileGates),
                    gate_warps_);
  }
  IntegerExpression pieces(const ProductShape& product) const {
    const int64_t all = (product.k_bytes + kExchangePieceBytes - 1) / kExchangePieceBytes;
    return ceil_div(all, k_warps_);
  }

  /// Of a gate, and loaded. Tensor cores make those of rows that are not there as well, for which
  /// blocks of a grid have time while they wait.
  IntegerExpression sums_stored() const {
    const IntegerExpression all = clusters_ * (1 - exact_);
    return group_rows_ + (1 - all) * group_rows_ + all * passes_ * rows_;
  }

  /// Neighbouring elements of a thread: one in clusters where there are threads for all, and where
  /// lanes have one sum of a member.
  IntegerExpression span_of(size_t i) const {
    const IntegerExpression more = min(max(rows_ * units_[i] - threads_, 0), 1);
    const IntegerExpression few = 1 - min(max(group_rows_ - kLanesOfGate / 2, 0), 1);
    const IntegerExpression apart = reduces_ ? IntegerExpression(1) : IntegerExpression(clusters_);
    const IntegerExpression one = apart * (1 - owns_) * (1 - more) + owns_ * few;
    return min(units_[i], kMostSpan - (kMostSpan - 1) * one);
  }

  /// Elements that a thread makes at once: of as many rows as threads are enough for. In their
  /// warps, sums of two rows lie in a lane where there are more than 4.
  IntegerExpression elements_of_thread(size_t i) const {
    const IntegerExpression span = span_of(i);
    const IntegerExpression at_once = ceil_div(span * threads_ - units_[i] + 1, units_[i]);
    const IntegerExpression two = min(max(group_rows_ - kLanesOfGate, 0), 1);
    return span * ((1 - owns_) * ceil_div(rows_, at_once) +
                   owns_ * (1 + two) * ceil_div(rows_, kExchangeTileRows));
  }

  void add_memory() {
    const IntegerExpression row_tiles = ceil_div(rows_, kExchangeTileRows);
    IntegerExpression sums = 0;          // registers of products' results
    IntegerExpression left = 0;          // and of what it reads
    IntegerExpression words = 0;         // of weights, of a side
    IntegerExpression values = 0;        // of elements, all the time
    IntegerExpression most_values = 0;   // of a side
    IntegerExpression waiting = 0;       // and while reductions are waited for
    IntegerExpression partial_sums = 0;  // columns, of the products of a phase
    IntegerExpression most_pieces = 0;
    IntegerExpression kept = 0;  // bytes that a block hands to itself
    IntegerExpression most_kept = 0;
    IntegerExpression carries = 0;  // and that its threads carry
    IntegerExpression most_carries = 0;
    int64_t most_reductions = 0;
    bool unaligned = false;
    for (size_t i = 0; i < phases_.size(); ++i) {
      if (!unlike_[i]) continue;
      if (opens_side(i)) words = values = kept = carries = 0;
      IntegerExpression columns = 0;
      IntegerExpression of_phase = 0;  // registers of results
      IntegerExpression ahead = 0;     // of a left operand that is there before the product's own
      for (const ProductShape& product : phases_[i].products) {
        const IntegerExpression across = tiles(i, product);
        const IntegerExpression along = pieces(product);
        words = words + kTileWords * across * along;
        unaligned = unaligned || product.k_bytes % kBytesOfLoad != 0;
        const IntegerExpression tile_sums = (4 + 4 * IntegerExpression(splits_)) * row_tiles;
        const IntegerExpression results =
            across * (exact_ * (2 * kRowsAdded) + (1 - exact_) * tile_sums);
        of_phase = max(of_phase, results) +
                   (product.added || phases_[i].products.size() == 1 ? 0 : owns_ * results);
        const IntegerExpression operand = min(4 * row_tiles * along, left_words());
        left = max(left, ahead + operand + splits_ * (8 * row_tiles));
        ahead = product.exchanged && !product.early ? IntegerExpression(0) : operand;
        const IntegerExpression stored = product.added ? exact_ : 1;
        columns = columns + (1 - owns_) * stored * (kTileGates * across * gate_warps_ + kPadding);
        most_pieces = max(most_pieces, along);
        if (product.stays && product.first) {
          const int64_t pieces = (product.k_bytes + kExchangePieceBytes - 1) / kExchangePieceBytes;
          kept = kept + has_segments(i) * ceil_div(group_rows_, kExchangeTileRows) *
                            min(group_rows_, kExchangeTileRows) *
                            (kStepsKept * pieces * kExchangePieceBytes);
        }
        if (product.exchanged && product.first) {
          const int64_t pieces = (product.k_bytes + kExchangePieceBytes - 1) / kExchangePieceBytes;
          kept = kept + clusters_ * (slots_ * kBytesOfBarrier +
                                     ceil_div(group_rows_, kExchangeTileRows) *
                                         min(group_rows_, kExchangeTileRows) *
                                         (slots_ * pieces * kExchangePieceBytes));
        }
      }
      partial_sums = max(partial_sums, columns);
      sums = max(sums, of_phase);
      most_reductions = std::max(most_reductions, phases_[i].reductions);
      const IntegerExpression span = span_of(i);
      const IntegerExpression elements = elements_of_thread(i);
      const IntegerExpression loaded = 2 * phases_[i].loaded;
      const IntegerExpression carried = phases_[i].kept * passes_ * elements;
      const IntegerExpression alike = min(max(passes_ - kMostUnrolledPasses, 0), 1);
      carries = carries + alike * carried * (threads_ * kBytesOfWord);
      values = values + phases_[i].fixed * span + (1 - alike) * carried + loaded * elements;
      if (phases_[i].levels > 0) waiting = max(waiting, kValuesInWaiting * elements);
      weight_words_ = max(weight_words_, words);
      most_values = max(most_values, values);
      most_kept = max(most_kept, kept);
      most_carries = max(most_carries, carries);
    }
    registers_ = max(sums + left, waiting) + most_values + kOtherRegisters;
    if (most_reductions > 0) registers_ = registers_ + kReducing;
    if (unaligned) registers_ = registers_ + kUnalignedRegisters;
    if (sides_.size() > 2) registers_ = registers_ + kStackRegisters;
    const IntegerExpression sum_rows =
        rows_ - streams_ * (rows_ - 2 * ceil_div(min(rows_, group_rows_), 2));
    shared_bytes_ = 2 * k_warps_ * sum_rows * partial_sums * kBytesOfWord +
                    most_reductions * kBytesOfPart * rows_ + most_kept + most_carries +
                    exact_ * warps_ * most_pieces * (kExchangeTileRows * kExchangePieceBytes);
    // As many whole tiles as there is room for.
    registers_ = registers_ + kStreamRegisters * IntegerExpression(streams_);
    const IntegerExpression free = max(most_registers() - registers_, 0);
    const IntegerExpression room = kTileWords * ceil_div(free - (kTileWords - 1), kTileWords);
    const IntegerExpression bytes = threads_ * kBytesOfWord;  // of a word of each thread
    const IntegerExpression tile_bytes = kTileWords * bytes;
    const IntegerExpression shared = max(machine_.shared_bytes - shared_bytes_, 0);
    const IntegerExpression room_shared =
        kTileWords * ceil_div(shared - tile_bytes + 1, tile_bytes);
    weight_registers_ = min(weight_words_, room);
    const IntegerExpression others = max(weight_words_ - room, 0);
    streamed_words_ = streams_ * max(others - room_shared, 0);
    weights_in_shared_ =
        ((1 - IntegerExpression(streams_)) * others + streams_ * min(others, room_shared)) * bytes;
    weight_bytes_ = weight_words_ * bytes;
    streamed_bytes_ = streamed_words_ * bytes;
    room_for_weights_ = room * bytes + machine_.shared_bytes - shared_bytes_ + streamed_bytes_;
  }

  IntegerExpression left_words() const {
    return kLeftWords - (kLeftWords - kLeftWordsOfStream) * IntegerExpression(streams_);
  }

  IntegerExpression most_registers() const {
    return min(kMostRegisters, ceil_div(machine_.registers - threads_ + 1, threads_)) -
           spare_registers_;
  }

  void add_time() {
    const double unit = machine_.units;
    const int64_t read = ticks(unit / machine_.cache_bandwidth);  // of a byte
    const int64_t shared = ticks(1 / kSharedBandwidth);           // likewise
    const IntegerExpression multiply = multiply_ticks();          // and add
    const int64_t least = ticks(machine_.exchange_seconds * kLeastExchange);
    const int64_t peer = ticks(machine_.exchange_seconds * (1 - kLeastExchange) / unit);
    IntegerExpression time = 0;     // of a side
    IntegerExpression in_turn = 0;  // of that, loading weights of early products
    for (size_t i = 0; i < phases_.size(); ++i) {
      if (!unlike_[i]) continue;
      if (opens_side(i)) time = in_turn = 0;
      IntegerExpression early = 0;  // work while the block waits for its own side
      IntegerExpression peers = 0;  // blocks that a block waits for
      bool exchanged = false;
      bool stays = true;
      for (const ProductShape& product : phases_[i].products) {
        const IntegerExpression gates = kTileGates * tiles(i, product) * gate_warps_;
        const IntegerExpression k =
            pieces(product) * k_warps_ * (kExchangePieceBytes / element_bytes_);
        const bool waits = product.exchanged && !product.early;
        if (waits) peers = max(peers, ceil_div(blocks_of(i), product.blocks));
        exchanged = exchanged || waits;
        stays = stays && (product.stays || !waits);
        const IntegerExpression rows = exact_ * group_rows_ + (1 - exact_) * passes_ * rows_;
        // Few words of a further pass's left operand come while the one before ends.
        const IntegerExpression at_once = ceil_div(rows_, kExchangeTileRows);
        const IntegerExpression words_at_once = 4 * at_once * pieces(product);
        const IntegerExpression many = min(max(words_at_once - kMostWordsAhead, 0), 1);
        const bool aligned = product.k_bytes % kBytesOfLoad == 0;
        const IntegerExpression turns =
            aligned ? max(max(many, streams_), clusters_) * (passes_ - 1) + 1 : passes_;
        const IntegerExpression row_tiles = turns * at_once;
        if (product.stays) {
          time = time + has_segments(i) * passes_ * tiles(i, product) * pieces(product) *
                            ticks(kOwnTileSeconds);
        }
        const IntegerExpression in_shared = product.exchanged ? 1 * clusters_ : 0;
        const IntegerExpression of_byte = in_shared * shared + (1 - in_shared) * read;
        const IntegerExpression work =
            group_rows_ * gate_warps_ * product.k_bytes * of_byte +
            row_tiles * pieces(product) * ticks(kPieceSeconds) + rows * gates * k * multiply +
            exact_ * group_rows_ * pieces(product) * tiles(i, product) * ticks(kExactPieceSeconds);
        if (product.early) {
          const IntegerExpression words = kTileWords * tiles(i, product) * pieces(product);
          const IntegerExpression spilled = min(words, weight_words_ - weight_registers_);
          const IntegerExpression loads = passes_ * spilled * threads_ * (kBytesOfWord * shared);
          in_turn = in_turn + loads;
          early = early + work + loads;
        } else {
          time = time + work;
        }
        if (engine_ != Engine::Exact && sides_.size() == 1) {
          time = time + (at_once - 1) * ticks(kRowTileSeconds);
        }
        const IntegerExpression stored = (1 - owns_) * (product.added ? exact_ : 1);
        // One row of f32 is added up by few threads in little time.
        const bool one_row = engine_ == Engine::Exact && batch_ == 1;
        time = time + stored * (passes_ * k_warps_ * ticks(kWarpSeconds * (one_row ? 0.25 : 1)) +
                                sums_stored() * gates * k_warps_ * (kBytesOfWord * shared));
      }
      const int64_t special = phases_[i].specials * ticks(kSpecialSeconds);
      const IntegerExpression elements =
          (1 - owns_) * rows_ * units_[i] + owns_ * elements_of_thread(i) * threads_;
      time = time + passes_ * (ticks(kElementwiseSeconds) + special * elements);
      if (engine_ != Engine::Exact) {
        const IntegerExpression alike = min(max(passes_ - kMostUnrolledPasses, 0), 1);
        time = time + alike * passes_ * ticks(kAlikeSeconds);
      }
      IntegerExpression wait = 0;
      if (exchanged) {
        const IntegerExpression words =
            group_rows_ * ceil_div(element_bytes_ * IntegerExpression(units_[i]), kBytesOfWord);
        const IntegerExpression in_cluster =
            ticks(machine_.cluster_seconds) + groups_ * ticks(kClusterSeconds) +
            blocks_of(i) * (ticks(kPeerSeconds) + words * ticks(kSentSeconds)) +
            min(max(kBytesOfSector - element_bytes_ * IntegerExpression(units_[i]), 0), 1) *
                ticks(kSectorSeconds);
        const IntegerExpression in_grid =
            least + min(peers, machine_.units) * peer + shares_sectors(i) * ticks(kSectorSeconds);
        const IntegerExpression among_blocks = clusters_ * in_cluster + (1 - clusters_) * in_grid;
        wait = stays ? (1 - has_segments(i)) * among_blocks + has_segments(i) * ticks(kOwnSeconds)
                     : among_blocks;
      }
      time = time + max(wait, early);
      if (phases_[i].levels > 0) {
        const double exchanges = static_cast<double>(phases_[i].levels) * machine_.exchange_seconds;
        const double parts = static_cast<double>(phases_[i].reductions * kBytesOfPart) * kPartShare;
        time = time + passes_ * ticks(exchanges * kLevelExchange) +
               (passes_ - 1) * ticks(exchanges * kPassOfLevelExchange) +
               group_rows_ * blocks_of(i) * ticks(parts * unit / machine_.cache_bandwidth);
      }
      time_ = max(time_, time - in_turn);
    }
    // Exact products take two rows at a time, and weights as often.
    const IntegerExpression pairs = ceil_div(min(rows_, group_rows_), kRowsAdded);
    const IntegerExpression times = passes_ * (1 - exact_ + exact_ * pairs);
    time_ = time_ + exact_ * min(group_rows_ - 1, 1) * passes_ * pairs * ticks(kExactPairSeconds);
    time_ = time_ + passes_ * weights_in_shared_ * shared + times * streamed_bytes_ * read;
    if (engine_ == Engine::Exact) {
      time_ = time_ + splits_ * passes_ * weight_words_ * threads_ * ticks(kSplitSeconds);
    }
  }

  /// Of a multiplication and an addition, on one unit.
  IntegerExpression multiply_ticks() const {
    const auto at = [&](double flops) { return ticks(2.0 * machine_.units / flops); };
    switch (engine_) {
      case Engine::Exact:
        return exact_ * at(machine_.exact_flops * kExactShare) +
               (1 - exact_) * at(machine_.tf32_flops * kSplitShare / 3);
      case Engine::Tf32:
        return at(machine_.tf32_flops * kTensorShare);
      case Engine::Half:
        break;
    }
    return at(machine_.tensor_flops * kTensorShare);
  }

  void require() {
    problem_.require(k_warps_ <= warps_);
    if (all_share_k_) problem_.require(k_warps_ >= warps_);
    problem_.require(owns_ * k_warps_ <= 1);
    for (const IntegerVariable units : units_) {
      problem_.require(owns_ * units <= owns_ * (kUnitsOfWarp * warps_));
      problem_.require(owns_ * (kUnitsOfWarp * warps_) <= owns_ * units);
    }
    // No more rows at once than there are.
    problem_.require(rows_ <= max(kExchangeTileRows, 2 * group_rows_ - 1));
    if (engine_ == Engine::Exact) {
      problem_.require(exact_ * rows_ <= kExchangeTileRows);
      problem_.require(exact_ + owns_ <= 1);
      // Two rows at a time take no weights on their way.
      problem_.require(exact_ * streams_ * group_rows_ <= kRowsAdded);
    }
    problem_.require(streams_ <= streamed_words_);
    require_clusters();
    problem_.require(
        std::ssize(sides_) * blocks_ * groups_ <= machine_units_,
        fmt::format("it needs {{value}} blocks of threads at the same time, and {}{} has "
                    "room for {{limit}}",
                    machine_units_ < machine_.units ? "its share of " : "", machine_.name));
    problem_.require(registers_ <= most_registers(),
                     "a thread needs {value} registers beside its weights, and has {limit}");
    problem_.require(shared_bytes_ <= machine_.shared_bytes,
                     "sums need {value:KB} KB of shared memory on each unit, which has {limit:KB}");
    problem_.require(weight_bytes_ <= room_for_weights_,
                     "it needs {value:KB} KB of weights on each unit, which has room for "
                     "{limit:KB}");
    problem_.require(blocks_ * groups_ * streamed_bytes_ <= machine_.cache_bytes,
                     "at every step it needs {value:KB} KB of weights from the cache of all units, "
                     "which has {limit:KB}");
  }

  /// Each block has an even number of elements of every phase, and waits for all others.
  void require_clusters() {
    problem_.require(clusters_ * (blocks_ - machine_.cluster_units) <= 0);
    problem_.require(2 * IntegerExpression(clusters_) <= blocks_);
    problem_.require(clusters_ + streams_ <= 1);
    problem_.require(kWarpsOfCluster * IntegerExpression(clusters_) <= warps_);
    for (size_t i = 0; i < units_.size(); ++i) {
      problem_.require(2 * IntegerExpression(clusters_) <= units_[i]);
      problem_.require(clusters_ * (blocks_ - blocks_of(i)) <= 0);
    }
    IntegerExpression at_once = machine_.clusters(machine_.cluster_units);
    for (int64_t size = machine_.cluster_units / 2; size > 1; size /= 2) {
      const IntegerExpression fits = 1 - min(max(blocks_ - size, 0), 1);
      at_once = at_once + fits * (machine_.clusters(size) - machine_.clusters(2 * size));
    }
    problem_.require(clusters_ * groups_ <= at_once + (1 - clusters_) * machine_.units);
  }

  Solution solution_of(const RecurrenceTile& tile) const {
    Solution solution;
    solution.values.resize(8 + units_.size());
    solution.values[clusters_.index] = tile.clusters ? 1 : 0;
    solution.values[k_warps_.index] = tile.k_warps;
    solution.values[splits_.index] = tile.split ? 1 : 0;
    solution.values[owns_.index] = tile.own_sums ? 1 : 0;
    solution.values[streams_.index] = tile.streamed_words > 0 ? 1 : 0;
    solution.values[groups_.index] = tile.groups;
    solution.values[warps_.index] = tile.warps;
    solution.values[rows_.index] = tile.rows;
    for (size_t i = 0; i < units_.size(); ++i) solution.values[units_[i].index] = tile.units[i];
    return solution;
  }

  const Plan& plan_;
  std::span<const FusedLaunch> launch_phases_;
  const Machine& machine_;
  std::vector<size_t> sides_;
  int64_t machine_units_;
  int64_t spare_registers_;
  Engine engine_;
  int64_t batch_;
  int64_t element_bytes_;
  std::vector<PhaseShape> phases_;
  std::vector<bool> unlike_;  // by phase
  bool reduces_;
  bool all_share_k_;  // or gates could not be shared
  IntegerProblem problem_;
  IntegerVariable groups_, warps_, k_warps_, rows_;
  IntegerVariable splits_, streams_;    // 0 or 1
  IntegerVariable clusters_;            // likewise: groups are clusters
  int64_t slots_;                       // of steps that their blocks exchange
  IntegerVariable owns_;                // 0 or 1: warps own the sums of their elements
  IntegerExpression exact_;             // likewise
  std::vector<IntegerVariable> units_;  // per phase
  int64_t lengths_ = 0;                 // different ones of phases
  IntegerExpression gate_warps_;        // those that share gates
  IntegerExpression threads_;           // of a block
  IntegerExpression group_rows_, passes_;
  IntegerExpression blocks_ = 1;
  IntegerExpression registers_ = 0;  // of a thread, without weights
  IntegerExpression shared_bytes_ = 0;
  IntegerExpression weight_words_ = 0;  // of a thread
  IntegerExpression weight_registers_ = 0;
  IntegerExpression streamed_words_ = 0;
  IntegerExpression weight_bytes_ = 0;       // of a block…
  IntegerExpression streamed_bytes_ = 0;     // …of which come from memory
  IntegerExpression weights_in_shared_ = 0;  // bytes
  IntegerExpression room_for_weights_ = 0;   // bytes
  IntegerExpression time_ = 0;               // of a step, in ticks
};

/// The problem that has the launch's tile among its solutions.
TileProblem problem_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine) {
  TileChoice choice = {.sides = launch.tile.sides};
  TileProblem problem(plan, launch.phases, machine, machine.units, choice);
  const int64_t spare = problem.spare_registers(launch.tile);
  if (spare == 0) return problem;
  choice.spare_registers = spare;
  return {plan, launch.phases, machine, machine.units, choice};
}

}  // namespace

Result<RecurrenceTile> choose_recurrence_tile(const Plan& plan, std::span<const FusedLaunch> phases,
                                              const Machine& machine, const TileChoice& choice) {
  if (plan.dtype == DType::f64) return fail("f64 has no kernel for it");
  const int64_t units = std::max<int64_t>(1, machine.units / choice.beside);
  return TileProblem(plan, phases, machine, units, choice).solve(choice.rank);
}

TileNeeds needs_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine) {
  return problem_of(plan, launch, machine).needs(launch.tile);
}

RecurrenceTime predicted_time(const Plan& plan, const RecurrenceLaunch& launch,
                              const Machine& machine) {
  const RecurrenceTile& tile = launch.tile;
  if (tile.step_seconds > 0) return {.start = tile.start_seconds, .step = tile.step_seconds};
  return time_of(plan, launch, machine);
}

RecurrenceTime time_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine) {
  return problem_of(plan, launch, machine).time(launch.tile);
}

}  // namespace rnnc
