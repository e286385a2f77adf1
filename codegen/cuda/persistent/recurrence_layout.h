/// What the kernel of a recurrence launch is made of, for each side: where each value comes from,
/// what stays in registers, what lies where in shared memory.
#pragma once

#include <map>
#include <vector>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_footprint.h"
#include "ir/persistent/recurrence_inputs.h"
#include "ir/persistent/recurrence_partials.h"
#include "ir/persistent/recurrence_sources.h"
#include "ir/plan/plan.h"

namespace rnnc {

struct RecurrenceProduct {
  const FusedLaunch::Product* product = nullptr;
  int64_t gates = 0;  // of a block, or of those that share k
  int64_t k_bytes = 0;
  int64_t pieces = 0;       // along k, of a warp
  int64_t tiles = 0;        // of 16 gates, of a warp
  int64_t held = 0;         // tiles of weights of a warp's pieces that are in registers
  int64_t shared = 0;       // after them, in shared memory…
  int64_t spill = 0;        // …from here on
  int64_t stream = 0;       // where the others' are among the block's weights in memory
  int64_t column = 0;       // of its first gate among the phase's sums…
  int64_t own_column = 0;   // …and among those that other blocks that share k hand to it
  size_t sums = 0;          // the product of the phase that stores its sums among its own
  uint32_t first = 0;       // among the phase's results
  size_t access = 0;        // of `left`; `weight` follows
  size_t slice = SIZE_MAX;  // of the side's, where the launch writes `left`…
  bool own = false;         // …and the side itself

  bool is_exchanged() const { return slice != SIZE_MAX; }
  /// Whether it makes, alone or with others, that result of the phase.
  bool has(uint32_t result) const { return result >= first && result < first + product->members; }
};

struct RecurrencePhase {
  size_t index = 0;  // of the launch's
  const FusedLaunch* launch = nullptr;
  const Kernel* kernel = nullptr;
  int64_t units = 0;      // of a block
  int64_t span = 1;       // neighbouring elements of a thread
  int64_t segments = 1;   // of a row, which no block crosses
  int64_t k_blocks = 1;   // that share a product's k
  int64_t columns = 0;    // of products' sums…
  int64_t own_gates = 0;  // …and of those that blocks hand to who has the elements
  std::vector<RecurrenceProduct> products;
  std::vector<RecurrenceSource> sources;  // by argument
  std::vector<size_t> accesses;           // by argument; SIZE_MAX: a product
  std::vector<uint32_t> results;          // by argument: index among the products' results
  /// By instruction: reductions that it waits for in a row. What is gathered, and what is made of
  /// it alone, is of the level of its first user.
  std::vector<int> levels;
  std::vector<RecurrencePartial> partials;  // by level
  size_t first_partial = 0;                 // among those of the side

  int64_t segment_length() const { return kernel->length / segments; }
  /// Of a group, that have elements or share k with those that have.
  int64_t blocks() const {
    return footprint::blocks_of_row(kernel->length, segments, units, k_blocks);
  }
  int last_level() const;
  /// Index among `partials` of what a reduction needs.
  size_t partial_of(uint32_t reduction) const;
};

/// Of one side. Nothing in it but where things lie in the exchange depends on the others.
class RecurrenceLayout {
 public:
  /// `plan` and `launch` outlive this.
  RecurrenceLayout(const Plan& plan, const RecurrenceLaunch& launch, size_t side);

  const std::vector<RecurrencePhase>& phases() const { return phases_; }
  const std::map<RecurrencePlace, RecurrenceCarry>& carries() const { return carries_; }
  const RecurrenceExchange& exchange() const { return exchange_; }
  /// Of the exchange's slices, those that the side stores or multiplies with.
  const std::vector<RecurrenceExchange::Slice>& slices() const { return slices_; }
  /// Where its parts of reductions lie in a step of the exchange.
  int64_t parts() const { return exchange_.parts[side_]; }
  /// Of what kernels gather, the side's.
  const std::vector<RecurrenceExchange::Gathered>& gathered() const { return gathered_; }
  /// Whether two neighbouring elements that a block stores to a slice of the side's make a word of
  /// it, if they are halves of one.
  bool is_whole(size_t slice) const { return whole_[slice]; }
  /// Whether its products read it in shared memory.
  bool is_shared(size_t slice) const { return slices_[slice].local || tile_.clusters; }
  /// Whether what goes there is stored at the chunk's last steps alone, as many as the buffer has
  /// history, or one: nobody reads it at others. (Where weights are streamed, the condition took
  /// registers that are not there: GRU 1x2000 in TF32 spilled.)
  bool is_stored_at_last(const Access& access) const;
  /// Every array, as at the chunk's first step. The last are the stream and the exchange, if there
  /// are any.
  const std::vector<Access>& accesses() const { return accesses_; }

