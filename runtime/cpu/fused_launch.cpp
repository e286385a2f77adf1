// Products of a step with the elementwise work on their results.
//
// The columns of a launch are units: a column of the kernel, and of each of its members, which are
// the products' results that it reads. They are taken in tiles of one or a few vectors of units,
// the last of which may have fewer. A tile's panels have the members interleaved vector by vector:
//
//     i0…i15 f0…f15 o0…o15 c0…c15 | i16…i31 …          (four members, vectors of 16 units)
//
// so that the results of a tile lie in scratch, small enough for the first level cache, with all
// that a unit needs close together. The kernel reads argument m of unit vector q at q * members +
// m. Where the columns end within a vector of units, the members of those that are left follow one
// another, so that H = 200 is 12.5 vectors of work, not 13:
//
//     … | i192…i199 f192…f199 o192…o199 c192…c199
//
// Products that add to the same arguments form a group. Where products add to some of another's
// arguments only, all of these are groups of one: nothing may be added to the others, not even zero
// times infinity.
// Blocks: the columns are cut where any product's block ends, and tiles begin anew there.
#include <algorithm>
#include <array>
#include <numeric>

#include "codegen/cpu/kernel_cost.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/prepared_launch.h"

namespace rnnc::cpu {
namespace {

/// Bytes of products' results at a time.
constexpr int64_t kResultBytes = 16 << 10;
/// Few, so that of a row the kernel has several vectors at a time; whole tiles of 3, 4 or 6 rows.
constexpr int64_t kRowsAtOnce = 24;

class FusedWork : public PreparedLaunch {
 public:
  FusedWork(const Plan& plan, const CpuModule& module, const FusedLaunch& launch, int threads)
      : gemm_(module.gemm()),
        dtype_(plan.dtype),
        element_(static_cast<int64_t>(size_of(plan.dtype))),
        function_(module.kernels()[launch.kernel]) {
    const Kernel& kernel = plan.kernels[launch.kernel];
    columns = kernel.length;
    accesses = launch.accesses;
    operations_per_row = static_cast<double>(operations_per_vector(kernel) * kernel.length);
    find_groups(launch);
    find_tiles(plan, launch, threads);
    for (size_t i = 0; i < launch.products.size(); ++i) add_product(launch.products[i], i);
    find_strides(launch);
  }

  void run(void* const* addresses, const Part& part, std::byte* scratch) const override {
    if (segments_ == 1) {
      run_segment(0, part.tile_begin, part.tile_end, addresses, part, scratch);
      return;
    }
    for (int64_t segment = part.tile_begin; segment < part.tile_end; ++segment) {
      run_segment(segment, 0, segment_tiles_, addresses, part, scratch);
    }
  }

  double slowdown(int64_t rows) const override {
    if (has_large_tiles(gemm_)) return 1;
    rows = std::clamp<int64_t>(rows, 1, kRowsAtOnce);
    double cycles = 0;
    double sums = 0;
    for (const Group& group : groups_) {
      cycles += term_cycles(gemm_, group.panels, rows);
      sums += static_cast<double>(rows * group.panels.vectors());
    }
    return cycles / (sums / 2);
  }

  void pack(void* const* addresses, int64_t tile) const override {
    for (const Product& product : products_) {
      const auto* weight = static_cast<const std::byte*>(addresses[product.operand]);
      if (segments_ == 1) {
        pack_tile(product, weight, tile_at(0, tile));
        continue;
      }
      for (int64_t i = 0; i < segment_tiles_; ++i) pack_tile(product, weight, tile_at(tile, i));
    }
  }

 private:
  /// Arguments [first, first + members), results of the same products.
  struct Group {
    uint32_t first = 0;
    uint32_t members = 0;
    int64_t offset = 0;  // bytes into a row's results of a tile, if those of groups were together
    Panels panels = {};  // of a tile
    Panels last_panels = {};  // of a segment's last
    bool written = false;     // while products are added: by an earlier one
  };
  /// A product's part of a group.
  struct Product {
    size_t group = 0;
    size_t operand = 0;         // of the launch's products
    uint32_t first_member = 0;  // of the weight's
    bool accumulate = false;
    int64_t k = 0;
    int64_t left_stride = 0;
    int64_t segments_per_block = 1;
    int64_t vector_bytes = 0;  // packed, of a vector of units
    int64_t packed_offset = 0;
  };
  /// A tile of a segment.
  struct Tile {
    int64_t segment = 0;
    int64_t first = 0;    // vector of units of the segment
    int64_t vectors = 0;  // of units
  };
  /// Rows and tiles whose results are in scratch at a time; all rows of one group before the next.
  struct Block {
    int64_t row_begin = 0, row_end = 0;
    int64_t rows = 0, tiles = 0;  // at most
    std::byte* scratch = nullptr;
  };

