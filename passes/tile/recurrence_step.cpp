// A step takes as long as the slowest side does for its phases, one after the other. Of each:
// 1. The products whose left operand the side itself makes: to load that, to multiply, and to add
// up
//    what warps have each for themselves.
// 2. Elementwise work.
// 3. The wait for what other blocks hand over, or the products of earlier sides' vectors, which are
//    done meanwhile, if these take longer.
// 4. Gathers and reductions, each an exchange of its own.
// To that come the weights that are not in registers, once for all phases and laps.
#include "passes/tile/recurrence_step.h"

#include <algorithm>
#include <cmath>

#include "ir/plan/recurrence_kernel.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

using footprint::is_above;
using footprint::select;
using Phase = RecurrenceShape::Phase;
using Product = RecurrenceShape::Product;

/// What the model has of its own, beside what a Machine says (passes/options/machine.h). All of it
/// was fitted to steps of LSTMs and GRUs that were timed on an NVIDIA H200 (132 multiprocessors),
/// tile by tile (bench/tiles.py ranks a shape's tiles by the model and by the clock); where an
/// entry names a shape or a kind, it is from these. On other GPUs none of it was measured.
struct StepModel {
  // Rates.
  double tensor_share = 0.8;  // of the machine's, of products with tensor cores: 16 bits, TF32
  double exact_share = 0.84;  // and of f32 without
  double split_share = 0.8;   // and of f32 in three products of TF32, of a third of its rate
  double shared_bandwidth = 2.2e11;  // bytes per second from one unit's shared memory

  // Seconds of a product, for each warp, in a lap.
  double piece = 5e-8;         // for 8 rows of 64 bytes along k: until its left operand has come
  double exact_piece = 5e-9;   // of exact products, for a row, a tile and 64 bytes along k
  double exact_pair = 2.5e-7;  // of exact products, for two rows at once: not for a single row
  double own_tile = 5e-9;  // for a tile by 64 bytes, where blocks have whole rows and none waits
  double split_word = 1.3e-11;  // to split a word of weights, on one unit
  double row_tile = 3e-7;       // for each tile of rows at once but the first, with tensor cores
  double warp_sums = 2e-8;      // to add its sums to those of other warps…
  double one_row_share = 0.25;  // …of which f32 of batch 1 takes but this: few threads add few sums

  // Seconds of elementwise work, in a lap.
  double elementwise = 1e-7;  // beside special functions
  double special = 3.6e-11;   // of one special function of one element, on one unit
  double alike_lap = 2e-7;    // where there are more than two laps: one code serves all

  // Seconds of the exchange with other blocks. Those of the machine are of all its units.
  double least_exchange = 0.55;  // the share of them that two blocks take; it grows to all units'
  double beside_free = 0.6;      // and of these where another phase waits for no block: layers that
                                 // read 1, 2, 4 … 512 steps back (ten of LSTM 16x256 in bf16, on an
                                 // H100). All exchanges are held too long, which elsewhere counts
                                 // for all tiles alike.
  double level_exchange = 0.75;  // the share for what is reduced (layer-norm LSTM on 4 x 32 blocks)
  double level_exchange_lap = 0.3;  // and more for each lap but the first: it waits alone
  double part_share = 0.26;  // of the time to read blocks' parts of reductions from the cache
  double sector = 1e-7;      // of blocks that write to the same sectors of 32 bytes
  double own = 5e-8;         // until a block has what it hands to itself

  // Of blocks that share k, in a lap: until each has the sums of all, and for each of them. (All
  // three were fitted to LSTMs and GRUs, both directions, of 1 to 128 rows and 226 to 2048 units,
  // on an H100: of 50 sets of 5 to 8 tiles the pick was 1.3 % slower than the best that was
  // measured on the mean, and 13 % at most.)
  double shared_k = 8e-7;
  double shared_k_block = 1e-7;
  int64_t unshared_part = 5;  // one such part of the left operand's time stays: the model holds
                              // too much for long ones

  // Likewise in clusters of blocks (LSTM 1x256 in f32 and 16x256 in bf16, 2 to 16 blocks).
  double cluster = 1e-8;  // for each cluster of the launch: the slowest counts
  double peer = 4e-9;     // for each block of the cluster
  double sent = 1.3e-10;  // for a word to one of these…
  // …and for one of further vectors, as adjoints of several gates are: without this the backward
  // halves of LSTM 16x768 and 40x640 to 40x768 in bf16 chose clusters, which took 1.3 to 1.8 times
  // as long there as blocks of a grid (an H100, both measured for 25 LSTMs and GRUs of 256 to 768).
  double also_sent = 9e-11;
};
constexpr StepModel kModel;

