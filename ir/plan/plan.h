/// The Plan: what a backend executes, and all that it sees. Buffers with their places, and stages
/// of launches in order of execution, for one bound Graph, dtype, batch size and chunk length.
///
/// Execution of T steps, K = ceil(T / C) chunks, which every backend follows:
///
///     params:   run every Once stage, unless the last call's results are to be kept
///     steps:    for each sweep s = 0, 1, … < `sweeps`, with L the greatest lag of its stages:
///                 for wave w = 0, 1, … < K + L:
///                   a stage or state of lag l is at chunk k = w - l, and runs only if 0 <= k < K;
///                   its steps are t0 <= t < t0 + n, with t0 = kC and n = min(C, T - t0)
///                   states:  each one with k = 0: `init_given` if the caller gave one, else
///                            `init_declared`
///                   stages:  Sequence: each launch once, over rows (t, b), t0 <= t < t0 + n
///                            Step:     for t = t0 … t0 + n - 1: each launch, over rows b
///                   finals:  each state with k = K - 1, if it is asked for: `write_final`
///                            (of those that hide, at either end, what follows: `hide`)
///                   history: of each Chunk buffer of sweep s with history D > 0, slots [C, C + D)
///                            move to [0, D)
///     last:   run every Last stage
///
/// A `descending` plan goes from step T - 1 to step 0. All of the above holds of it with t0 … the
/// steps in the order in which they run: where it says t, the step is T - 1 - t. Rows lie in memory
/// by their steps as ever, so that a launch over whole chunks does not see the difference; what
/// lies behind a Chunk buffer's C steps is then its history: slots [0, D) move to [C, C + D).
///
/// Invariant buffers that totals of Sequence stages add to are zero when their sweep begins.
///
/// Launches of one stage run in order, each after the one before it is done, and so do stages of
/// one lag. Stages of different lags in one wave touch nothing that the other writes: they may run
/// side by side, in any order, also step by step in turn. This is the wavefront: what a stage of
/// lag l reads of one of lag l - 1 was written a wave ago, in the history of the buffer, and its
/// accesses' delays include that: (l - (l - 1)) * C steps.
///
/// What of this is arithmetic (which chunk a lag is at, where the row of a step lies, what begins
/// and ends) stands in ir/plan/waves.h, for all that run a plan.
///
/// State launches run over rows b, once for each step that the caller's arrays of the state hold
/// (ir/plan/state_steps.h). `init_…` address Chunk buffers as at t = t0 of the state's first
/// chunk, delay d being slot history - d; `write_final` as at t = T: delay 1 is the last step.
/// Final values that Last stages read are always asked for.
///
/// A sweep goes over the whole sequence; what a later sweep needs of an earlier one lies in
/// buffers of extent Steps. There is more than one only where a value computed here runs in
/// reverse.
///
/// C is `Plan::chunk`. Products always run at chunk size, so that a sequence run in pieces that are
/// multiples of C gives the bits of one run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/base/dtype.h"
#include "ir/graph/graph.h"
#include "ir/plan/buffer_kinds.h"
#include "ir/plan/loop_carry.h"
#include "ir/plan/recurrence_tile.h"
#include "ir/plan/scan_round.h"
#include "ir/plan/stack_place.h"

