#include "codegen/cuda/persistent/recurrence_layout.h"

#include <algorithm>
#include <ranges>

#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr int64_t kStatisticBytes = 8;
constexpr int64_t kBarrierBytes = 8;
constexpr int64_t kAlignment = 16;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

RecurrencePartial::Kind partial_kind(Op op) {
  switch (op) {
    case Op::ReduceMin:
      return RecurrencePartial::Kind::Least;
    case Op::ReduceMax:
      return RecurrencePartial::Kind::Greatest;
    default:
      return RecurrencePartial::Kind::Moments;
  }
}

/// Whether a phase that loads finds what was stored in the same step.
bool is_made_before(size_t loads, size_t stores, const Access& access) {
  return stores < loads && access.delay == 0;
}

}  // namespace

int64_t RecurrencePhase::blocks() const {
  return segments * ceil_div(segment_length(), units);
}

int RecurrencePhase::last_level() const {
  return levels.empty() ? 0 : *std::ranges::max_element(levels);
}

size_t RecurrencePhase::partial_of(uint32_t reduction) const {
  const Instruction& instruction = kernel->body[reduction];
  const uint32_t value = instruction.operands[0];
  const RecurrencePartial wanted = {partial_kind(instruction.op), value, levels[reduction]};
  return static_cast<size_t>(std::ranges::find(partials, wanted) - partials.begin());
}

RecurrenceLayout::RecurrenceLayout(const Plan& plan, const RecurrenceLaunch& launch, size_t side)
    : plan_(plan),
      launch_(launch),
      tile_(launch.tile),
      side_(side),
      exchange_(exchange_of(plan, launch)) {
  group_rows_ = ceil_div(plan.batch, tile_.groups);
  reduces_ = count_reductions(plan, launch.phases) > 0;
  passes_ = ceil_div(group_rows_, tile_.rows);
  find_phases();
  find_slices();
  std::ranges::copy_if(exchange_.gathered, std::back_inserter(gathered_),
                       [side](const auto& gathered) { return gathered.side == side; });
  find_sources();
  if (launch.stream != kNoBuffer) add_access({.buffer = launch.stream});
  if (launch.exchange != kNoBuffer) {
    add_access({.buffer = launch.exchange, .stride = plan.buffers[launch.exchange].width});
  }
  place_in_shared_memory();
  place_carries();
  place_weights();
  place_inputs();
}

bool RecurrenceLayout::is_stored_at_last(const Access& access) const {
  if (tile_.streamed_words > 0) return false;
  if (plan_.buffers[access.buffer].placement == Placement::Caller) return false;
  const auto reads_it = [&](const auto& launch) {
    return std::ranges::any_of(touches(plan_, launch), [&](const Touch& touch) {
      return !touch.write && touch.access.buffer == access.buffer;
    });
  };
  for (const Stage& stage : plan_.stages) {
    for (const Launch& launch : stage.launches) {
      const bool own = std::get_if<RecurrenceLaunch>(&launch) == &launch_;
      if (!own && reads_it(launch)) return false;
    }
  }
  // Its own products have the values of the exchange, its kernels those of registers.
  for (const RecurrencePhase& phase : phases_) {
    for (size_t i = 0; i < phase.sources.size(); ++i) {
      const bool loads = !phase.kernel->arguments[i].written &&
                         phase.sources[i] == RecurrenceSource::Memory &&
                         phase.launch->accesses[i].buffer == access.buffer;
      if (loads) return false;
    }
  }
  return true;
}

int64_t RecurrenceLayout::span_of(int64_t units) const {
  const bool few = tile_.rows * units <= threads();
  const bool are_words = plan_.dtype == DType::f32;
  const bool one =
      tile_.own_sums ? own_sums() == 1 : few && (tile_.clusters || reduces_ || are_words);
  return one ? 1 : std::min(kMostSpan, units);
}

int64_t RecurrenceLayout::rows_at_once(const RecurrencePhase& phase) const {
  return threads() / (phase.units / phase.span);
}

int64_t RecurrenceLayout::items(const RecurrencePhase& phase) const {
  if (tile_.own_sums) return tile_.rows / kExchangeTileRows * own_rows();
  return ceil_div(tile_.rows, rows_at_once(phase));
}