int64_t ticks(double seconds) {
  return std::llround(seconds * kTicks);
}

class StepTime {
 public:
  StepTime(const TileSpace& space, const TileMemory& memory)
      : space_(space),
        memory_(memory),
        shape_(space.shape()),
        footprint_(space.footprint),
        tile_(space.footprint.tile),
        machine_(space.machine),
        read_byte_(ticks(machine_.units / machine_.cache_bandwidth)),
        read_shared_byte_(ticks(1 / kModel.shared_bandwidth)),
        multiply_(multiply()) {}

  IntegerExpression run() {
    IntegerExpression slowest = 0;
    for (size_t i = 0; i < shape_.sides.size(); ++i) {
      const RecurrenceSide side = side_at(shape_.sides, i, shape_.phases.size());
      if (space_.unlike[side.begin]) slowest = max(slowest, of_side(side));
    }
    return slowest + weights();
  }

 private:
  /// Work of a phase's products.
  struct Work {
    IntegerExpression own = 0;          // on the side's own vectors
    IntegerExpression early = 0;        // on those of a side that is ahead, while the block waits…
    IntegerExpression early_loads = 0;  // …and to load weights for that
  };

  bool has_tensor_cores_alone() const { return shape_.engine != RecurrenceEngine::Exact; }

  /// Of a multiplication and an addition, on one unit.
  IntegerExpression multiply() const {
    const auto at = [&](double flops) { return ticks(2.0 * machine_.units / flops); };
    switch (shape_.engine) {
      case RecurrenceEngine::Exact:
        return select(footprint_.exact, at(machine_.exact_flops * kModel.exact_share),
                      at(machine_.tf32_flops * kModel.split_share / 3));
      case RecurrenceEngine::Tf32:
        return at(machine_.tf32_flops * kModel.tensor_share);
      case RecurrenceEngine::Half:
        break;
    }
    return at(machine_.tensor_flops * kModel.tensor_share);
  }

  IntegerExpression of_side(const RecurrenceSide& side) const {
    IntegerExpression time = 0;
    for (size_t p = side.begin; p < side.end; ++p) {
      const Work work = products(p);
      // `weights` counts all loads of weights, these too: here they end the wait sooner.
      time = time + work.own + elementwise(p) + max(wait(p) - work.early_loads, work.early) +
             gathers(p) + reductions(p);
    }
    return time;
  }

  // ---- Products ----

  Work products(size_t p) const {
    Work work;
    for (const Product& product : shape_.phases[p].products) {
      const IntegerExpression multiplied = multiplication(p, product);
      if (product.early) {
        work.early = work.early + multiplied;
        work.early_loads = work.early_loads + loads_of_early(p, product);
      } else {
        work.own = work.own + multiplied;
      }
      work.own = work.own + more_rows() + staying(p, product) + added_sums(p, product);
    }
    if (!shape_.phases[p].products.empty()) work.own = work.own + sums_of_blocks();
    return work;
  }

  /// To load the left operand, and multiply with it.
  IntegerExpression multiplication(size_t p, const Product& product) const {
    const IntegerExpression tiles = footprint_.tiles(p, product);
    const IntegerExpression pieces = footprint_.pieces(product);
    const IntegerExpression gates = kTileGates * tiles * footprint_.gate_warps;
    const IntegerExpression k =
        pieces * tile_.k_warps * (kExchangePieceBytes / shape_.element_bytes);  // of a block
    const IntegerExpression rows =
        select(footprint_.exact, footprint_.group_rows, footprint_.laps * tile_.rows);
    return left_operand(p, product) + rows * gates * k * multiply_ +
           footprint_.exact * footprint_.group_rows * pieces * tiles * ticks(kModel.exact_piece);
  }

  IntegerExpression left_operand(size_t p, const Product& product) const {
    const IntegerExpression own = part_of_left_operand(p, product, tile_.k_blocks);
    const IntegerExpression all = part_of_left_operand(p, product, 1);
    return own + ceil_div(all - own, kModel.unshared_part);
  }
  /// To load it, where so many blocks share its k.
  IntegerExpression part_of_left_operand(size_t p, const Product& product,
                                         const IntegerExpression& blocks) const {
    const IntegerExpression load_byte =
        product.exchanged ? select(tile_.clusters, read_shared_byte_, read_byte_) : read_byte_;
    const IntegerExpression pieces =
        ceil_div(ceil_div(product.k_bytes, kExchangePieceBytes), blocks * tile_.k_warps);
    return footprint_.group_rows * footprint_.gate_warps * ceil_div(product.k_bytes, blocks) *
               load_byte +
           waits(p, product, pieces) * footprint_.row_tiles * pieces * ticks(kModel.piece);
  }

