#include "codegen/cuda/persistent/recurrence_layout.h"

#include <algorithm>
#include <ranges>

#include "ir/base/arithmetic.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr int64_t kAlignment = 16;

}  // namespace

int RecurrencePhase::last_level() const {
  return levels.empty() ? 0 : *std::ranges::max_element(levels);
}

size_t RecurrencePhase::partial_of(uint32_t reduction) const {
  const RecurrencePartial wanted = rnnc::partial_of(*kernel, reduction, levels[reduction]);
  return static_cast<size_t>(std::ranges::find(partials, wanted) - partials.begin());
}

RecurrenceLayout::RecurrenceLayout(const Plan& plan, const RecurrenceLaunch& launch, size_t side)
    : plan_(plan),
      launch_(launch),
      tile_(launch.tile),
      side_(side),
      footprint_(shape_of(plan, launch.phases, launch.tile.sides), numbers_of(launch.tile)),
      exchange_(exchange_of(plan, launch)) {
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
  // Others read what the last step leaves in a Batch buffer.
  const bool has_steps = plan_.buffers[access.buffer].extent != Extent::Batch;
  const auto reads_it = [&](const auto& launch) {
    return has_steps && std::ranges::any_of(touches(plan_, launch), [&](const Touch& touch) {
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

bool RecurrenceLayout::keeps_invariants(const RecurrencePhase& phase) {
  return std::ranges::count(phase.sources, RecurrenceSource::Invariant) <= kMostInvariants;
}

size_t RecurrenceLayout::add_access(const Access& access) {
  accesses_.push_back(access);
  return accesses_.size() - 1;
}

void RecurrenceLayout::find_phases() {
  size_t partials = 0;
  const RecurrenceSide range = side_at(tile_.sides, side_, launch_.phases.size());
  for (size_t p = range.begin; p < range.end; ++p) {
    RecurrencePhase& phase = phases_.emplace_back();
    phase.index = p;
    phase.launch = &launch_.phases[p];
    phase.kernel = &plan_.kernels[phase.launch->kernel];
    phase.units = tile_.units.at(p);
    phase.span = footprint_.span(p);
    phase.segments = footprint_.shape.phases[p].segments;
    phase.k_blocks = tile_.k_blocks;
    uint32_t results = 0;
    for (const Kernel::Argument& argument : phase.kernel->arguments) {
      phase.results.push_back(argument.product ? results++ : 0);
    }
    find_products(phase);
    phase.levels = reduction_levels(*phase.kernel);
    phase.partials = partials_of(*phase.kernel);
    phase.first_partial = partials;
    partials += phase.partials.size();
  }
}

void RecurrenceLayout::find_products(RecurrencePhase& phase) const {
  const std::vector<size_t> common = common_sums(*phase.launch);
  for (size_t i = 0; i < phase.launch->products.size(); ++i) {
    const FusedLaunch::Product& product = phase.launch->products[i];
    const RecurrenceShape::Product& shape = footprint_.shape.phases[phase.index].products[i];
    RecurrenceProduct& made = phase.products.emplace_back();
    made.product = &product;
    const int64_t own_gates = product.members * phase.units;
    made.gates = tile_.k_blocks * own_gates;
    made.k_bytes = shape.k_bytes;
    made.pieces = footprint_.pieces(shape);
    made.tiles = footprint_.tiles(phase.index, shape);
    made.first = phase.results[product.first_argument];
    made.own = shape.exchanged && !shape.early;
    made.column = phase.columns;
    const bool has_sums = footprint_.has_sums(shape) != 0;
    made.sums = has_sums ? i : common[i];
    made.own_column = phase.own_gates;
    if (!has_sums) continue;
    phase.columns += kTileGates * made.tiles * footprint_.gate_warps;
    phase.own_gates += own_gates;
  }
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
  RecurrenceSources found =
      sources_of(plan_, launch_.phases, side_at(tile_.sides, side_, launch_.phases.size()));
  carries_ = std::move(found.carries);
  for (size_t p = 0; p < phases_.size(); ++p) {
    RecurrencePhase& phase = phases_[p];
    phase.sources = std::move(found.sources[p]);
    for (size_t i = 0; i < phase.sources.size(); ++i) {
      const bool is_product = phase.sources[i] == RecurrenceSource::Product;
      phase.accesses.push_back(is_product ? SIZE_MAX : add_access(phase.launch->accesses[i]));
    }
    put_off_gathers(phase);
    for (RecurrenceProduct& product : phase.products) {
      product.access = add_access(product.product->left);
      add_access(product.product->weight);
      const size_t slice = slice_of(slices_, *product.product);
      if (slice < slices_.size()) product.slice = slice;
    }
  }
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
  const auto [begin, end] = side_at(tile_.sides, side_, launch_.phases.size());
  const SharedBytes<int64_t> bytes = footprint_.shared_bytes(begin, end);
  for (const RecurrencePhase& phase : phases_) {
    for (const RecurrenceProduct& product : phase.products) {
      if (is_exact()) left_pieces_ = std::max(left_pieces_, product.pieces);
    }
  }
  sums_bytes_ = bytes.sums / kSumBuffers;
  block_sums_ = lefts() + bytes.lefts;
  statistics_ = block_sums_ + bytes.block_sums;
  local_ = statistics_ + bytes.statistics;
  // Of the exchange, which says where in it slices lie: of all sides, the most.
  clusters_ = local_ + kStepsKept * exchange_.local_bytes;
  barriers_ = clusters_ + exchange_.slots * exchange_.cluster_bytes;
  shared_bytes_ = barriers_ + exchange_.slots * std::ssize(slices_) * kBytesOfBarrier;
}

void RecurrenceLayout::place_carries() {
  if (!are_laps_alike()) return;
  for (auto& [place, carry] : carries_) {
    const int64_t bytes = footprint_.bytes_of_carry(phases_[carry.phase].index);
    carry.shared = shared_bytes_;
    carry.shared_before = shared_bytes_ + bytes;
    shared_bytes_ += bytes * carry.values();
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
  const auto found = std::ranges::find_if(staged_.inputs, [&](const RecurrenceInput& input) {
    return input.phase == phase.index && input.argument == argument;
  });
  return found == staged_.inputs.end() ? nullptr : &*found;
}

/// One product's after the other's: first to registers, then to shared memory, the rest to memory.
void RecurrenceLayout::place_weights() {
  const auto [begin, end] = side_at(tile_.sides, side_, launch_.phases.size());
  const int64_t all = footprint_.weight_tiles(begin, end);
  int64_t held = tile_.weight_registers / kTileWords;
  int64_t shared = all - held - tile_.streamed_words / kTileWords;
  const auto take = [](int64_t& room, int64_t tiles) {
    const int64_t taken = std::min(std::max<int64_t>(room, 0), tiles);
    room -= taken;
    return taken;
  };
  const int64_t tile_bytes = footprint_.bytes_of_tile();
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
