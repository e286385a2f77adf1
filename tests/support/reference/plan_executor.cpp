#include "tests/support/reference/plan_executor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "ir/plan/launches/launches.h"
#include "ir/plan/state_steps.h"
#include "ir/plan/waves.h"
#include "tests/support/reference/kernel_runner.h"
#include "tests/support/reference/plan_arrays.h"
#include "tests/support/reference/scan_tiles.h"

namespace rnnc {
namespace {

class Executor {
 public:
  Executor(const Plan& plan, const InterpreterArgs& args, const SequenceArgs& sequences)
      : plan_(plan),
        args_(args),
        sequences_(sequences),
        arrays_(plan, args),
        kernels_(plan, args.steps, arrays_) {}

  InterpreterResult run() {
    for (const Stage& stage : plan_.stages) {
      if (stage.domain == Domain::Once) run_launches(stage, {}, 0);
    }
    for (uint32_t sweep = 0; sweep < plan_.sweeps; ++sweep) run_sweep(sweep);
    for (const Stage& stage : plan_.stages) {
      if (stage.domain == Domain::Last) run_launches(stage, {}, 0);
    }
    return arrays_.results();
  }

 private:
  void run_sweep(uint32_t sweep) {
    clear_totals(sweep);
    const Waves waves(plan_, sweep, args_.steps);
    for (const Wave& wave : waves) {
      begin_states(sweep, wave);
      for (const Stage& stage : plan_.stages) {
        if (stage.sweep == sweep && is_of_sweeps(stage.domain)) run_stage(stage, wave);
      }
      end_states(sweep, wave);
      move_histories(sweep);
    }
  }

  void clear_totals(uint32_t sweep) {
    for (const BufferId id : cleared_buffers(plan_, sweep)) {
      const Buffer& buffer = plan_.buffers[id];
      std::fill_n(arrays_.memory(buffer), byte_size(plan_, buffer), std::byte{0});
    }
  }

  void begin_states(uint32_t sweep, const Wave& wave) {
    for (size_t i = 0; i < plan_.states.size(); ++i) {
      const StatePlan& state = plan_.states[i];
      if (state.sweep != sweep || !wave.begins(state.lag)) continue;
      const bool given = arrays_.given(slot_of(plan_, i)) != nullptr;
      run_state(state, given ? state.init_given : state.init_declared, {});
      if (given && plan_.descending) hide(state, {});
    }
  }

  void end_states(uint32_t sweep, const Wave& wave) {
    for (const StatePlan& state : plan_.states) {
      if (state.sweep != sweep || !wave.ends(state.lag)) continue;
      const Position end = wave.position(state.lag, wave.count(state.lag));
      run_state(state, state.write_final, end);
      if (!plan_.descending) hide(state, end);
    }
  }

  /// Entry by entry of the caller's array.
  void hide(const StatePlan& state, Position at) {
    const std::vector<ElementwiseLaunch> launches = launches_of(plan_, state, state.hide);
    const int64_t count = std::ssize(launches);
    const int64_t behind = steps_behind(plan_, state);
    for (int64_t row = 0; row < plan_.batch && count > 0; ++row) {
      const int64_t turned = plan_.descending && state.turns ? args_.steps - length(row) : 0;
      for (int64_t place = 0; place < count; ++place) {
        bool hidden = false;
        const int64_t since = plan_.descending ? count + behind - 1 - place : place;
        for (int64_t t = length(row) - since; t < length(row); ++t) {
          const auto kind = state.hiding == Hiding::Resets ? MaskLaunch::Kind::Reset
                                                           : MaskLaunch::Kind::ResetReverse;
          hidden = hidden || (t >= 0 && mask(kind, t, row));
        }
        const int64_t slot = (place + count - turned % count) % count;
        const ElementwiseLaunch& one = launches[static_cast<size_t>(count - 1 - slot)];
        if (hidden) kernels_.run(one.kernel, one.accesses, {}, at, row);
      }
    }
  }

