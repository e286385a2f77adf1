#include "tests/support/reference/plan_executor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "ir/plan/kernel_facts.h"
#include "ir/plan/launches/launches.h"
#include "ir/plan/state_steps.h"
#include "ir/plan/waves.h"
#include "tests/support/reference/plan_arrays.h"
#include "tests/support/reference/scan_tiles.h"

namespace rnnc {
namespace {

class Executor {
 public:
  Executor(const Plan& plan, const InterpreterArgs& args, const SequenceArgs& sequences)
      : plan_(plan), args_(args), sequences_(sequences), arrays_(plan, args) {}

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
      const ElementwiseLaunch& launch =
          arrays_.given(i) != nullptr ? state.init_given : state.init_declared;
      for (const ElementwiseLaunch& one : launches_of(plan_, state, launch)) {
        run_launch(one, {}, plan_.batch);
      }
    }
  }

  void end_states(uint32_t sweep, const Wave& wave) {
    for (const StatePlan& state : plan_.states) {
      if (state.sweep != sweep || !wave.ends(state.lag)) continue;
      for (const ElementwiseLaunch& one : launches_of(plan_, state, state.write_final)) {
        run_launch(one, wave.position(state.lag, wave.count(state.lag)), plan_.batch);
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

  /// A row of each argument that is a product.
  using ProductRows = std::map<uint32_t, std::vector<double>>;

  void run_launch(const ElementwiseLaunch& launch, Position at, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      run_kernel(launch.kernel, launch.accesses, {}, at, row);
    }
  }

  void run_launch(const LoopLaunch& launch, Position at, int64_t rows) {
    for (int64_t step = 0; step < rows / plan_.batch; ++step) {
      for (int64_t row = 0; row < plan_.batch; ++row) {
        run_kernel(launch.kernel, launch.accesses, {}, {at.chunk_start, at.step + step}, row);
      }
    }
  }

  /// In tiles of random lengths, row by row: the states before each tile (scan_tiles.h), and the
  /// kernel from these on.
  void run_launch(const ScanLaunch& launch, Position at, int64_t rows) {
    earlier_ = launch.earlier;
    const int64_t steps = rows / plan_.batch;
    const Kernel& kernel = plan_.kernels[launch.kernel];
    std::vector<int64_t> begins = {0};
    while (begins.back() < steps) {
      begins.push_back(std::min(steps, begins.back() + 1 + static_cast<int64_t>(random_() % 5)));
    }
    for (int64_t row = 0; row < plan_.batch; ++row) {
      const auto place = [&](const LoopLaunch::Carry& carry) {
        return locate(launch.accesses[carry.load], at, row);
      };
      ScanStates first;
      for (const LoopLaunch::Carry& carry : launch.carries) {
        std::vector<double>& elements = first.emplace_back();
        for (int64_t i = 0; i < kernel.length; ++i) elements.push_back(load(place(carry), i));
      }
      const auto values = [&](const ScanStates& states, int64_t step) {
        return scan_values(launch, states, {at.chunk_start, at.step + step}, row);
      };
      const std::vector<ScanStates> before = scan_tiles(kernel, launch, begins, first, values);
      for (size_t tile = 0; tile + 1 < begins.size(); ++tile) {
        for (size_t carry = 0; carry < first.size(); ++carry) {
          for (int64_t i = 0; i < kernel.length; ++i) {
            store(place(launch.carries[carry]), i, before[tile][carry][static_cast<size_t>(i)]);
          }
        }
        for (int64_t step = begins[tile]; step < begins[tile + 1]; ++step) {
          run_kernel(launch.kernel, launch.accesses, {}, {at.chunk_start, at.step + step}, row);
        }
      }
    }
    earlier_.clear();
  }

  /// Of each instruction of the kernel at a step, with these states and without stores.
  std::vector<std::vector<double>> scan_values(const ScanLaunch& launch, const ScanStates& states,
                                               Position at, int64_t row) {
    const Kernel& kernel = plan_.kernels[launch.kernel];
    std::vector<std::vector<double>> values;
    for (const Instruction& instruction : kernel.body) {
      const auto carry =
          std::ranges::find(launch.carries, instruction.argument, &LoopLaunch::Carry::load);
      if (instruction.kind == Instruction::Kind::Load && carry != launch.carries.end()) {
        values.push_back(states[static_cast<size_t>(carry - launch.carries.begin())]);
      } else if (instruction.kind == Instruction::Kind::Store) {
        values.push_back(values[instruction.operands[0]]);
      } else {
        const Access access = access_of(instruction, launch.accesses);
        values.push_back(run_instruction(kernel, instruction, access, values, at, row));
      }
    }
    return values;
  }

  void run_launch(const RecurrenceLaunch& launch, Position at, int64_t rows) {
    for (int64_t step = 0; step < rows / plan_.batch; ++step) {
      for (const FusedLaunch& phase : launch.phases) {
        run_launch(phase, {at.chunk_start, at.step + step}, plan_.batch);
      }
    }
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
      run_kernel(launch.kernel, launch.accesses, products[static_cast<size_t>(row)], at, row);
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
          sum += load(left, block * product.k + k) *
                 load(weight, (member * length + j) * product.k + k);
        }
      }
    }
  }

  void run_kernel(uint32_t id, const std::vector<Access>& accesses, const ProductRows& products,
                  Position at, int64_t row) {
    const Kernel& kernel = plan_.kernels[id];
    KernelRun run{.kernel = kernel, .accesses = accesses, .at = at, .row = row};
    run.loops = loops_of(kernel);
    run.values.resize(kernel.body.size());
    run.elements.resize(kernel.body.size());
    uint32_t next = 0;
    const auto step = [&](uint32_t i) {
      const Instruction& instruction = kernel.body[i];
      const auto product = products.find(instruction.argument);
      if (instruction.kind == Instruction::Kind::Load && product != products.end()) {
        run.values[i] = product->second;
        for (double& result : run.values[i]) result = round_compute(result);
      } else {
        run_instruction(run, i);
      }
    };
    for (const Kernel::Loop& loop : kernel.loops) {
      for (; next < loop.begin; ++next) step(next);
      run_loop(run, loop);
      next = loop.end;
    }
    for (; next < kernel.body.size(); ++next) step(next);
  }

  /// A kernel at a row.
  struct KernelRun {
    const Kernel& kernel;
    const std::vector<Access>& accesses;
    Position at;
    int64_t row = 0;
    std::vector<uint32_t> loops = {};
    std::vector<std::vector<double>> values = {};  // by instruction, as they last were
    std::vector<std::vector<std::vector<double>>> elements = {};  // of loops: at each l
    int64_t element = 0;                                          // l of the loop that runs
  };

  void run_loop(KernelRun& run, const Kernel::Loop& loop) {
    const std::vector<Instruction>& body = run.kernel.body;
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      run.elements[i].resize(static_cast<size_t>(loop.count));
      if (body[i].kind == Instruction::Kind::Carried) take(run, i, body[i].operands[0]);
    }
    for (int64_t step = 0; step < loop.count; ++step) {
      run.element = loop.descending ? loop.count - 1 - step : step;
      for (uint32_t i = loop.begin; i < loop.end; ++i) {
        if (body[i].kind != Instruction::Kind::Carried) run_instruction(run, i);
        run.elements[i][static_cast<size_t>(run.element)] = run.values[i];
      }
      for (uint32_t i = loop.begin; i < loop.end; ++i) {
        if (body[i].kind != Instruction::Kind::Carried) continue;
        take(run, i, body[i].operands[1]);
      }
    }
    run.element = 0;
  }

  /// Gives instruction `i` the value of `operand`, which may be one for the whole row.
  static void take(KernelRun& run, uint32_t i, uint32_t operand) {
    run.values[i] = run.values[operand];
    const bool spreads = run.kernel.body[i].vector && !run.kernel.body[operand].vector;
    if (spreads) run.values[i].resize(static_cast<size_t>(run.kernel.length), run.values[i][0]);
  }

  void run_instruction(KernelRun& run, uint32_t i) {
    const Instruction& instruction = run.kernel.body[i];
    if (instruction.kind == Instruction::Kind::Last) {
      take(run, i, instruction.operands[0]);
      return;
    }
    for (const uint32_t operand : instruction.operands) {
      const uint32_t from = run.loops[operand];
      if (from == kNoLoop || from == run.loops[i]) continue;
      run.values[operand] = run.elements[operand][static_cast<size_t>(run.element)];
    }
    Access access = access_of(instruction, run.accesses);
    access.column += run.element * (instruction.vector ? run.kernel.length : 1);
    run.values[i] = run_instruction(run.kernel, instruction, access, run.values, run.at, run.row);
  }

  /// Of what is loaded or stored.
  static Access access_of(const Instruction& instruction, const std::vector<Access>& accesses) {
    const bool moves =
        instruction.kind == Instruction::Kind::Load || instruction.kind == Instruction::Kind::Store;
    return moves ? accesses[instruction.argument] : Access();
  }

  std::vector<double> run_instruction(const Kernel& kernel, const Instruction& instruction,
                                      const Access& access,
                                      const std::vector<std::vector<double>>& values, Position at,
                                      int64_t row) {
    std::vector<double> result(static_cast<size_t>(instruction.vector ? kernel.length : 1));
    const auto operand = [&](size_t index, size_t i) {
      if (index >= instruction.operands.size()) return 0.0;
      const uint32_t id = instruction.operands[index];
      return kernel.body[id].vector ? values[id][i] : values[id][0];
    };
    switch (instruction.kind) {
      case Instruction::Kind::Constant:
        result[0] = round_compute(instruction.value);
        break;
      case Instruction::Kind::Load:
      case Instruction::Kind::Store: {
        if (std::ranges::count(earlier_, instruction.argument) > 0) {
          if (step_at(at) == 0) break;  // zero
          at = position_of(step_at(at) - 1);
        }
        const Place place = locate(access, at, row);
        for (size_t i = 0; i < result.size(); ++i) {
          if (instruction.kind == Instruction::Kind::Load) {
            result[i] = load(place, static_cast<int64_t>(i));
          } else {
            store(place, static_cast<int64_t>(i), operand(0, i));
          }
        }
        break;
      }
      case Instruction::Kind::Scalar:
        for (size_t i = 0; i < result.size(); ++i) {
          result[i] =
              round_compute(evaluate(instruction.op, operand(0, i), operand(1, i), operand(2, i)));
        }
        break;
      case Instruction::Kind::Carried:
      case Instruction::Kind::Last:
        break;  // of loops, and run with them
      case Instruction::Kind::Reduce: {
        std::vector<double> elements;
        elements.reserve(static_cast<size_t>(kernel.length));
        for (int64_t i = 0; i < kernel.length; ++i) {
          elements.push_back(operand(0, static_cast<size_t>(i)));
        }
        result[0] = round_compute(reduce(instruction.op, elements));
        break;
      }
    }
    return result;
  }

  static double reduce(Op op, const std::vector<double>& elements) {
    const auto count = static_cast<double>(elements.size());
    double sum = 0;
    double extreme = elements[0];
    for (double element : elements) {
      sum += element;
      extreme = evaluate(op == Op::ReduceMin ? Op::Min : Op::Max, extreme, element, 0);
    }
    if (op == Op::Sum) return sum;
    if (op == Op::Mean) return sum / count;
    if (op != Op::Var) return extreme;
    double squares = 0;
    for (double element : elements) squares += (element - sum / count) * (element - sum / count);
    return squares / count;
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
    double b = load(locate(launch.right, at, row), right);
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
      const Place target = locate(launch.target, at, row);
      for (int64_t i = 0; i < launch.part; ++i) {
        const auto value = static_cast<float>(i < launch.length ? load(source, i) : 0);
        const float rounded = round_to_tf32(value);
        const bool counts = std::abs(rounded) < most;
        const float large = counts ? rounded : 0;
        const float small = counts ? value - rounded : 0;
        store(target, i, launch.weight ? small : large);
        store(target, launch.part + i, launch.weight ? large : small);
        store(target, 2 * launch.part + i, rounded);
      }
    }
  }

  /// To the nearest, away from zero where there are two; what is finite and not zero stays so.
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
      const bool value = mask(launch.kind, step_at(at) + row / plan_.batch, row % plan_.batch);
      store(locate(launch.target, at, row), 0, value ? 1 : 0);
    }
  }

  Place locate(const Access& access, Position at, int64_t row) {
    return arrays_.locate(access, at, row);
  }

  double round_compute(double value) const {
    return compute_type(plan_.dtype) == DType::f64 ? value : static_cast<float>(value);
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
  std::minstd_rand random_;        // where a scan's tiles end
  std::vector<uint32_t> earlier_;  // of a scan that runs
};

}  // namespace

InterpreterResult execute_plan(const Plan& plan, const InterpreterArgs& args,
                               const SequenceArgs& sequences) {
  return Executor(plan, args, sequences).run();
}

}  // namespace rnnc