  /// Laps that wait for their left operand: the first. Those behind it have it meanwhile, if few
  /// words of it do not have to wait for registers, or for their turn. But of a phase that waits
  /// for no block, only the first product's is asked for so early.
  IntegerExpression waits(size_t p, const Product& product, const IntegerExpression& pieces) const {
    if (product.k_bytes % kBytesOfLoad != 0) return footprint_.laps;
    if (!waits_for_blocks(p) && &product != shape_.phases[p].products.data()) {
      return footprint_.laps;
    }
    const IntegerExpression words = 4 * footprint_.row_tiles * pieces;
    const IntegerExpression many = is_above(words, kMostWordsAhead);
    return max(max(many, tile_.streams), tile_.clusters) * (footprint_.laps - 1) + 1;
  }

  IntegerExpression more_rows() const {
    if (!has_tensor_cores_alone() || shape_.sides.size() != 1) return 0;
    return (footprint_.row_tiles - 1) * ticks(kModel.row_tile);
  }

  /// Of a block that has whole rows.
  IntegerExpression staying(size_t p, const Product& product) const {
    if (!product.stays) return 0;
    return footprint_.has_segments(p) * footprint_.laps * footprint_.tiles(p, product) *
           footprint_.pieces(product) * ticks(kModel.own_tile);
  }

  /// To add up the sums of warps that share k.
  IntegerExpression added_sums(size_t p, const Product& product) const {
    const IntegerExpression gates =
        kTileGates * footprint_.tiles(p, product) * footprint_.gate_warps;
    const bool one_row = shape_.engine == RecurrenceEngine::Exact && shape_.batch == 1;
    const double of_warp = kModel.warp_sums * (one_row ? kModel.one_row_share : 1);
    return (1 - tile_.own_sums) * footprint_.has_sums(product) *
           (footprint_.laps * tile_.k_warps * ticks(of_warp) +
            sums_stored() * gates * tile_.k_warps * (kBytesOfWord * read_shared_byte_));
  }

  /// What blocks that share k make in parts each hands to the others, and awaits of them.
  IntegerExpression sums_of_blocks() const {
    return footprint_.shares_k() * footprint_.laps *
           (ticks(kModel.shared_k) + tile_.k_blocks * ticks(kModel.shared_k_block));
  }

  /// Of a gate, and loaded. Tensor cores make those of rows that are not there as well, for which
  /// blocks of a grid have time while they wait.
  IntegerExpression sums_stored() const {
    const IntegerExpression all = tile_.clusters * (1 - footprint_.exact);
    return footprint_.group_rows + select(all, footprint_.laps * tile_.rows, footprint_.group_rows);
  }

  // ---- Weights that are not in registers ----

  IntegerExpression loads_of_early(size_t p, const Product& product) const {
    const IntegerExpression words =
        kTileWords * footprint_.tiles(p, product) * footprint_.pieces(product);
    const IntegerExpression spilled = min(words, memory_.weight_words - memory_.weight_registers);
    return footprint_.laps * spilled * footprint_.threads * (kBytesOfWord * read_shared_byte_);
  }

  /// Exact products take two rows at a time, and weights as often.
  IntegerExpression weights() const {
    const IntegerExpression pairs = ceil_div(min(tile_.rows, footprint_.group_rows), kRowsAdded);
    const IntegerExpression times = footprint_.laps * select(footprint_.exact, pairs, 1);
    IntegerExpression time = footprint_.exact * min(footprint_.group_rows - 1, 1) *
                                 footprint_.laps * pairs * ticks(kModel.exact_pair) +
                             footprint_.laps * memory_.weights_in_shared * read_shared_byte_ +
                             times * memory_.streamed_bytes * read_byte_;
    if (shape_.engine != RecurrenceEngine::Exact) return time;
    return time + tile_.split * footprint_.laps * memory_.weight_words * footprint_.threads *
                      ticks(kModel.split_word);
  }

  // ---- Elements ----

  IntegerExpression elementwise(size_t p) const {
    const int64_t special = shape_.phases[p].specials * ticks(kModel.special);
    const IntegerExpression elements = select(
        tile_.own_sums, footprint_.elements(p) * footprint_.threads, tile_.rows * tile_.units[p]);
    IntegerExpression lap = ticks(kModel.elementwise) + special * elements;
    // Not are_laps_alike(): when this was fitted one code served more than two laps alone. For
    // two of more than 16 rows it has been measured since (kMostUnrolledLaps), and is no slower.
    if (has_tensor_cores_alone()) {
      lap = lap + is_above(footprint_.laps, kMostUnrolledLaps) * ticks(kModel.alike_lap);
    }
    return footprint_.laps * lap;
  }

