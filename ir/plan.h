/// The Plan: what a backend executes, and all that it sees. Buffers with their places, and stages
/// of launches in order of execution, for one bound Graph, dtype, batch size and chunk length.
///
/// Execution of T steps, which every backend follows:
///
///     params:   run every Once stage, unless the last call's results are to be kept
///     states:   for each state: `init_given` if the caller gave one, else `init_declared`
///     steps:    for each sweep s = 0, 1, … < `sweeps`:
///                 for t0 = 0, C, 2C, … < T, with n = min(C, T - t0):
///                   for each stage of sweep s after the Once stages:
///                     Sequence: each launch once, over rows (t, b), t0 <= t < t0 + n
///                     Step:     for t = t0 … t0 + n - 1: each launch, over rows b
///                   for each Chunk buffer of sweep s with history D > 0: slots [n, n + D) move to
///                   [0, D)
///     finals:   for each state whose final value is asked for: `write_final`
///
/// Launches of one stage or state run in order, each after the one before it is done. State
/// launches run over rows b and address Chunk buffers as at step t0 = t of the next chunk: delay d
/// is slot history - d.
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

#include "ir/dtype.h"
#include "ir/graph.h"

namespace rnnc {

using BufferId = uint32_t;
inline constexpr BufferId kNoBuffer = UINT32_MAX;

/// Who owns a buffer's memory.
enum class Placement : uint8_t {
  Caller,     // a pointer of the call: input, param, output, initial or final state
  Workspace,  // in the caller's workspace, at `offset`; holds nothing between calls
  Resident,   // in the program's own memory, at `offset`; its address never changes
};

enum class Role : uint8_t { Input, Param, Output, InitialState, FinalState, Temporary };

/// How many rows of `width` elements a buffer has, and which row belongs to (t, b).
enum class Extent : uint8_t {
  Invariant,  // 1 row, the same for every t and b
  Batch,      // B rows: row b. Used by Step launches and state launches only
  Steps,      // T * B rows: row t * B + b. The caller's sequences, and values across sweeps
  Chunk,      // (history + C) * B rows: row (t - t0 + history) * B + b
};

struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  Placement placement = Placement::Workspace;
  Role role = Role::Temporary;
  Extent extent = Extent::Batch;
  uint32_t slot = 0;     // Caller: index among the Graph's inputs, params, outputs or states
  int64_t width = 0;     // elements in a row; an Invariant matrix [N, K] has width N * K
  uint32_t history = 0;  // Chunk: earlier steps kept in front
  /// Bytes, a multiple of 256 (Workspace, Resident). Workspace buffers of extent Steps come after
  /// all others: theirs begin `Plan::workspace_bytes + offset * T` bytes into the workspace.
  int64_t offset = 0;
  uint32_t sweep = 0;  // Chunk: when its history moves
};

/// Which elements of a buffer row (t, b) of a launch touches: those from `column` on, at step
/// t - delay. Row r of a launch starts `r * stride` elements after row 0.
struct Access {
  BufferId buffer = kNoBuffer;
  uint32_t delay = 0;  // Steps and Chunk buffers
  int64_t column = 0;  // elements from the start of the row
  int64_t stride = 0;  // the buffer's width; for Invariant buffers 0, except where a Once launch
                       // walks over a matrix row by row
};

/// One SSA value of a fused elementwise kernel.
struct Instruction {
  enum class Kind : uint8_t { Load, Constant, Scalar, Reduce, Store };
  Kind kind = Kind::Load;
  Op op = Op::Add;  // Scalar: a scalar op; Reduce: a reduction
  /// One value per element of the row; else one per row. Scalar ops spread per-row operands over
  /// the row if another operand is a vector; so does a Store into a vector argument.
  bool vector = false;
  uint32_t argument = 0;           // Load, Store: index into Kernel::arguments
  double value = 0;                // Constant
  std::vector<uint32_t> operands;  // indices of earlier instructions
};

/// A fused elementwise kernel over rows of `length` elements. Rows are independent. Reductions go
/// over a row. Arithmetic is in `compute_type`; loads and stores convert.
struct Kernel {
  struct Argument {
    DType dtype = DType::f32;
    bool vector = false;   // `length` elements per row, else one
    bool written = false;  // stored, else loaded; no argument is both
  };
  std::string name;
  int64_t length = 0;
  std::vector<Argument> arguments;
  std::vector<Instruction> body;  // in order; stores may stand anywhere
};

