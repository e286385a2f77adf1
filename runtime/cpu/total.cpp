// Units are rows of the result, of which a thread's are turned into rows of memory first, packed like
// rows of a weight: the kernels of products (codegen/cpu/emit_gemm.h) go along those.
#include "runtime/cpu/total.h"

#include <algorithm>
#include <array>

#include "ir/base/arithmetic.h"

namespace rnnc::cpu {
namespace {

constexpr int64_t kLeastRows = 8;  // of the result in a unit
constexpr int64_t kUnitsPerThread = 4;

/// Adds the elements of Count rows to as many sums, row after row; `sums` lies apart.
template <int64_t Count, typename T>
void add_to(T* __restrict sums, const T* terms, int64_t stride, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    T sum = sums[i];
    for (int64_t row = 0; row < Count; ++row) sum += terms[row * stride + i];
    sums[i] = sum;
  }
}

/// Blocks of rows are added up by themselves, as sums over many rows are then more exact.
template <typename T>
void add_rows(const TotalWork::Rows& rows, int64_t stride, int64_t begin, int64_t end,
              std::byte* scratch) {
  constexpr int64_t kAtOnce = 4;
  const T* from = reinterpret_cast<const T*>(rows.left) + begin;
  T* sums = reinterpret_cast<T*>(scratch);
  T* out = reinterpret_cast<T*>(rows.out) + begin;
  const int64_t size = end - begin;
  std::fill(sums, sums + size, T{0});
  int64_t row = 0;
  for (; row + kAtOnce <= rows.count; row += kAtOnce) {
    add_to<kAtOnce>(sums, from + row * stride, stride, size);
  }
  for (; row < rows.count; ++row) add_to<1>(sums, from + row * stride, stride, size);
  for (int64_t i = 0; i < size; ++i) out[i] = (rows.accumulate ? out[i] : T{0}) + sums[i];
}

}  // namespace

TotalWork::TotalWork(const Plan& plan, const CpuGemm& gemm, const TotalLaunch& launch)
    : gemm_(gemm), dtype_(plan.dtype), launch_(launch) {
  if (!is_outer()) return;
  panels_ = best_panels(gemm, dtype_,
                        {.vectors = ceil_div(launch.n, gemm.lanes),
                         .rows = std::min(launch.m, kRowsPerBlock),
                         .k = kTotalRows});
}

double TotalWork::operations_per_row() const {
  return static_cast<double>(launch_.blocks * launch_.m) * static_cast<double>(launch_.n);
}

int64_t TotalWork::packed_bytes() const {
  if (!is_outer()) return 0;
  return launch_.blocks * cpu::packed_bytes(gemm_, dtype_, panels_.vectors(), kTotalRows);
}

int64_t TotalWork::scratch_bytes() const {
  const int64_t elements = is_outer() ? kRowsPerBlock * kTotalRows : launch_.m;
  return elements * static_cast<int64_t>(size_of(dtype_));
}

int64_t TotalWork::units(int threads) const {
  const int64_t wanted = kUnitsPerThread * threads;
  if (!is_outer()) return std::clamp<int64_t>(launch_.m / 64, 1, wanted);
  const int64_t least = ceil_div(launch_.m, kRowsPerBlock);
  const int64_t most = ceil_div(launch_.m, kLeastRows);
  return launch_.blocks * std::clamp(ceil_div(wanted, launch_.blocks), least, most);
}

int64_t TotalWork::block_bytes(const Rows& rows) const {
  return cpu::packed_bytes(gemm_, dtype_, panels_.vectors(), rows.count);
}

std::byte* TotalWork::panel(const Rows& rows, int64_t index) const {
  const int64_t block = index / panels_.count();
  const int64_t first = panels_.begin(index % panels_.count());
  return packed + block * block_bytes(rows) + cpu::packed_bytes(gemm_, dtype_, first, rows.count);
}

void TotalWork::pack(const Rows& rows, int64_t index) const {
  const auto element = static_cast<int64_t>(size_of(dtype_));
  const int64_t part = index % panels_.count();
  const int64_t column = panels_.begin(part) * gemm_.lanes;
  const int64_t columns = std::min(panels_.vectors_of(part) * gemm_.lanes, launch_.n - column);
  const int64_t block = index / panels_.count();
  pack_columns(gemm_, dtype_, rows.right + (block * launch_.n + column) * element,
               launch_.right.stride, columns,
               {.vectors = panels_.vectors_of(part), .k = rows.count, .panel = panel(rows, index)});
}

void TotalWork::run(const Rows& rows, int64_t unit, int64_t units, std::byte* scratch) const {
  if (is_outer()) return add_outer_products(rows, unit, units, scratch);
  const int64_t begin = part_begin(launch_.m, units, unit);
  const int64_t end = part_begin(launch_.m, units, unit + 1);
  if (dtype_ == DType::f64) {
    add_rows<double>(rows, launch_.left.stride, begin, end, scratch);
  } else {
    add_rows<float>(rows, launch_.left.stride, begin, end, scratch);
  }
}

void TotalWork::add_outer_products(const Rows& rows, int64_t unit, int64_t units,
                                   std::byte* scratch) const {
  const auto element = static_cast<int64_t>(size_of(dtype_));
  const int64_t parts = units / launch_.blocks;
  const int64_t block = unit / parts;
  const int64_t begin = part_begin(launch_.m, parts, unit % parts);
  const int64_t count = part_begin(launch_.m, parts, unit % parts + 1) - begin;
  const std::byte* left = rows.left + (block * launch_.m + begin) * element;
  std::array<const std::byte*, kTotalRows> left_rows;
  for (int64_t row = 0; row < rows.count; ++row) {
    left_rows[row] = left + row * launch_.left.stride * element;
  }
  const int64_t turned_vectors = ceil_div(rows.count, gemm_.lanes);
  pack_rows(gemm_, dtype_, {left_rows.data(), static_cast<size_t>(rows.count)},
            {.vectors = turned_vectors, .k = count, .panel = scratch});
  std::byte* const out = rows.out + (block * launch_.m + begin) * launch_.n * element;
  for (int64_t part = 0; part < panels_.count(); ++part) {
    const int64_t column = panels_.begin(part) * gemm_.lanes;
    const int64_t vectors = panels_.vectors_of(part);
    multiply_panel(gemm_, dtype_,
                   {.left = scratch,
                    .left_stride = turned_vectors * gemm_.lanes,
                    .panel = panel(rows, block * panels_.count() + part),
                    .out = out + column * element,
                    .out_stride = launch_.n,
                    .rows = count,
                    .k = rows.count,
                    .vectors = vectors,
                    .columns = std::min(vectors * gemm_.lanes, launch_.n - column),
                    .accumulate = rows.accumulate,
                    .weights = {packed, static_cast<size_t>(launch_.blocks * block_bytes(rows))}});
  }
}

}  // namespace rnnc::cpu
