// With AVX-512, vectors of 512 bits, for products and for elementwise code, on every processor but
// some of the first.
//
// Products are bound by multiply-adds. Servers since Ice Lake, Zen 5 and most Skylake servers do
// two of 512 bits a cycle where they do two of 256; what some lower their clock by (a fifth at
// most, Skylake's) is less than that. Zen 4 and clients have the multiply-adds of two of 256 bits,
// at the same clock, and half the loads and instructions. Elementwise code (the exponential
// family) is multiply-adds, comparisons and divisions, which go the same way. Measured with
// bench/cpu_cells.py on Zen 4 and Emerald Rapids: bench/results/cpu_cells*.json.
//
// LLVM tunes Intel's processors up to Granite Rapids for 256 bits, which suits programs that have
// little vector code; a recurrence has little else.
#include "codegen/cpu/vector_bits.h"

#include <algorithm>
#include <array>

namespace rnnc {
namespace {

/// Skylake and Cascade Lake servers of these names do one 512-bit multiply-add a cycle, at a lower
/// clock than two of 256 bits. Virtual machines that hide their name have mostly two.
bool has_one_wide_unit(const Processor& processor) {
  constexpr std::array<std::string_view, 2> kCores = {"skylake-avx512", "cascadelake"};
  constexpr std::array<std::string_view, 3> kBrands = {"Bronze", "Silver", "Gold 5"};
  constexpr std::array<std::string_view, 2> kButThese = {"Gold 5122", "Gold 5222"};
  const auto in_brand = [&](std::string_view part) {
    return processor.brand.find(part) != std::string_view::npos;
  };
  return std::ranges::find(kCores, processor.name) != kCores.end() &&
         std::ranges::any_of(kBrands, in_brand) && std::ranges::none_of(kButThese, in_brand);
}

}  // namespace

VectorBits fast_vector_bits(const Processor& processor) {
  if (processor.avx512 && !has_one_wide_unit(processor)) return {512, 512};
  if (processor.avx512 || processor.avx2) return {256, 256};
  return {128, 128};
}

}  // namespace rnnc