/// Runs `Plan::kernels[kernel]`; accesses line up with its arguments. How many rows follows from
/// the stage's domain (state launches: B), except in Once stages.
struct ElementwiseLaunch {
  uint32_t kernel = 0;
  std::vector<Access> accesses;
  int64_t once_rows = 1;  // Once stages: number of rows
};

/// out[row, 0:n] = sum over k of left[row, 0:k] * weight, with weight [n, k] row-major, or [k, n]
/// when `transposed`. With several blocks, the same for each block i of them: out's columns from
/// i * n, left's from i * k, the weight's elements from i * n * k. `left` and `weight` have the
/// plan's storage type, `out` its compute type. Sums are in the compute type. Rows are as for
/// elementwise launches.
struct GemmLaunch {
  Access left;
  Access weight;
  Access out;
  int64_t n = 0;
  int64_t k = 0;
  bool transposed = false;
  int64_t once_rows = 1;
  int64_t blocks = 1;
};

/// Copies rows * columns elements between Invariant buffers of one dtype (Once stages only).
/// `transposed`: source is a matrix [rows, columns], target [columns, rows].
struct CopyLaunch {
  Access source;
  Access target;
  int64_t rows = 1;
  int64_t columns = 0;
  bool transposed = false;
};

/// Reads a sequence backwards (Sequence stages only): row (t, b) of target, a Chunk buffer, becomes
/// row (L - 1 - t, b) of source, a Steps buffer of the same dtype, for t below sequence b's length
/// L, else zero. `width` elements of each row.
struct ReverseLaunch {
  Access source;
  Access target;
  int64_t width = 0;
};

/// Fills a Chunk buffer of width 1 and the compute type (Sequence stages only) with 1 or 0 for each
/// row (t, b), L being sequence b's length:
///   Valid         t < L
///   Reset         reset[t, b]
///   ResetReverse  0 < t < L and reset[L - t, b]: a reset parts step L - t from the one before it,
///                 and this is where a reversed run crosses from the one to the other
/// Lengths that are not given are T, clamped to [0, T]; a reset mask that is not given is zero.
struct MaskLaunch {
  enum class Kind : uint8_t { Valid, Reset, ResetReverse };
  Kind kind = Kind::Valid;
  Access target;
};

using Launch = std::variant<ElementwiseLaunch, GemmLaunch, CopyLaunch, ReverseLaunch, MaskLaunch>;

/// How often a stage's launches run; see the top of this file.
enum class Domain : uint8_t { Once, Sequence, Step };

/// Structure of a recurrence, by proof on its graph (architecture: recurrence classes).
enum class RecurrenceClass : uint8_t { None, Linear, Elementwise, Block, Dense };

struct Stage {
  Domain domain = Domain::Sequence;
  RecurrenceClass recurrence = RecurrenceClass::None;  // None unless Step
  std::string name;                                    // the states of a Step stage, for people
  std::vector<Launch> launches;
  uint32_t sweep = 0;  // Once stages: 0
};

struct StatePlan {
  std::string name;
  /// As in StateDecl: whose given value this one starts as if it is not given one itself.
  std::optional<uint32_t> delay_of = {};
  ElementwiseLaunch init_given;     // from the caller's initial state, into every history slot
  ElementwiseLaunch init_declared;  // from the declared initial value
  ElementwiseLaunch write_final;    // after the last chunk, from the history's last slot
};

struct Plan {
  std::string name;
  DType dtype = DType::f32;  // storage type of inputs, params and outputs
  int64_t batch = 0;         // B
  int64_t chunk = 0;         // C, steps
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<Stage> stages;      // Once stages first, then by sweep
  std::vector<StatePlan> states;  // the Graph's, in order, implied ones included
  uint32_t sweeps = 1;
  int64_t workspace_bytes = 0;           // of Workspace buffers that do not grow with T
  int64_t workspace_bytes_per_step = 0;  // of those of extent Steps, a multiple of 256
  int64_t resident_bytes = 0;
};

/// Bytes of workspace that T steps need.
int64_t workspace_bytes(const Plan& plan, int64_t steps);

/// Bytes of a Workspace or Resident buffer (rows * width * element size); of one of extent Steps,
/// bytes per step.
int64_t byte_size(const Plan& plan, const Buffer& buffer);

/// The plan as text, for `rnnc emit --as plan` and tests.
std::string to_string(const Plan& plan);

/// What is wrong with the plan, or success: ids in range, dtypes and extents that fit, every read
/// after a write, buffers that do not overlap. A failure is a bug in rnnc.
Status verify(const Plan& plan);

}  // namespace rnnc
