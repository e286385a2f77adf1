/// The Plan: what a backend executes, and all that it sees. Buffers with their places, and stages
/// of launches in order of execution, for one bound Graph, dtype, batch size and chunk length.
///
/// Execution of T steps, which every backend follows:
///
///     params:   run every Once stage, unless the last call's results are to be kept
///     states:   for each state: `init_given` if the caller gave one, else `init_declared`
///     steps:    for t0 = 0, C, 2C, … < T, with n = min(C, T - t0):
///                 for each stage after the Once stages:
///                   Sequence: each launch once, over rows (t, b), t0 <= t < t0 + n
///                   Step:     for t = t0 … t0 + n - 1: each launch, over rows b
///                 for each Chunk buffer with history D > 0: slots [n, n + D) move to [0, D)
///     finals:   for each state whose final value is asked for: `write_final`
///
/// Launches of one stage or state run in order, each after the one before it is done. State
/// launches run over rows b and address Chunk buffers as at step t0 = t of the next chunk: delay d
/// is slot history - d.
///
/// C is `Plan::chunk`. Products always run at chunk size, so that a sequence run in pieces that are
/// multiples of C gives the bits of one run.
#pragma once

#include <cstdint>
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
  Steps,      // T * B rows: row t * B + b. The caller's sequences
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
  int64_t offset = 0;    // bytes, a multiple of 256 (Workspace, Resident)
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
/// when `transposed`. `left` and `weight` have the plan's storage type, `out` its compute type.
/// Sums are in the compute type. Rows are as for elementwise launches.
struct GemmLaunch {
  Access left;
  Access weight;
  Access out;
  int64_t n = 0;
  int64_t k = 0;
  bool transposed = false;
  int64_t once_rows = 1;
};

/// Copies `count` elements between Invariant buffers of one dtype (Once stages only): packs
/// weights.
struct CopyLaunch {
  Access source;
  Access target;
  int64_t count = 0;
};

using Launch = std::variant<ElementwiseLaunch, GemmLaunch, CopyLaunch>;

/// How often a stage's launches run; see the top of this file.
enum class Domain : uint8_t { Once, Sequence, Step };

/// Structure of a recurrence, by proof on its graph (architecture: recurrence classes).
enum class RecurrenceClass : uint8_t { None, Linear, Elementwise, Block, Dense };

struct Stage {
  Domain domain = Domain::Sequence;
  RecurrenceClass recurrence = RecurrenceClass::None;  // None unless Step
  std::string name;                                    // the states of a Step stage, for people
  std::vector<Launch> launches;
};

struct StatePlan {
  std::string name;
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
  std::vector<Stage> stages;  // Once stages first
  /// The Graph's states in order, then one for each input that is read at an earlier step, named
  /// `x.before`: nobody gives or asks for those, they always start as declared (at zero), and only
  /// their `init_declared` is filled in.
  std::vector<StatePlan> states;
  int64_t workspace_bytes = 0;
  int64_t resident_bytes = 0;
};

/// Bytes of a Workspace or Resident buffer (rows * width * element size).
int64_t byte_size(const Plan& plan, const Buffer& buffer);

/// The plan as text, for `rnnc emit --as plan` and tests.
std::string to_string(const Plan& plan);

/// What is wrong with the plan, or success: ids in range, dtypes and extents that fit, every read
/// after a write, buffers that do not overlap. A failure is a bug in rnnc.
Status verify(const Plan& plan);

}  // namespace rnnc