int64_t RecurrenceLayout::own_sums() const {
  if (!tile_.own_sums) return 0;
  if (group_rows_ > kLanesOfGate) return 4;
  return group_rows_ > kLanesOfGate / 2 ? 2 : 1;
}

bool RecurrenceLayout::is_exact() const {
  return plan_.dtype == DType::f32 && !plan_.tf32 && !tile_.split;
}

int64_t RecurrenceLayout::sum_rows() const {
  return tile_.streamed_words == 0 ? tile_.rows
                                   : 2 * ceil_div(std::min(tile_.rows, group_rows_), 2);
}

bool RecurrenceLayout::keeps_invariants(const RecurrencePhase& phase) {
  return std::ranges::count(phase.sources, RecurrenceSource::Invariant) <= kMostInvariants;
}

size_t RecurrenceLayout::add_access(const Access& access) {
  accesses_.push_back(access);
  return accesses_.size() - 1;
}

void RecurrenceLayout::find_phases() {
  size_t partials = 0;
  const std::vector<int64_t> segments = phase_segments(plan_, launch_.phases);
  const auto [begin, end] = side_at(tile_.sides, side_, launch_.phases.size());
  for (size_t i = begin; i < end; ++i) {
    const FusedLaunch& fused = launch_.phases[i];
    RecurrencePhase& phase = phases_.emplace_back();
    phase.launch = &fused;
    phase.kernel = &plan_.kernels[fused.kernel];
    phase.units = tile_.units.at(i);
    phase.span = span_of(phase.units);
    phase.segments = segments[i];
    uint32_t results = 0;
    for (const Kernel::Argument& argument : phase.kernel->arguments) {
      phase.results.push_back(argument.product ? results++ : 0);
    }
    for (const FusedLaunch::Product& product : fused.products) {
      RecurrenceProduct& made = phase.products.emplace_back();
      made.product = &product;
      made.gates = product.members * phase.units;
      made.k_bytes = product.k * static_cast<int64_t>(size_of(plan_.dtype));
      made.pieces = ceil_div(ceil_div(made.k_bytes, kExchangePieceBytes), tile_.k_warps);
      made.tiles = ceil_div(ceil_div(made.gates, kTileGates), tile_.warps / tile_.k_warps);
      made.first = phase.results[product.first_argument];
    }
    const std::vector<size_t> common = common_sums(fused);
    for (size_t product = 0; product < phase.products.size(); ++product) {
      RecurrenceProduct& made = phase.products[product];
      made.column = phase.columns;
      made.sums = is_exact() ? product : common[product];
      if (made.sums == product) {
        phase.columns += kTileGates * made.tiles * (tile_.warps / tile_.k_warps);
      }
    }
    find_reductions(phase);
    phase.first_partial = partials;
    partials += phase.partials.size();
  }
}

void RecurrenceLayout::find_reductions(RecurrencePhase& phase) {
  phase.levels = reduction_levels(*phase.kernel);
  const std::vector<Instruction>& body = phase.kernel->body;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i].kind != Kind::Reduce) continue;
    const RecurrencePartial partial = {partial_kind(body[i].op), body[i].operands[0],
                                       phase.levels[i]};
    if (std::ranges::find(phase.partials, partial) == phase.partials.end()) {
      phase.partials.push_back(partial);
    }
  }
  std::ranges::stable_sort(phase.partials, {}, &RecurrencePartial::level);
}

void RecurrenceLayout::find_slices() {
  for (const RecurrenceExchange::Slice& slice : exchange_.slices) {
    const bool touched = std::ranges::any_of(phases_, [&](const RecurrencePhase& phase) {
      return std::ranges::any_of(touches(plan_, *phase.launch), [&](const Touch& touch) {
        return slice.holds(touch.access, touch.count);
      });
    });
    if (!touched || (slice.local && slice.side != side_)) continue;
    slices_.push_back(slice);
    const bool in_halves = slice.local && own_sums() == 1;  // as lanes have them
    whole_.push_back(!in_halves && stores_whole_words(slice));
  }
}