  // What the tile makes of it (ir/persistent/recurrence_footprint.h).
  int64_t group_rows() const { return footprint_.group_rows; }
  int64_t laps() const { return footprint_.laps; }  // of a tile's rows
  /// Whether each lap of each group has all of them.
  bool has_all_rows() const {
    return group_rows() % tile_.rows == 0 && plan_.batch % group_rows() == 0;
  }
  bool are_laps_alike() const { return footprint_.are_laps_alike() != 0; }
  /// Rows of a lap that the threads have at once, and one thread in all.
  int64_t rows_at_once(const RecurrencePhase& phase) const {
    return footprint_.rows_at_once(phase.index);
  }
  int64_t items(const RecurrencePhase& phase) const { return footprint_.items(phase.index); }
  /// Of a tile of 8 rows and a member's 16 elements, how many sums a lane has to itself. 0: warps
  /// share sums.
  int64_t own_sums() const {
    return tile_.own_sums ? footprint_.lane_rows() * footprint_.lane_elements() : 0;
  }
  /// The rows of these.
  int64_t own_rows() const { return footprint_.lane_rows(); }
  /// Of f32 products, without tensor cores.
  bool is_exact() const { return footprint_.exact != 0; }
  int64_t sum_rows() const { return footprint_.sum_rows(); }
  /// Whether addresses of the exchange and of the block stay in registers: where reductions wait
  /// for them, and in stacks. (A layer-norm LSTM on 4 x 32 blocks 3.83 us, so 3.66. Elsewhere
  /// weights need the registers: LSTM 23x2044 in f16 7.7 us, so 9.9; 64x1024 in bf16 3.41,
  /// so 3.53.)
  bool keeps_addresses() const { return footprint_.shape.reduces || tile_.sides.size() > 1; }
  /// Whether values that are the same at every step stay in registers. If there are many, these are
  /// better used for weights, and the values come from the L1 cache.
  static bool keeps_invariants(const RecurrencePhase& phase);

  // Where in shared memory lie two buffers of sums, left operands of exact products, sums of blocks
  // that share k, results of reductions, what the block hands to itself at two steps or to its
  // cluster (RecurrenceExchange), carries, weights, inputs (SharedBytes).
  int64_t sums_bytes() const { return sums_bytes_; }  // of one buffer
  int64_t lefts() const { return 2 * sums_bytes_; }
  int64_t left_pieces() const { return left_pieces_; }  // of a warp
  int64_t block_sums() const { return block_sums_; }    // two buffers, and behind them barriers
  int64_t block_barriers() const { return statistics_ - kSumBuffers * kBytesOfBarrier; }
  int64_t statistics() const { return statistics_; }
  int64_t local() const { return local_; }
  int64_t clusters() const { return clusters_; }  // what blocks of a cluster exchange, by slot
  int64_t barriers() const { return barriers_; }  // of that: of each slice, by slot
  int64_t shared_bytes() const { return shared_bytes_; }
  /// Inputs of `input_steps` steps, one behind the other.
  int64_t inputs() const { return inputs_; }
  const RecurrenceInputs& staged() const { return staged_; }
  /// Where an argument of a phase is among them; null: it is not.
  const RecurrenceInput* input(const RecurrencePhase& phase, uint32_t argument) const;
  /// Bytes of weights in memory.
  int64_t stream_bytes() const { return stream_bytes_; }

 private:
  void find_phases();
  void find_products(RecurrencePhase& phase) const;
  void find_slices();
  bool stores_whole_words(const RecurrenceExchange::Slice& slice) const;
  void find_sources();
  static void put_off_gathers(RecurrencePhase& phase);
  void place_in_shared_memory();
  void place_carries();
  void place_weights();
  void place_inputs();
  size_t add_access(const Access& access);

  const Plan& plan_;
  const RecurrenceLaunch& launch_;
  const RecurrenceTile& tile_;
  size_t side_;
  RecurrenceFootprint<int64_t> footprint_;
  std::vector<RecurrencePhase> phases_;
  std::map<RecurrencePlace, RecurrenceCarry> carries_;
  RecurrenceExchange exchange_;
  std::vector<RecurrenceExchange::Slice> slices_;
  std::vector<bool> whole_;  // by slice
  std::vector<RecurrenceExchange::Gathered> gathered_;
  std::vector<Access> accesses_;
  int64_t sums_bytes_ = 0;
  int64_t left_pieces_ = 0;
  int64_t block_sums_ = 0;
  int64_t statistics_ = 0;
  int64_t local_ = 0;
  int64_t clusters_ = 0;
  int64_t barriers_ = 0;
  int64_t shared_bytes_ = 0;
  RecurrenceInputs staged_;
  int64_t inputs_ = 0;
  int64_t stream_bytes_ = 0;
};

}  // namespace rnnc