  void find_groups(const FusedLaunch& launch);
  void find_tiles(const Plan& plan, const FusedLaunch& launch, int threads);
  PanelShape panel_shape(int64_t vectors) const { return {vectors, rows_at_once_, greatest_k_}; }
  double tile_cost(int64_t unit_vectors, int64_t threads) const;
  void add_product(const FusedLaunch::Product& source, size_t operand);
  void find_strides(const FusedLaunch& launch);
  void pack_tile(const Product& product, const std::byte* weight, const Tile& tile) const;
  void run_segment(int64_t segment, int64_t tile_begin, int64_t tile_end, void* const* addresses,
                   const Part& part, std::byte* scratch) const;
  void multiply(const Product& product, const std::byte* left, const Tile& tile, int64_t place,
                const Block& block) const;
  void apply_kernel(const Block& block, int64_t begin, int64_t end, void* const* addresses) const;

  size_t arguments() const { return strides_.size() / 3; }
  bool ends_segment(const Tile& tile) const {
    return tile.first + tile.vectors == segment_vectors_;
  }
  /// Vectors of units in a tile with a place for each lane.
  int64_t whole_vectors(const Tile& tile) const {
    return ends_segment(tile) && tail_units_ > 0 ? tile.vectors - 1 : tile.vectors;
  }
  /// A tile's vectors of a group, in panels.
  const Panels& panels_of(const Group& group, const Tile& tile) const {
    return ends_segment(tile) ? group.last_panels : group.panels;
  }
  /// Columns of a group's results in a whole tile.
  int64_t tile_width(const Group& group) const {
    return unit_vectors_ * group.members * gemm_.lanes;
  }
  Tile tile_at(int64_t segment, int64_t tile) const {
    const int64_t first = tile * unit_vectors_;
    return {segment, first, std::min(unit_vectors_, segment_vectors_ - first)};
  }
  std::byte* packed_tile(const Product& product, const Tile& tile) const {
    return packed + product.packed_offset +
           (tile.segment * segment_vectors_ + tile.first) * product.vector_bytes;
  }
  std::byte* results(const Group& group, const Block& block) const {
    return block.scratch + group.offset * block.rows * block.tiles;
  }
  /// Where the kernel's pointers and strides are put together, behind the results.
  int64_t pointers_offset(const Block& block) const {
    return result_bytes_ * block.rows * block.tiles;
  }