namespace rnnc {

using BufferId = uint32_t;
inline constexpr BufferId kNoBuffer = UINT32_MAX;

struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  Placement placement = Placement::Workspace;
  Role role = Role::Temporary;
  Extent extent = Extent::Batch;
  uint32_t slot = 0;     // Caller: index among the Graph's inputs, params, outputs or states
  int64_t width = 0;     // elements in a row; an Invariant matrix [N, K] has width N * K
  uint32_t history = 0;  // Chunk: earlier steps kept in front
  /// Bytes, a multiple of 256 (Workspace, Program). Workspace buffers of extent Steps come after
  /// all others: theirs begin `Plan::workspace_bytes + offset * T` bytes into the workspace.
  /// Buffers whose lifetimes are disjoint may share memory (passes/memory/memory.h).
  int64_t offset = 0;
  uint32_t sweep = 0;  // Chunk: when its history moves
  uint32_t lag = 0;    // Chunk: of the stages that write it
  /// Elements at the end of each row that belong to no value (of temporaries that are not
  /// Invariant): no launch writes them. In program memory they are zero always, so that products
  /// may read on into them.
  int64_t pad = 0;
  bool turned = false;  // Chunk: has columns in place of rows, as SplitLaunch says
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

/// Which elements of a buffer row (t, b) of a launch touches: those from `column` on, at step
/// t - delay. Row r of a launch starts `r * stride` elements after row 0.
struct Access {
  BufferId buffer = kNoBuffer;
  uint32_t delay = 0;  // Steps and Chunk buffers
  int64_t column = 0;  // elements from the start of the row
  int64_t stride = 0;  // the buffer's width; for Invariant buffers 0, except where a Once or Last
                       // launch walks over a matrix row by row, and for weights whose rows are
                       // apart
  friend bool operator==(const Access&, const Access&) = default;
};

/// One SSA value of a fused elementwise kernel.
struct Instruction {
  enum class Kind : uint8_t {
    Load,
    Constant,
    Scalar,
    Reduce,
    Store,
    Carried,  // in a loop of the kernel: the first operand, and from the second iteration on what
              // the second one, a later instruction of the loop, was in the one before
    Last,     // behind a loop: what the second operand of a Carried was in its last iteration
  };
  Kind kind = Kind::Load;
  Op op = Op::Add;  // Scalar: a scalar op; Reduce: a reduction
  /// One value per element of the row; else one per row. Scalar ops spread per-row operands over
  /// the row if another operand is a vector; so does a Store into a vector argument.
  bool vector = false;
  uint32_t argument = 0;           // Load, Store: index into Kernel::arguments
  double value = 0;                // Constant
  std::vector<uint32_t> operands;  // indices of earlier instructions, but for Carried
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// A fused elementwise kernel over rows of `length` elements. Rows are independent. Reductions go
/// over a row. Arithmetic is in `compute_type`; loads and stores convert.
///
/// The instructions of each of its `loops` run for l = 0 … count - 1, or down, and load and store
/// element l of arrays. In a loop in a loop that is element l of the outer one's turn, or of all.
/// What a loop takes from an earlier one of its count is what that had at the same l (see
/// kernel_facts.h); outside only Last takes anything from it. Reductions may be in loops, too.
struct Kernel {
  struct Argument {
    DType dtype = DType::f32;
    bool vector = false;   // `length` elements per row, else one
    bool written = false;  // stored, else loaded; no argument is both
    bool product = false;  // loaded: a result of the products of a FusedLaunch, not from memory
    int64_t count = 1;     // of an array: rows or elements, one behind the other
    friend bool operator==(const Argument&, const Argument&) = default;
  };
  /// Instructions [begin, end) of the body.
  struct Loop {
    uint32_t begin = 0;
    uint32_t end = 0;
    int64_t count = 0;
    bool descending = false;
    friend bool operator==(const Loop&, const Loop&) = default;
  };
  std::string name;
  int64_t length = 0;
  std::vector<Argument> arguments;
  std::vector<Instruction> body;  // in order; stores may stand anywhere
  std::vector<Loop> loops;        // in order, outer ones first
  /// Of a row of the argument.
  int64_t elements(const Argument& argument) const {
    return (argument.vector ? length : 1) * argument.count;
  }
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// Runs `Plan::kernels[kernel]`; accesses line up with its arguments. How many rows follows from
/// the stage's domain (state launches: B), except in Once and Last stages.
struct ElementwiseLaunch {
  uint32_t kernel = 0;
  std::vector<Access> accesses;
  int64_t once_rows = 1;  // Once and Last stages: number of rows
  friend bool operator==(const ElementwiseLaunch&, const ElementwiseLaunch&) = default;
};

/// out[row, 0:n] = sum over k of left[row, 0:k] * weight, with weight [n, k] row-major, or [k, n]
/// when `transposed`. With several blocks, the same for each block i of them: out's columns from
/// i * n, left's from i * k, the weight's elements from i * n * k. With several repeats, all of
/// that for each repeat r of them with the same `left`: out's columns from r * blocks * n, the
/// weight's elements from r * blocks * n * k. `left` and `weight` have the plan's storage type,
/// `out` its compute type, or in Sequence stages of a GPU, where nothing is added to it, its storage
/// type. Sums are in the compute type, and rounded once. Rows are as for elementwise launches.
///
/// Rows of the weight (of k elements, or of n when `transposed`) begin `weight.stride` elements
/// apart; 0 where one begins behind the other. Only a weight of one block and repeat has a stride.
struct GemmLaunch {
  Access left;
  Access weight;
  Access out;
  int64_t n = 0;
  int64_t k = 0;
  bool transposed = false;
  int64_t once_rows = 1;
  int64_t blocks = 1;
  int64_t repeats = 1;
  bool accumulate = false;  // adds to `out`, which an earlier launch wrote
  bool tf32 = false;        // f32: may round its operands to TF32, whatever the plan says of others
  /// On a GPU, done by a kernel of rnnc's own and not by a library (passes/plan/own_products.h).
  bool own = false;
  friend bool operator==(const GemmLaunch&, const GemmLaunch&) = default;
};

/// Products and the elementwise work on their results as one launch (Step stages, and phases of
/// recurrences): the results are arguments of the kernel and never in memory. The kernel has no
/// reductions, so that each element of each row stands by itself. What it writes no product of the
/// launch reads.
struct FusedLaunch {
  /// Adds to kernel arguments `first_argument + m`, m < `members`, in their column j:
  ///
  ///     sum over i < k of left[row, block * k + i] * weight[(m * length + j) * k + i]
  ///
  /// with block = j / (length / blocks). An argument of which several products are parts is their
  /// sum, in their order. Each argument that is a product has at least one.
  struct Product {
    Access left;    // storage type; of what a recurrence does not write also compute: it rounds it
    Access weight;  // Invariant, [members * length, k]
    int64_t k = 0;
    int64_t blocks = 1;  // divides `length`
    uint32_t first_argument = 0;
    uint32_t members = 1;
    friend bool operator==(const Product&, const Product&) = default;
  };
  uint32_t kernel = 0;
  std::vector<Access> accesses;  // as for elementwise launches; of products' results: no buffer
  std::vector<Product> products;
  std::vector<uint32_t> earlier = {};  // arguments, as of a ScanLaunch; in recurrences only
  friend bool operator==(const FusedLaunch&, const FusedLaunch&) = default;
};

/// Runs an elementwise kernel for each step of the chunk in order: a whole recurrence of class
/// Linear or Elementwise (Sequence stages, alone in theirs). The kernel has no reductions, and each
/// element goes its own way through time: state `carries` are loaded before the first step, stored
/// after the last, and stay in registers in between. They are Batch buffers or, where C is 1, those
/// of one earlier step, which is loaded. Loads of carries come first in the kernel's body, those of
/// arrays in its loops, and none of an array behind a loop that stores it.
struct LoopLaunch {
  uint32_t kernel = 0;
  std::vector<Access> accesses;
  std::vector<LoopCarry> carries;
  friend bool operator==(const LoopLaunch&, const LoopLaunch&) = default;
};

/// What a LoopLaunch does, in tiles of time side by side: each composes the affine maps of its steps,
/// takes the states before its first step from the tiles before it, and then runs the kernel for
/// each step from there. Stands where a loop may. `rounds` speak of instructions of the kernel's body
/// and, as states, of `carries`; each of these is in one round, which is composed once those before
/// it are known.
///
/// Loads of `earlier` arguments, which are the caller's Steps buffers, are of the step before in
/// the sequence, whichever way the plan goes, and zero at its first.
///
/// Tiles hand what they compose to later ones through `exchange`, a Chunk buffer of f32 without
/// history that nothing else touches. It is kNoBuffer where the backend has memory of its own for
/// this: a CPU, which goes through some tiles at a time.
///
/// What the kernel stores in arguments of `totals` is added up over rows (t, b), and then to where
/// these lie: Invariant buffers of the compute type. Each tile adds up its steps, and with an
/// exchange leaves that in a row of `partials` (ir/plan/scan_exchange.h). The order of the terms
/// depends on the chunk's length alone.
struct ScanLaunch {
  uint32_t kernel = 0;
  std::vector<Access> accesses;
  std::vector<LoopCarry> carries;
  std::vector<uint32_t> earlier;      // arguments, with an exchange only
  std::vector<uint32_t> totals = {};  // arguments
  std::vector<ScanRound> rounds;
  // A tile's steps:
  int64_t warps = 8;          // side by side
  int64_t steps_of_warp = 8;  // one after the other
  // With an exchange:
  int64_t items = 1;  // neighbouring channels of a thread
  int64_t group = 1;  // of so many tiles the first hands on states, the others maps
  BufferId exchange = kNoBuffer;
  BufferId partials = kNoBuffer;  // of totals
  int64_t tile_steps() const { return warps * steps_of_warp; }
  friend bool operator==(const ScanLaunch&, const ScanLaunch&) = default;
};

/// Runs phases, one after the other, for each step of the chunk in order: a whole recurrence of
/// class Block or Dense in one launch, whose weights stay on the chip (Sequence stages, alone in
/// theirs). Each phase is a fused launch, as in a Step stage.
///
/// What a phase writes reaches others in three ways only. Products read it as `left`, from a Chunk
/// buffer that this launch alone writes and at a column that only one phase stores to. A kernel
/// loads what a kernel stores: the same elements of the same row (the same column, and phases of
/// one length), at most as many steps later as the buffer has history, or, for an argument that is
/// not a vector, at most one step. Where the buffer is Batch, that is the same step or the next.
/// Or a kernel gathers elements that others store (ir/persistent/recurrence_gathers.h): all of them
/// are stored by the launch, each once, in earlier phases of the same step or, of a Chunk buffer,
/// at most as many steps before as it has history.
///
/// Unlike other fused launches, a phase may have no products, and its kernel reductions over the
/// row. What products read of the same launch, what kernels gather, and their parts of reductions,
/// the blocks hand to each other through `exchange` (ir/persistent/recurrence_exchange.h): a Chunk
/// buffer of f32 without history that nothing else touches. At the first steps the history of the
/// buffer is read instead.
/// Weights that find no room on the chip the launch lays out in `stream`, an Invariant buffer of
/// f32 that is its own as well, as its threads load them.
///
/// A stack has several sides, recurrences with blocks and phases of their own, each at a step of
/// its own. What one stores others neither store nor load; products of later sides may read it, and
/// so wait for it. No side waits for a later one, so that all come to the end.
struct RecurrenceLaunch {
  std::vector<FusedLaunch> phases;
  RecurrenceTile tile;
  BufferId exchange = kNoBuffer;
  BufferId stream = kNoBuffer;
  /// Batch buffers of f32 that kernels add to at each step, and that are zero before the first.
  std::vector<BufferId> sums = {};
  friend bool operator==(const RecurrenceLaunch&, const RecurrenceLaunch&) = default;
};

/// Copies rows * columns elements between Invariant buffers of one dtype (Once and Last stages).
/// `transposed`: source is a matrix [rows, columns], target [columns, rows]. Else rows lie one behind
/// the other, or both accesses have strides: then rows begin so many elements apart.
struct CopyLaunch {
  Access source;
  Access target;
  int64_t rows = 1;
  int64_t columns = 0;
  bool transposed = false;
  bool by_rows() const { return source.stride != 0; }
  friend bool operator==(const CopyLaunch&, const CopyLaunch&) = default;
};

/// Reads a sequence backwards (Sequence stages only): row (t, b) of target, a Chunk buffer, becomes
/// row (L - 1 - t, b) of source, a Steps buffer of the same dtype, for t below sequence b's length
/// L, else zero. `width` elements of each row.
struct ReverseLaunch {
  Access source;
  Access target;
  int64_t width = 0;
  friend bool operator==(const ReverseLaunch&, const ReverseLaunch&) = default;
};

/// Reads a sequence one step late (Sequence stages only): row (t, b) of target, a Chunk buffer,
/// becomes row (t - 1, b) of source, the caller's Steps buffer of the same dtype; zero at t = 0.
/// `width` elements of each row.
struct EarlierLaunch {
  Access source;
  Access target;
  int64_t width = 0;
  friend bool operator==(const EarlierLaunch&, const EarlierLaunch&) = default;
};

/// Fills a Chunk buffer of width 1 and the compute type (Sequence stages only) with 1 or 0 for each
/// row (t, b), L being sequence b's length:
///   Valid         t < L
///   Reset         reset[t, b]
///   ResetReverse  0 < t < L and reset[L - t, b]: a reset parts step L - t from the one before it,
///                 and this is where a reversed run crosses from the one to the other
/// Lengths that are not given are T, clamped to [0, T]; a reset mask that is not given is zero.
/// With `back`, 1 also where one of so many steps before has one.
struct MaskLaunch {
  enum class Kind : uint8_t { Valid, Reset, ResetReverse };
  Kind kind = Kind::Valid;
  Access target;
  int64_t back = 0;
  friend bool operator==(const MaskLaunch&, const MaskLaunch&) = default;
};

/// Takes rows of a table (Sequence stages only): row (t, b) of target, which has steps, becomes row
/// i of the table, i being `index` at (t, b), or zeros where that is not one of its `count` rows.
/// The table is Invariant, `count` rows of `width` elements one behind the other, of target's
/// dtype; `index` is of i32.
struct RowsLaunch {
  Access table;
  Access index;
  Access target;
  int64_t count = 0;
  int64_t width = 0;
  friend bool operator==(const RowsLaunch&, const RowsLaunch&) = default;
};

/// Adds up what `RowsLaunch` takes apart (Sequence stages only): each row (t, b) of `value` is added
/// to row i of `out`, i being `index` at (t, b); to none where that is not one of its `count` rows.
/// `out` is an Invariant buffer of the compute type, `value` of the storage type. What is added to a
/// row is added in the order of the rows (t, b).
struct RowTotalLaunch {
  Access index;
  Access value;
  Access out;
  int64_t count = 0;
  int64_t width = 0;
  friend bool operator==(const RowTotalLaunch&, const RowTotalLaunch&) = default;
};

/// Makes numbers of integers (Sequence stages only): from i32 to a Chunk buffer of width 1 and the
/// compute type.
struct RealLaunch {
  Access source;
  Access target;
  friend bool operator==(const RealLaunch&, const RealLaunch&) = default;
};

/// Sums over rows (Sequence and Last stages): of outer products, for each block i
///
///     out[i, a, b] = sum over rows of left[row, i * m + a] * right[row, i * n + b]
///
/// or, without `right` and with n = 1, of the rows of `left` themselves. `out` is an Invariant
/// buffer of the compute type. Operands of products have the storage type; `left` alone may have
/// the compute type too. Sums are in the compute type, over the rows in one order, whatever
/// computes them. Rows are those of the stage: (t, b) of a chunk, or b of a Last stage.
///
/// Operands `in_parts` are what SplitLaunch makes, of one block: `left` a left operand and `right` a
/// weight, whose access is to the first of a row's parts. The sum then goes over the parts of each
/// row as well, and products are in TF32. No more than `kMostSplitRows` rows are added up before
/// the result is added to `out`. A `right` that is `turned` is one that SplitLaunch has turned. One
/// that is `earlier`, an array of the caller's, is read a step late, as EarlierLaunch does.
struct TotalLaunch {
  Access left;
  Access right = {};  // none: the sum of `left`
  Access out;
  int64_t m = 0;
  int64_t n = 1;
  int64_t blocks = 1;
  bool accumulate = false;  // adds to `out`: in Sequence stages always, in Last ones never
  bool in_parts = false;
  bool turned = false;
  bool earlier = false;
  friend bool operator==(const TotalLaunch&, const TotalLaunch&) = default;
};

inline constexpr int64_t kSplitParts = 3;

/// Makes an operand of a product in TF32 that is about as exact as one in f32
/// (passes/plan/split_gemms.h): of each row of `length` elements of f32 three parts of `part`
/// elements each, one behind the other. With a' an element a rounded to TF32, but no zero or
/// infinity that it is not, and a" = a - a', they are
///
///     a', a", a'  of a left operand
///     a", a', a'  of a weight
///
/// Where |a'| is not below kMostSplitLeft or kMostSplitWeight, the first two parts are zero. What
/// is behind `length` is zero, too. Once stages make Invariant buffers of weights, Sequence stages
/// Chunk buffers of left operands, and of what is a weight in a total. Such a one may have one
/// part, which is a rounded to TF32.
///
/// Of a total's weight the target may be `turned`, columns in place of rows: the parts of element i
/// of the launch's row r begin at element (i * turned_rows + r) * parts of the buffer, which is
/// `turned` as well, and lie behind one another (ir/plan/waves.h has `turned_rows`).
struct SplitLaunch {
  Access source;
  Access target;
  int64_t length = 0;
  int64_t part = 0;  // a multiple of 4, so that rows are aligned
  bool weight = false;
  int64_t once_rows = 1;
  int64_t parts = kSplitParts;
  bool turned = false;
  friend bool operator==(const SplitLaunch&, const SplitLaunch&) = default;
};
/// Products of a small part are below 2^115, and sums of 2^12 of them finite, so that they never
/// make a NaN of the infinity that a' b' is.
inline constexpr float kMostSplitLeft = 0x1p100F;
inline constexpr float kMostSplitWeight = 0x1p26F;
/// Of a total. Tensor cores cut off what they add, which makes an error in one direction: of so many
/// rows 2^-15 of the sum at most, if no term cancels another. Their small products are 2^12.
inline constexpr int64_t kMostSplitRows = 2048;
/// Of each row of the operands.
inline int64_t row_parts(const TotalLaunch& total) {
  return total.in_parts ? kSplitParts : 1;
}
/// Elements from one of them to the next, where there are several.
inline int64_t part_stride(const TotalLaunch& total, const Access& operand) {
  return operand.stride / row_parts(total);
}

using Launch = std::variant<ElementwiseLaunch, GemmLaunch, CopyLaunch, ReverseLaunch, EarlierLaunch,
                            MaskLaunch, RowsLaunch, RowTotalLaunch, RealLaunch, SplitLaunch,
                            TotalLaunch, FusedLaunch, LoopLaunch, ScanLaunch, RecurrenceLaunch>;

/// How often a stage's launches run; see the top of this file. (What a launch reads and writes:
/// ir/plan/plan_touches.h.)
enum class Domain : uint8_t { Once, Sequence, Step, Last };
/// Whether stages of the domain run chunk by chunk.
inline constexpr bool is_of_sweeps(Domain domain) {
  return domain == Domain::Sequence || domain == Domain::Step;
}

/// Structure of a recurrence, by proof on its graph (architecture: recurrence classes).
enum class RecurrenceClass : uint8_t { None, Linear, Elementwise, Block, Dense };

struct Stage {
  Domain domain = Domain::Sequence;
  /// None in time-parallel stages. Those are of domain Step too where hoisting is off.
  RecurrenceClass recurrence = RecurrenceClass::None;
  std::string name = {};    // the states of a recurrence, for people
  std::string reason = {};  // why it is of its class and runs as it does, for people
  int phases = 0;           // of a recurrence: cross-unit dependencies within a step
  std::vector<Launch> launches = {};
  uint32_t sweep = 0;  // Once stages: 0; Last stages: the last one
  uint32_t lag = 0;    // chunks; see the top of this file. Once and Last stages: 0
  /// Of a recurrence, until it has taken what it may: results of products over all steps that its
  /// kernels read, and nothing but kernels of recurrences. What no other stage has here may be its
  /// own.
  std::vector<BufferId> products = {};
  StackPlace stack = {};  // likewise
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// Whose resets a state's history hides behind, if it does.
enum class Hiding : uint8_t { None, Resets, ReversedResets };

struct StatePlan {
  std::string name;
  /// As in StateDecl: whose given value this one starts as if it is not given one itself.
  std::optional<uint32_t> delay_of = {};
  ElementwiseLaunch init_given;     // from the caller's initial state, into every history slot
  ElementwiseLaunch init_declared;  // from the declared initial value
  ElementwiseLaunch write_final;    // after the last chunk, from the history's last slot
  ElementwiseLaunch hide;           // of a state that hides, its declared value in place of these
  uint32_t sweep = 0;               // of the stage that writes it
  uint32_t lag = 0;                 // likewise
  /// Whether steps past a sequence's end write back what falls out of its history, so that this
  /// turns (ir/plan/state_steps.h).
  bool turns = false;
  /// Whether resets leave the history as it is, and what reads it looks for them. The caller's
  /// array that has it as it is at the end (ir/plan/state_steps.h) has none of what lies behind a
  /// reset.
  Hiding hiding = Hiding::None;
  friend bool operator==(const StatePlan&, const StatePlan&) = default;
};

/// All that begins or ends a state.
inline constexpr ElementwiseLaunch StatePlan::* kStateLaunches[] = {
    &StatePlan::init_given, &StatePlan::init_declared, &StatePlan::write_final, &StatePlan::hide};

struct Plan {
  std::string name;
  DType dtype = DType::f32;  // storage type of inputs, params and outputs
  bool tf32 = false;         // f32: products may round their operands to TF32
  bool descending = false;   // from step T - 1 to step 0; see the top of this file
  int64_t batch = 0;         // B
  int64_t chunk = 0;         // C, steps
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<Stage> stages;      // Once stages first, then by sweep, then Last stages
  std::vector<StatePlan> states;  // the Graph's in order, implied ones included; parts of these
  uint32_t sweeps = 1;
  std::string note;             // for people: what is not as it could be, and why; or nothing
  int64_t workspace_bytes = 0;  // of Workspace buffers that do not grow with T
  int64_t workspace_bytes_per_step = 0;  // of those of extent Steps, a multiple of 256
  int64_t program_bytes = 0;
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Whether the stage is a RecurrenceLaunch.
bool is_resident(const Stage& stage);

/// What blocks of the launch hand to each other; kNoBuffer: nothing.
BufferId exchange_of(const Launch& launch);

/// Of the weight, with the stride between them.
struct WeightRows {
  int64_t count = 0;
  int64_t length = 0;
  int64_t stride = 0;
  /// Elements from the first to the last.
  int64_t span() const { return (count - 1) * stride + length; }
};
WeightRows weight_rows(const GemmLaunch& launch);
/// Elements from one row of the weight to the next, of one block.
int64_t weight_stride(const GemmLaunch& launch);

/// Whether rows have a pad that is zero always.
bool ends_in_zeros(const Buffer& buffer);

/// What the launch adds up over all steps, and the batch or, of a recurrence, for each sequence.
std::vector<BufferId> sums_of(const Launch& launch);

/// Whether the launch alone makes all of what is its one sum: a backend may let it write that at the
/// first chunk, and need not clear it.
bool makes_whole_sum(const Plan& plan, const Launch& launch);

/// Buffers that are zero when a sweep begins: the sums of its launches.
std::vector<BufferId> cleared_buffers(const Plan& plan, uint32_t sweep);

/// Bytes of workspace that T steps need.
int64_t workspace_bytes(const Plan& plan, int64_t steps);

/// Bytes from the start of a workspace for T steps to a buffer in it.
int64_t workspace_offset(const Plan& plan, const Buffer& buffer, int64_t steps);

/// Bytes of a Workspace or Program buffer, rows * width * element size; of extent Steps, per step.
int64_t byte_size(const Plan& plan, const Buffer& buffer);

/// "2 x 64 blocks of 8 warps, 8 rows at once, units 16, weights in 128 registers"; of a stack "4
/// sides of 2 x 16 blocks…".
std::string to_string(const RecurrenceTile& tile);

/// 32-bit words of a recurrence's `stream`.
int64_t stream_width(const RecurrenceTile& tile);

/// The plan as text, for `rnnc emit --as plan` and tests.
std::string to_string(const Plan& plan);

/// What is wrong with the plan, or success: ids in range, dtypes and extents that fit, every read
/// after a write, buffers that do not overlap. A failure is a bug in rnnc.
Status verify(const Plan& plan);

}  // namespace rnnc