/// Two elements of a thread, or of a lane and the next, are an even one and the one after it: they
/// are a word if that holds within the slice's vectors too, and no other phase, of whatever side,
/// has one of them.
bool RecurrenceLayout::stores_whole_words(const RecurrenceExchange::Slice& slice) const {
  const std::vector<int64_t> segments = phase_segments(plan_, launch_.phases);
  bool whole = slice.k % 2 == 0 || slice.blocks == 1;
  for (size_t p = 0; p < launch_.phases.size(); ++p) {
    const FusedLaunch& phase = launch_.phases[p];
    const Kernel& kernel = plan_.kernels[phase.kernel];
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      const Access& access = phase.accesses[i];
      const int64_t count = argument.vector ? kernel.length : 1;
      if (!argument.written || !slice.holds(access, count)) continue;
      whole = whole && argument.vector && tile_.units[p] % 2 == 0 &&
              (access.column - slice.column) % 2 == 0 &&
              (segments[p] == 1 || kernel.length / segments[p] % 2 == 0);
    }
  }
  return whole;
}

void RecurrenceLayout::find_sources() {
  std::map<RecurrencePlace, size_t> stored;  // by which phase
  for (size_t p = 0; p < phases_.size(); ++p) {
    const std::vector<Kernel::Argument>& arguments = phases_[p].kernel->arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Access& access = phases_[p].launch->accesses[i];
      if (arguments[i].written) stored.emplace(RecurrencePlace(access.buffer, access.column), p);
    }
  }
  for (size_t p = 0; p < phases_.size(); ++p) {
    RecurrencePhase& phase = phases_[p];
    for (uint32_t i = 0; i < phase.kernel->arguments.size(); ++i) find_source(p, i, stored);
    put_off_gathers(phase);
    for (RecurrenceProduct& product : phase.products) {
      product.access = add_access(product.product->left);
      add_access(product.product->weight);
      const size_t slice = slice_of(slices_, *product.product);
      if (slice < slices_.size()) product.slice = slice;
      product.own = std::ranges::any_of(stored, [&](const auto& place) {
        return place.first.first == product.product->left.buffer;
      });
    }
  }
}

void RecurrenceLayout::find_source(size_t p, uint32_t argument,
                                   const std::map<RecurrencePlace, size_t>& stored) {
  RecurrencePhase& phase = phases_[p];
  const Kernel::Argument& of = phase.kernel->arguments[argument];
  const Access& access = phase.launch->accesses[argument];
  phase.sources.push_back(RecurrenceSource::Product);
  phase.accesses.push_back(of.product ? SIZE_MAX : add_access(access));
  if (of.product) return;
  RecurrenceSource& source = phase.sources.back();
  const auto index = static_cast<size_t>(phase.launch - launch_.phases.data());
  if (is_gathered(plan_, launch_.phases, index, argument)) {
    source = RecurrenceSource::Gather;
    return;
  }
  const RecurrencePlace place(access.buffer, access.column);
  const auto found = stored.find(place);
  if (of.written || found == stored.end() || access.delay > 1) {
    const bool is_fixed = plan_.buffers[access.buffer].extent == Extent::Invariant;
    source = is_fixed ? RecurrenceSource::Invariant : RecurrenceSource::Memory;
    return;
  }
  const bool before = access.delay == 1 && found->second < p;
  source = before ? RecurrenceSource::Before : RecurrenceSource::Last;
  RecurrenceCarry& carry = carries_[place];
  carry.phase = found->second;
  carry.before = carry.before || before;
  if (is_made_before(p, found->second, access)) return;
  carry.initial = true;
  carry.initial_phase = p;
  carry.initial_argument = argument;
}

/// What is gathered is awaited where it is needed, so that parts of reductions which do not need it
/// are on their way meanwhile.
void RecurrenceLayout::put_off_gathers(RecurrencePhase& phase) {
  const std::vector<Instruction>& body = phase.kernel->body;
  std::vector<bool> waits(body.size());
  std::vector<int> first_use(body.size(), phase.last_level());
  for (uint32_t id = 0; id < body.size(); ++id) {
    const Instruction& instruction = body[id];
    waits[id] = instruction.kind == Kind::Load
                    ? phase.sources[instruction.argument] == RecurrenceSource::Gather
                    : instruction.kind == Kind::Scalar &&
                          std::ranges::any_of(instruction.operands,
                                              [&](uint32_t operand) { return waits[operand]; });
  }
  for (uint32_t id = static_cast<uint32_t>(body.size()); id-- > 0;) {
    if (waits[id]) phase.levels[id] = std::max(phase.levels[id], first_use[id]);
    for (const uint32_t operand : body[id].operands) {
      first_use[operand] = std::min(first_use[operand], phase.levels[id]);
    }
  }
}