  const CpuGemm& gemm_;
  DType dtype_;
  int64_t element_;
  CpuKernel function_;
  std::vector<Group> groups_;
  std::vector<Product> products_;
  int64_t segments_ = 1;         // parts of the columns that no block's end cuts
  int64_t segment_columns_ = 0;  // of a segment
  int64_t segment_vectors_ = 0;  // of units, of a segment
  int64_t tail_units_ = 0;       // of the vector that ends a segment, if they do not fill it
  int64_t rows_at_once_ = 1;
  int64_t greatest_k_ = 0;        // of the products
  int64_t unit_vectors_ = 1;      // vectors of units of a tile
  int64_t segment_tiles_ = 0;     // of a segment
  int64_t result_bytes_ = 0;      // of a row of a tile, all groups
  std::vector<int64_t> strides_;  // of the kernel; products' by row: of one tile
};

/// Merges the ranges of arguments of the products that overlap.
void FusedWork::find_groups(const FusedLaunch& launch) {
  std::vector<std::pair<uint32_t, uint32_t>> ranges;
  for (const auto& product : launch.products) {
    ranges.emplace_back(product.first_argument, product.first_argument + product.members);
  }
  std::ranges::sort(ranges);
  for (size_t i = 0; i < ranges.size();) {
    const uint32_t begin = ranges[i].first;
    uint32_t end = ranges[i].second;
    bool alike = true;
    for (; i < ranges.size() && ranges[i].first < end; ++i) {
      alike = alike && ranges[i] == std::pair(begin, end);
      end = std::max(end, ranges[i].second);
    }
    const uint32_t members = alike ? end - begin : 1;
    for (uint32_t first = begin; first < end; first += members) {
      groups_.push_back({.first = first, .members = members});
    }
  }
}

void FusedWork::find_tiles(const Plan& plan, const FusedLaunch& launch, int threads) {
  for (const auto& product : launch.products) {
    segments_ = std::lcm(segments_, product.blocks);
    greatest_k_ = std::max(greatest_k_, product.k);
  }
  rows_at_once_ = std::min(plan.batch, kRowsAtOnce);
  segment_columns_ = columns / segments_;
  segment_vectors_ = ceil_div(segment_columns_, gemm_.lanes);
  tail_units_ = segment_columns_ % gemm_.lanes;
  // Threads share out tiles, or segments if there are several.
  const int64_t sharing = segments_ == 1 ? threads : 1;
  double least = tile_cost(unit_vectors_, sharing);
  for (int64_t vectors = 2; vectors <= kMostPanelVectors; ++vectors) {
    const double cost = tile_cost(vectors, sharing);
    if (cost > least) continue;
    least = cost;
    unit_vectors_ = vectors;
  }
  const int64_t units = unit_vectors_ * gemm_.lanes;
  segment_tiles_ = ceil_div(segment_vectors_, unit_vectors_);
  tiles = segments_ == 1 ? segment_tiles_ : segments_;
  tile_columns = segments_ == 1 ? units : segment_columns_;
  const Tile last = tile_at(0, segment_tiles_ - 1);
  for (Group& group : groups_) {
    const int64_t whole = whole_vectors(last);
    const int64_t rest = whole < last.vectors ? group.members * tail_units_ : 0;
    const int64_t last_vectors = whole * group.members + ceil_div(rest, gemm_.lanes);
    group.panels = best_panels(gemm_, dtype_, panel_shape(unit_vectors_ * group.members));
    group.last_panels = best_panels(gemm_, dtype_, panel_shape(last_vectors));
    group.offset = result_bytes_;
    result_bytes_ += tile_width(group) * element_;
  }
}

/// Cycles for each term of the sums, roughly, of the thread that has the most to do, if tiles have
/// so many vectors of units.
double FusedWork::tile_cost(int64_t unit_vectors, int64_t threads) const {
  const int64_t most_tiles = ceil_div(ceil_div(segment_vectors_, unit_vectors), threads);
  const int64_t vectors = std::min(most_tiles * unit_vectors, segment_vectors_);
  double cycles = 0;
  for (const Group& group : groups_) {
    const PanelShape shape = panel_shape(unit_vectors * group.members);
    cycles += term_cycles(gemm_, dtype_, shape, best_panels(gemm_, dtype_, shape));
  }
  return cycles / static_cast<double>(unit_vectors) * static_cast<double>(vectors);
}

void FusedWork::add_product(const FusedLaunch::Product& source, size_t operand) {
  accesses.push_back(source.left);
  weights.push_back(source.weight);
  operations_per_row += static_cast<double>(source.members * columns * source.k);
  if (source.blocks == 1) operand_bytes += source.k * element_;
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (group.first < source.first_argument) continue;
    if (group.first >= source.first_argument + source.members) break;
    Product product;
    product.group = i;
    product.operand = operand;
    product.first_member = group.first - source.first_argument;
    product.accumulate = group.written;
    group.written = true;
    product.k = source.k;
    product.left_stride = source.left.stride;
    product.segments_per_block = segments_ / source.blocks;
    product.vector_bytes = cpu::packed_bytes(gemm_, dtype_, group.members, source.k);
    product.packed_offset = packed_bytes;
    packed_bytes += segments_ * segment_vectors_ * product.vector_bytes;
    products_.push_back(product);
  }
}

void FusedWork::find_strides(const FusedLaunch& launch) {
  const size_t count = launch.accesses.size();
  for (const Access& access : launch.accesses) strides_.push_back(access.stride);
  strides_.resize(3 * count);
  for (const Group& group : groups_) {
    for (uint32_t m = 0; m < group.members; ++m) {
      strides_[group.first + m] = tile_width(group);
      strides_[count + group.first + m] = group.members;
      strides_[2 * count + group.first + m] = m * (gemm_.lanes - tail_units_);
    }
  }
  scratch_bytes = std::max(kRowsAtOnce * result_bytes_, kResultBytes) +
                  static_cast<int64_t>(strides_.size() * sizeof(int64_t) + count * sizeof(void*));
}

void FusedWork::pack_tile(const Product& product, const std::byte* weight, const Tile& tile) const {
  const Group& group = groups_[product.group];
  const int64_t whole = whole_vectors(tile);
  const int64_t tail = tail_units_;
  const Panels& panels = panels_of(group, tile);
  std::array<const std::byte*, kMostPanelColumns> rows = {};
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t width = panels.vectors_of(panel) * gemm_.lanes;
    for (int64_t first = 0; first < width; first += gemm_.lanes) {
      const int64_t vector = panels.begin(panel) + first / gemm_.lanes;
      const int64_t behind = vector - whole * group.members;
      const int64_t first_unit = vector / group.members * gemm_.lanes;
      const int64_t own_member = vector % group.members;
      for (int64_t lane = 0; lane < gemm_.lanes; ++lane) {
        int64_t unit = first_unit + lane;
        int64_t member = own_member;
        if (behind >= 0 && tail > 0) {
          const int64_t place = behind * gemm_.lanes + lane;
          unit = whole * gemm_.lanes + place % tail;
          member = place / tail;
        }
        const int64_t row = (product.first_member + member) * columns +
                            tile.segment * segment_columns_ + tile.first * gemm_.lanes + unit;
        rows[first + lane] = member < group.members ? weight + row * product.k * element_ : nullptr;
      }
    }
    pack_rows(gemm_, dtype_, {rows.data(), static_cast<size_t>(width)},
              {.vectors = panels.vectors_of(panel),
               .k = product.k,
               .panel = packed_tile(product, tile) +
                        cpu::packed_bytes(gemm_, dtype_, panels.begin(panel), product.k)});
  }
}