  void run_state(const StatePlan& state, const ElementwiseLaunch& launch, Position at) {
    for (const ElementwiseLaunch& one : launches_of(plan_, state, launch)) {
      const StateTurn turn = turn_of(plan_, state, one);
      for (int64_t row = 0; row < plan_.batch; ++row) {
        std::vector<Access> accesses = one.accesses;
        if (turn.steps > 0) accesses[turn.caller].column += turn.shift(args_.steps - length(row));
        kernels_.run(one.kernel, accesses, {}, at, row);
      }
    }
  }

  void run_stage(const Stage& stage, const Wave& wave) {
    const int64_t steps = wave.count(stage.lag);
    if (steps == 0) return;
    if (stage.domain == Domain::Sequence) {
      return run_launches(stage, wave.position(stage.lag), steps);
    }
    for (int64_t step = 0; step < steps; ++step) {
      run_launches(stage, wave.position(stage.lag, step), 1);
    }
  }

  void move_histories(uint32_t sweep) {
    for (const Buffer& buffer : plan_.buffers) {
      if (!keeps_history(buffer, sweep)) continue;
      std::byte* begin = arrays_.memory(buffer);
      const auto slot = static_cast<int64_t>(size_of(buffer.dtype)) * buffer.width * plan_.batch;
      const HistoryMove move = history_move(plan_);
      std::memmove(begin + move.to * slot, begin + move.from * slot,
                   static_cast<size_t>(buffer.history * slot));
    }
  }

  /// Rows of `steps` steps from a position on.
  void run_launches(const Stage& stage, Position at, int64_t steps) {
    for (const Launch& launch : stage.launches) {
      const Position first = goes_through_steps(launch) ? at : first_row_at(plan_, at, steps);
      std::visit(
          [&](const auto& l) {
            if (is_of_sweeps(stage.domain)) {
              run_launch(l, first, steps * plan_.batch);
            } else {
              run_launch(l, {}, once_rows(plan_, l));
            }
          },
          launch);
    }
  }

  // ---- Launches; row 0 is (t, 0) ----

  using Place = PlanArrays::Place;

  using ProductRows = KernelRunner::ProductRows;

  void run_launch(const ElementwiseLaunch& launch, Position at, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      kernels_.run(launch.kernel, launch.accesses, {}, at, row);
    }
  }

  void run_launch(const LoopLaunch& launch, Position at, int64_t rows) {
    for (int64_t step = 0; step < rows / plan_.batch; ++step) {
      for (int64_t row = 0; row < plan_.batch; ++row) {
        kernels_.run(launch.kernel, launch.accesses, {}, {at.chunk_start, at.step + step}, row);
      }
    }
  }

  /// In tiles of random lengths, row by row: the states before each tile (scan_tiles.h), and the
  /// kernel from these on.
  void run_launch(const ScanLaunch& launch, Position at, int64_t rows) {
    kernels_.read_earlier(launch.earlier);
    kernels_.add_up(launch.totals);
    const int64_t steps = rows / plan_.batch;
    const Kernel& kernel = plan_.kernels[launch.kernel];
    std::vector<int64_t> begins = {0};
    while (begins.back() < steps) {
      begins.push_back(std::min(steps, begins.back() + 1 + static_cast<int64_t>(random_() % 5)));
    }
    for (int64_t row = 0; row < plan_.batch; ++row) {
      const auto place = [&](const LoopCarry& carry) {
        return locate(launch.accesses[carry.load], at, row);
      };
      ScanStates first;
      for (const LoopCarry& carry : launch.carries) {
        std::vector<double>& elements = first.emplace_back();
        for (int64_t i = 0; i < kernel.length; ++i) elements.push_back(load(place(carry), i));
      }
      const auto values = [&](const ScanStates& states, int64_t step) {
        return kernels_.scan_values(launch, states, {at.chunk_start, at.step + step}, row);
      };
      const std::vector<ScanStates> before = scan_tiles(kernel, launch, begins, first, values);
      for (size_t tile = 0; tile + 1 < begins.size(); ++tile) {
        for (size_t carry = 0; carry < first.size(); ++carry) {
          for (int64_t i = 0; i < kernel.length; ++i) {
            store(place(launch.carries[carry]), i, before[tile][carry][static_cast<size_t>(i)]);
          }
        }
        for (int64_t step = begins[tile]; step < begins[tile + 1]; ++step) {
          kernels_.run(launch.kernel, launch.accesses, {}, {at.chunk_start, at.step + step}, row);
        }
      }
    }
    kernels_.read_earlier({});
    kernels_.add_up({});
  }