  // ---- What blocks wait for ----

  bool waits_for_blocks(size_t p) const {
    return std::ranges::any_of(shape_.phases[p].products, [](const Product& product) {
      return product.exchanged && !product.early;
    });
  }

  bool has_free_phase() const {
    for (size_t p = 0; p < shape_.phases.size(); ++p) {
      if (!shape_.phases[p].products.empty() && !waits_for_blocks(p)) return true;
    }
    return false;
  }

  /// Until the products of the next step, or of the next phase, have what they multiply with.
  IntegerExpression wait(size_t p) const {
    if (!waits_for_blocks(p)) return 0;
    IntegerExpression peers = 0;  // blocks that a block waits for
    bool stays = true;
    for (const Product& product : shape_.phases[p].products) {
      if (!product.exchanged || product.early) continue;
      stays = stays && product.stays;
      peers = max(peers, ceil_div(footprint_.blocks(p), product.blocks));
    }
    IntegerExpression among_blocks = select(tile_.clusters, in_cluster(p), in_grid(p, peers));
    if (!stays) return among_blocks;
    return select(footprint_.has_segments(p), ticks(kModel.own), among_blocks);
  }

  IntegerExpression in_cluster(size_t p) const {
    const IntegerExpression bytes = shape_.element_bytes * tile_.units[p];
    const IntegerExpression words = footprint_.group_rows * ceil_div(bytes, kBytesOfWord);
    const int64_t of_word = ticks(kModel.sent) + more_vectors(p) * ticks(kModel.also_sent);
    return ticks(machine_.cluster_seconds) + tile_.groups * ticks(kModel.cluster) +
           footprint_.blocks(p) * (ticks(kModel.peer) + words * of_word) +
           min(max(kBytesOfSector - bytes, 0), 1) * ticks(kModel.sector);
  }

  /// Vectors as long as the phase is that its products exchange, but for one.
  int64_t more_vectors(size_t p) const {
    const Phase& phase = shape_.phases[p];
    int64_t bytes = 0;
    for (const Product& product : phase.products) {
      if (product.sends) bytes += product.blocks * product.k_bytes;
    }
    return std::max<int64_t>(0, ceil_div(bytes, phase.length * shape_.element_bytes) - 1);
  }

  IntegerExpression in_grid(size_t p, const IntegerExpression& peers) const {
    const double all = machine_.exchange_seconds * (has_free_phase() ? kModel.beside_free : 1.0);
    return ticks(all * kModel.least_exchange) +
           min(peers, machine_.units) * ticks(all * (1 - kModel.least_exchange) / machine_.units) +
           shares_sectors(p) * ticks(kModel.sector);
  }

  /// 1 if what a block makes of a row is not whole sectors.
  IntegerExpression shares_sectors(size_t p) const {
    const int64_t of_sector = kBytesOfSector / shape_.element_bytes;
    return min(of_sector * ceil_div(tile_.units[p], of_sector) - tile_.units[p], 1);
  }

  IntegerExpression gathers(size_t p) const {
    if (shape_.phases[p].gathered == 0) return 0;
    return footprint_.laps * ticks(machine_.exchange_seconds);
  }

  IntegerExpression reductions(size_t p) const {
    const Phase& phase = shape_.phases[p];
    if (phase.levels == 0) return 0;
    const double exchanges = static_cast<double>(phase.levels) * machine_.exchange_seconds;
    const double parts = static_cast<double>(phase.reductions * kBytesOfPart) * kModel.part_share;
    return footprint_.laps * ticks(exchanges * kModel.level_exchange) +
           (footprint_.laps - 1) * ticks(exchanges * kModel.level_exchange_lap) +
           footprint_.group_rows * footprint_.blocks(p) *
               ticks(parts * machine_.units / machine_.cache_bandwidth);
  }

  const TileSpace& space_;
  const TileMemory& memory_;
  const RecurrenceShape& shape_;
  const RecurrenceFootprint<IntegerExpression>& footprint_;
  const TileNumbers<IntegerExpression>& tile_;
  const Machine& machine_;
  int64_t read_byte_;         // ticks of a unit's
  int64_t read_shared_byte_;  // likewise
  IntegerExpression multiply_;
};

}  // namespace

IntegerExpression ticks_of_step(const TileSpace& space, const TileMemory& memory) {
  return StepTime(space, memory).run();
}

}  // namespace rnnc