void RecurrenceLayout::place_in_shared_memory() {
  int64_t columns = 0;
  size_t partials = 0;
  for (const RecurrencePhase& phase : phases_) {
    columns = std::max(columns, phase.columns);
    partials = std::max(partials, phase.partials.size());
    for (const RecurrenceProduct& product : phase.products) {
      if (is_exact()) left_pieces_ = std::max(left_pieces_, product.pieces);
    }
  }
  sums_bytes_ = tile_.own_sums ? 0 : tile_.k_warps * sum_rows() * (columns + 4) * 4;
  statistics_ = lefts() + tile_.warps * left_pieces_ * 8 * kExchangePieceBytes;
  local_ = statistics_ + static_cast<int64_t>(partials) * tile_.rows * kStatisticBytes;
  clusters_ = local_ + 2 * exchange_.local_bytes;
  barriers_ = clusters_ + exchange_.slots * exchange_.cluster_bytes;
  const int64_t barriers = exchange_.slots * std::ssize(slices_);
  shared_bytes_ = barriers_ + ceil_div(barriers * kBarrierBytes, kAlignment) * kAlignment;
}

void RecurrenceLayout::place_carries() {
  if (!are_passes_alike()) return;
  for (auto& [place, carry] : carries_) {
    const RecurrencePhase& phase = phases_[carry.phase];
    const int64_t bytes = passes_ * items(phase) * phase.span * threads() * 4;
    carry.shared = shared_bytes_;
    carry.shared_before = shared_bytes_ + bytes;
    shared_bytes_ += bytes * (carry.before ? 2 : 1);
  }
}

void RecurrenceLayout::place_inputs() {
  if (tile_.input_steps == 0) return;
  staged_ = inputs_of(plan_, launch_.phases, tile_, side_);
  inputs_ = ceil_div(shared_bytes_, kAlignment) * kAlignment;
  shared_bytes_ = inputs_ + tile_.input_steps * staged_.step_bytes;
}

const RecurrenceInput* RecurrenceLayout::input(const RecurrencePhase& phase,
                                               uint32_t argument) const {
  const auto index = static_cast<size_t>(phase.launch - launch_.phases.data());
  const auto found = std::ranges::find_if(staged_.inputs, [&](const RecurrenceInput& input) {
    return input.phase == index && input.argument == argument;
  });
  return found == staged_.inputs.end() ? nullptr : &*found;
}

/// One product's after the other's: first to registers, then to shared memory, the rest to memory.
void RecurrenceLayout::place_weights() {
  int64_t all = 0;
  for (const RecurrencePhase& phase : phases_) {
    for (const RecurrenceProduct& product : phase.products) all += product.pieces * product.tiles;
  }
  int64_t held = tile_.weight_registers / kTileWords;
  int64_t shared = all - held - tile_.streamed_words / kTileWords;
  const auto take = [](int64_t& room, int64_t tiles) {
    const int64_t taken = std::min(std::max<int64_t>(room, 0), tiles);
    room -= taken;
    return taken;
  };
  const int64_t tile_bytes = kTileWords * 4 * threads();
  for (RecurrencePhase& phase : phases_) {
    // Others wait longer for what they multiply with: they have time to load weights.
    for (RecurrenceProduct& product : std::views::reverse(phase.products)) {
      const int64_t tiles = product.pieces * product.tiles;
      product.held = take(held, tiles);
      product.shared = take(shared, tiles - product.held);
      product.spill = shared_bytes_;
      product.stream = stream_bytes_;
      shared_bytes_ += product.shared * tile_bytes;
      stream_bytes_ += (tiles - product.held - product.shared) * tile_bytes;
    }
  }
}

}  // namespace rnnc