/// Tiles [tile_begin, tile_end) of a segment: as many at once as have room for their results.
void FusedWork::run_segment(int64_t segment, int64_t tile_begin, int64_t tile_end,
                            void* const* addresses, const Part& part, std::byte* scratch) const {
  Block block;
  block.scratch = scratch;
  block.rows = std::min(kRowsAtOnce, part.row_end - part.row_begin);
  block.tiles =
      std::max<int64_t>(kResultBytes / (std::max<int64_t>(block.rows, 1) * result_bytes_), 1);
  const int64_t blocks = ceil_div(tile_end - tile_begin, block.tiles);
  const int64_t widest = groups_.front().panels.vectors_of(0);
  const bool backwards = part.backwards && !asks_ahead(gemm_, dtype_, widest, block.rows);
  const int64_t units = unit_vectors_ * gemm_.lanes;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t tile = tile_begin + (backwards ? blocks - 1 - i : i) * block.tiles;
    const int64_t count = std::min(block.tiles, tile_end - tile);
    const int64_t begin = segment * segment_columns_ + tile * units;
    const int64_t end = std::min(begin + count * units, (segment + 1) * segment_columns_);
    for (int64_t row = part.row_begin; row < part.row_end; row += block.rows) {
      block.row_begin = row;
      block.row_end = std::min(row + block.rows, part.row_end);
      for (const Product& product : products_) {
        const void* operand = addresses[arguments() + product.operand];
        const auto* left = static_cast<const std::byte*>(operand) +
                           segment / product.segments_per_block * product.k * element_;
        for (int64_t j = 0; j < count; ++j) {
          const int64_t place = backwards ? count - 1 - j : j;
          multiply(product, left, tile_at(segment, tile + place), place, block);
        }
      }
      apply_kernel(block, begin, end, addresses);
    }
  }
}

/// The results of a product in a tile, which is number `place` of those computed at once.
void FusedWork::multiply(const Product& product, const std::byte* left, const Tile& tile,
                         int64_t place, const Block& block) const {
  const Group& group = groups_[product.group];
  const int64_t width = tile_width(group);
  const Panels& panels = panels_of(group, tile);
  const std::byte* const packed_panels = packed_tile(product, tile);
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t first = panels.begin(panel);
    const int64_t vectors = panels.vectors_of(panel);
    const int64_t column = place * width + first * gemm_.lanes;
    multiply_panel(gemm_, dtype_,
                   {.left = left + block.row_begin * product.left_stride * element_,
                    .left_stride = product.left_stride,
                    .panel = packed_panels + cpu::packed_bytes(gemm_, dtype_, first, product.k),
                    .out = results(group, block) + column * element_,
                    .out_stride = width * block.tiles,
                    .rows = block.row_end - block.row_begin,
                    .k = product.k,
                    .vectors = vectors,
                    .columns = vectors * gemm_.lanes,
                    .accumulate = product.accumulate,
                    .weights = all_packed()});
  }
}

/// Columns [begin, end), of which the first is the first in scratch.
void FusedWork::apply_kernel(const Block& block, int64_t begin, int64_t end,
                             void* const* addresses) const {
  auto* const strides = reinterpret_cast<int64_t*>(block.scratch + pointers_offset(block));
  auto* const pointers = reinterpret_cast<void**>(strides + strides_.size());
  std::ranges::copy(strides_, strides);
  std::copy_n(addresses, arguments(), pointers);
  for (const Group& group : groups_) {
    for (uint32_t m = 0; m < group.members; ++m) {
      const size_t argument = group.first + m;
      strides[argument] *= block.tiles;
      // The kernel counts rows and columns from 0.
      const int64_t before = block.row_begin * strides[argument] + begin * group.members;
      pointers[argument] = results(group, block) + (m * gemm_.lanes - before) * element_;
    }
  }
  function_(pointers, strides, block.row_begin, block.row_end, begin, end, nullptr);
}

}  // namespace

std::unique_ptr<PreparedLaunch> prepare_fused(const Plan& plan, const CpuModule& module,
                                              const FusedLaunch& launch, int threads) {
  return std::make_unique<FusedWork>(plan, module, launch, threads);
}

}  // namespace rnnc::cpu