  void run_launch(const RecurrenceLaunch& launch, Position at, int64_t rows) {
    for (int64_t step = 0; step < rows / plan_.batch; ++step) {
      for (const FusedLaunch& phase : launch.phases) {
        kernels_.read_earlier(phase.earlier);
        run_launch(phase, {at.chunk_start, at.step + step}, plan_.batch);
      }
    }
    kernels_.read_earlier({});
  }

  /// All products before all kernels: nothing that a kernel writes is for them.
  void run_launch(const FusedLaunch& launch, Position at, int64_t rows) {
    std::vector<ProductRows> products(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      for (const FusedLaunch::Product& product : launch.products) {
        add_product(launch, product, at, row, products[static_cast<size_t>(row)]);
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      kernels_.run(launch.kernel, launch.accesses, products[static_cast<size_t>(row)], at, row);
    }
  }

  void add_product(const FusedLaunch& launch, const FusedLaunch::Product& product, Position at,
                   int64_t row, ProductRows& rows) {
    const int64_t length = plan_.kernels[launch.kernel].length;
    const Place left = locate(product.left, at, row);
    const Place weight = locate(product.weight, at, 0);
    for (uint32_t member = 0; member < product.members; ++member) {
      std::vector<double>& results = rows[product.first_argument + member];
      results.resize(static_cast<size_t>(length));
      for (int64_t j = 0; j < length; ++j) {
        const int64_t block = j / (length / product.blocks);
        double& sum = results[static_cast<size_t>(j)];
        for (int64_t k = 0; k < product.k; ++k) {
          sum += round_to(plan_.dtype, load(left, block * product.k + k)) *
                 load(weight, (member * length + j) * product.k + k);
        }
      }
    }
  }

  void run_launch(const GemmLaunch& launch, Position at, int64_t rows) {
    const Place weight = locate(launch.weight, at, 0);
    const int64_t stride = weight_stride(launch);
    for (int64_t row = 0; row < rows; ++row) {
      const Place left = locate(launch.left, at, row);
      const Place out = locate(launch.out, at, row);
      for (int64_t part = 0; part < launch.repeats * launch.blocks; ++part) {
        const int64_t block = part % launch.blocks;
        for (int64_t i = 0; i < launch.n; ++i) {
          double sum = launch.accumulate ? load(out, part * launch.n + i) : 0;
          for (int64_t k = 0; k < launch.k; ++k) {
            const int64_t element = launch.transposed ? k * stride + i : i * stride + k;
            double a = load(left, block * launch.k + k);
            double b = load(weight, part * launch.n * launch.k + element);
            if (launch.tf32) {
              a = cut_to_tf32(a);
              b = cut_to_tf32(b);
            }
            sum += a * b;
          }
          store(out, part * launch.n + i, sum);
        }
      }
    }
  }

  double term_of(const TotalLaunch& launch, Position at, int64_t row, int64_t part, int64_t i,
                 int64_t j) {
    const int64_t left = part * part_stride(launch, launch.left) + i;
    double a = load(locate(launch.left, at, row), left);
    if (launch.right.buffer == kNoBuffer) return a;
    const int64_t right = part * part_stride(launch, launch.right) + i / launch.m * launch.n + j;
    const int64_t before = step_at(at) + row / plan_.batch - 1;  // step
    if (launch.earlier && before < 0) return 0;
    if (launch.earlier) {
      return a * load(locate(launch.right, position_of(before), row % plan_.batch), right);
    }
    double b = launch.turned ? load(turned(launch.right, row_parts(launch), row, j), part)
                             : load(locate(launch.right, at, row), right);
    if (launch.in_parts) {
      a = cut_to_tf32(a);
      b = cut_to_tf32(b);
    }
    return a * b;
  }

  void run_launch(const TotalLaunch& launch, Position at, int64_t rows) {
    const Place out = locate(launch.out, {}, 0);
    for (int64_t i = 0; i < launch.blocks * launch.m; ++i) {
      for (int64_t j = 0; j < launch.n; ++j) {
        double sum = launch.accumulate ? load(out, i * launch.n + j) : 0;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t part = 0; part < row_parts(launch); ++part) {
            sum += term_of(launch, at, row, part, i, j);
          }
        }
        store(out, i * launch.n + j, sum);
      }
    }
  }

  void run_launch(const CopyLaunch& launch, Position at, int64_t /*rows*/) {
    const Place source = locate(launch.source, at, 0);
    const Place target = locate(launch.target, at, 0);
    for (int64_t row = 0; row < launch.rows; ++row) {
      for (int64_t column = 0; column < launch.columns; ++column) {
        int64_t from = row * launch.columns + column;
        int64_t to = launch.transposed ? column * launch.rows + row : from;
        if (launch.by_rows()) {
          from = row * launch.source.stride + column;
          to = row * launch.target.stride + column;
        }
        store(target, to, load(source, from));
      }
    }
  }

  void run_launch(const ReverseLaunch& launch, Position at, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t b = row % plan_.batch;
      const int64_t from = length(b) - 1 - (step_at(at) + row / plan_.batch);
      const Place target = locate(launch.target, at, row);
      for (int64_t i = 0; i < launch.width; ++i) {
        store(target, i, from < 0 ? 0 : load(locate(launch.source, position_of(from), b), i));
      }
    }
  }

  void run_launch(const EarlierLaunch& launch, Position at, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t b = row % plan_.batch;
      const int64_t from = step_at(at) + row / plan_.batch - 1;
      const Place target = locate(launch.target, at, row);
      for (int64_t i = 0; i < launch.width; ++i) {
        store(target, i, from < 0 ? 0 : load(locate(launch.source, position_of(from), b), i));
      }
    }
  }

  /// The row of a table that an integer names, if it has one.
  std::optional<int64_t> row_of(const Access& index, int64_t count, Position at, int64_t row) {
    const double name = load(locate(index, at, row), 0);
    return name >= 0 && name < static_cast<double>(count)
               ? std::optional(static_cast<int64_t>(name))
               : std::nullopt;
  }

  void run_launch(const RowsLaunch& launch, Position at, int64_t rows) {
    const Place table = locate(launch.table, {}, 0);
    for (int64_t row = 0; row < rows; ++row) {
      const std::optional<int64_t> name = row_of(launch.index, launch.count, at, row);
      const Place target = locate(launch.target, at, row);
      for (int64_t i = 0; i < launch.width; ++i) {
        store(target, i, name ? load(table, *name * launch.width + i) : 0);
      }
    }
  }

  void run_launch(const RowTotalLaunch& launch, Position at, int64_t rows) {
    const Place out = locate(launch.out, {}, 0);
    for (int64_t row = 0; row < rows; ++row) {
      const std::optional<int64_t> name = row_of(launch.index, launch.count, at, row);
      if (!name) continue;
      const Place value = locate(launch.value, at, row);
      for (int64_t i = 0; i < launch.width; ++i) {
        const int64_t to = *name * launch.width + i;
        store(out, to, load(out, to) + load(value, i));
      }
    }
  }

  void run_launch(const RealLaunch& launch, Position at, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      store(locate(launch.target, at, row), 0, load(locate(launch.source, at, row), 0));
    }
  }

  void run_launch(const SplitLaunch& launch, Position at, int64_t rows) {
    const float most = launch.weight ? kMostSplitWeight : kMostSplitLeft;
    for (int64_t row = 0; row < rows; ++row) {
      const Place source = locate(launch.source, at, row);
      for (int64_t i = 0; i < launch.part; ++i) {
        const auto value = static_cast<float>(i < launch.length ? load(source, i) : 0);
        const float rounded = round_to_tf32(value);
        const bool counts = std::abs(rounded) < most;
        const float large = counts ? rounded : 0;
        const float small = counts ? value - rounded : 0;
        const float three[] = {launch.weight ? small : large, launch.weight ? large : small,
                               rounded};
        for (int64_t part = 0; part < launch.parts; ++part) {
          const float element = launch.parts == 1 ? rounded : three[part];
          if (launch.turned) {
            store(turned(launch.target, launch.parts, row, i), part, element);
          } else {
            store(locate(launch.target, at, row), part * launch.part + i, element);
          }
        }
      }
    }
  }

  /// The parts of element `column` of a launch's row, in a buffer with columns in place of rows.
  Place turned(const Access& access, int64_t parts, int64_t row, int64_t column) {
    const Buffer& buffer = plan_.buffers[access.buffer];
    const int64_t element = (column * turned_rows(plan_) + row) * parts;
    return {buffer.dtype,
            arrays_.memory(buffer) + element * static_cast<int64_t>(size_of(buffer.dtype))};
  }

  /// To the nearest, away from zero where there are two; what is finite and not zero stays so.
  /// What products take.
  static double round_to(DType dtype, double value) {
    const auto number = static_cast<float>(value);
    if (dtype == DType::bf16) return float_from_bf16(bf16_from_float(number));
    if (dtype == DType::f16) return float_from_f16(f16_from_float(number));
    return value;
  }

  static float round_to_tf32(float value) {
    if (value == 0 || !std::isfinite(value)) return value;
    const uint32_t rounded = (std::bit_cast<uint32_t>(std::abs(value)) + 0x1000U) & 0xFFFFE000U;
    return std::copysign(std::bit_cast<float>(std::clamp(rounded, 0x2000U, 0x7F7FE000U)), value);
  }

  /// As tensor cores do.
  static double cut_to_tf32(double value) {
    if (std::isnan(value)) return value;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(value)) & 0xFFFFE000U);
  }

  void run_launch(const MaskLaunch& launch, Position at, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t t = step_at(at) + row / plan_.batch;
      bool value = mask(launch.kind, t, row % plan_.batch);
      for (int64_t back = 1; back <= std::min(launch.back, t); ++back) {
        value = value || mask(launch.kind, t - back, row % plan_.batch);
      }
      store(locate(launch.target, at, row), 0, value ? 1 : 0);
    }
  }

  Place locate(const Access& access, Position at, int64_t row) {
    return arrays_.locate(access, at, row);
  }

  int64_t step_at(Position at) const { return rnnc::step_at(plan_, args_.steps, at); }

  /// Of a step of the sequence.
  Position position_of(int64_t step) const {
    return {.step = plan_.descending ? args_.steps - 1 - step : step};
  }

  bool mask(MaskLaunch::Kind kind, int64_t t, int64_t b) const {
    switch (kind) {
      case MaskLaunch::Kind::Valid:
        return t < length(b);
      case MaskLaunch::Kind::Reset:
        return is_reset(t, b);
      case MaskLaunch::Kind::ResetReverse:
        break;
    }
    return t > 0 && t < length(b) && is_reset(length(b) - t, b);
  }

  int64_t length(int64_t b) const {
    if (sequences_.lengths.empty()) return args_.steps;
    return std::clamp<int64_t>(sequences_.lengths[static_cast<size_t>(b)], 0, args_.steps);
  }

  bool is_reset(int64_t t, int64_t b) const {
    return !sequences_.resets.empty() &&
           sequences_.resets[static_cast<size_t>(t * plan_.batch + b)] != 0;
  }

  const Plan& plan_;
  const InterpreterArgs& args_;
  const SequenceArgs& sequences_;
  PlanArrays arrays_;
  KernelRunner kernels_;
  std::minstd_rand random_;  // where a scan's tiles end
};

}  // namespace

InterpreterResult execute_plan(const Plan& plan, const InterpreterArgs& args,
                               const SequenceArgs& sequences) {
  return Executor(plan, args, sequences).run();
}

}  // namespace rnnc
