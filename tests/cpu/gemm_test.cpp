// Matrix products against sums in float64.
#include "runtime/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "runtime/cpu/memory.h"
#include "tests/cpu/kernel_runner.h"

namespace rnnc::test {
using namespace cpu;

namespace {

std::unique_ptr<CpuModule> gemm_module(DType dtype, const CpuTarget& target) {
  Plan plan;
  plan.dtype = dtype;
  GemmLaunch product;
  product.n = product.k = 1;
  plan.stages.emplace_back().launches.emplace_back(product);
  auto object = compile_object(plan, target);
  RNNC_CHECK(object.has_value(), "{}", object.error().message);
  auto tiles = compile_gemm_object(dtype, target);
  RNNC_CHECK(tiles.has_value(), "{}", tiles.error().message);
  auto module = CpuModule::load(plan, *object, *tiles, target);
  RNNC_CHECK(module.has_value(), "{}", module.error().message);
  return std::move(*module);
}

template <typename T>
std::vector<T> random_elements(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<T> normal;
  std::vector<T> values(count);
  for (T& value : values) value = normal(generator);
  return values;
}

/// A weight [n, k], or [k, n] when `transposed`.
struct Shape {
  int64_t n = 0;
  int64_t k = 0;
  bool transposed = false;
};

template <typename T>
class Gemm : public testing::Test {
 protected:
  static constexpr DType kDType = sizeof(T) == 8 ? DType::f64 : DType::f32;
  static constexpr T kUntouched = T{-12345};

  AlignedMemory pack(const Shape& shape, const std::vector<T>& weight) const {
    const CpuGemm& gemm = module_->gemm();
    const Panels panels(ceil_div(shape.n, gemm.lanes), widest_);
    auto packed = AlignedMemory::allocate(packed_bytes(gemm, kDType, panels.vectors(), shape.k));
    RNNC_CHECK(packed.has_value(), "no memory");
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const int64_t first = panels.begin(panel) * gemm.lanes;
      const int64_t columns = std::min(panels.vectors_of(panel) * gemm.lanes, shape.n - first);
      const PanelTarget target = {
          .vectors = panels.vectors_of(panel),
          .k = shape.k,
          .panel = packed->data() + packed_bytes(gemm, kDType, panels.begin(panel), shape.k)};
      const auto* source = reinterpret_cast<const std::byte*>(weight.data());
      if (shape.transposed) {
        pack_columns(gemm, kDType, source + first * sizeof(T), shape.n, columns, target);
        continue;
      }
      std::vector<const std::byte*> rows;
      for (int64_t j = 0; j < columns; ++j) {
        rows.push_back(source + (first + j) * shape.k * sizeof(T));
      }
      pack_rows(gemm, kDType, rows, target);
    }
    return std::move(*packed);
  }

  struct Operands {
    const T* left;
    int64_t left_stride;
    const std::byte* packed;
    T* out;
    int64_t out_stride;
    int64_t rows;
  };
  void multiply(const Shape& shape, const Operands& operands, bool accumulate = false) const {
    const CpuGemm& gemm = module_->gemm();
    const Panels panels(ceil_div(shape.n, gemm.lanes), widest_);
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const int64_t first = panels.begin(panel) * gemm.lanes;
      multiply_panel(
          gemm, kDType,
          {.left = reinterpret_cast<const std::byte*>(operands.left),
           .left_stride = operands.left_stride,
           .panel = operands.packed + packed_bytes(gemm, kDType, panels.begin(panel), shape.k),
           .out = reinterpret_cast<std::byte*>(operands.out + first),
           .out_stride = operands.out_stride,
           .rows = operands.rows,
           .k = shape.k,
           .vectors = panels.vectors_of(panel),
           .columns = std::min(panels.vectors_of(panel) * gemm.lanes, shape.n - first),
           .accumulate = accumulate});
    }
  }

  void check(int64_t rows, int64_t n, int64_t k, bool transposed) const {
    SCOPED_TRACE(fmt::format("rows {}, n {}, k {}, transposed {}", rows, n, k, transposed));
    const Shape shape{n, k, transposed};
    const int64_t left_stride = k + 2;
    const int64_t out_stride = n + 3;
    const auto left = random_elements<T>(rows * left_stride, 1);
    const auto weight = random_elements<T>(n * k, 2);
    const AlignedMemory packed = pack(shape, weight);
    std::vector<T> out(rows * out_stride, kUntouched);
    multiply(shape, {left.data(), left_stride, packed.data(), out.data(), out_stride, rows});
    const double tolerance = sizeof(T) == 8 ? 1e-14 : 1e-6;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t j = 0; j < out_stride; ++j) {
        const T got = out[row * out_stride + j];
        if (j >= n) {
          ASSERT_EQ(got, kUntouched) << "wrote past the row";
          continue;
        }
        double sum = 0;
        double size = 1;
        for (int64_t i = 0; i < k; ++i) {
          const double w = weight[transposed ? i * n + j : j * k + i];
          sum += w * left[row * left_stride + i];
          size += std::fabs(w * left[row * left_stride + i]);
        }
        ASSERT_LE(std::fabs(got - sum), tolerance * size) << "row " << row << " column " << j;
      }
    }
    check_rows_alone(shape, left, left_stride, packed, out, out_stride, rows);
  }

  /// A row alone gives the bits that it gives among others.
  void check_rows_alone(const Shape& shape, const std::vector<T>& left, int64_t left_stride,
                        const AlignedMemory& packed, const std::vector<T>& out, int64_t out_stride,
                        int64_t rows) const {
    std::vector<T> alone(shape.n);
    for (const int64_t row : {int64_t{0}, rows / 2, rows - 1}) {
      multiply(shape, {left.data() + row * left_stride, left_stride, packed.data(), alone.data(),
                       shape.n, 1});
      ASSERT_EQ(std::memcmp(alone.data(), &out[row * out_stride], shape.n * sizeof(T)), 0)
          << "row " << row;
    }
  }

  std::unique_ptr<CpuModule> module_ = gemm_module(kDType, {});
  int64_t widest_ = kMostPanelVectors;  // panels
};

using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Gemm, Types);

TYPED_TEST(Gemm, OfEveryShape) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 13, 16}) {
    for (const int64_t n : {1, 3, 16, 31, 64, 65, 200}) {
      for (const int64_t k : {1, 3, 64}) this->check(rows, n, k, (rows + n) % 2 == 0);
    }
  }
}

TYPED_TEST(Gemm, OfLongSumsAndManyRows) {
  for (const int64_t k : {255, 256, 257, 600}) this->check(3, 70, k, false);
  for (const int64_t rows : {95, 96, 97, 200}) this->check(rows, 70, 9, true);
}

TYPED_TEST(Gemm, OfEveryLevel) {
  for (const CodeParam& param : code_params()) {
    if (param.dtype != TestFixture::kDType) continue;
    this->module_ = gemm_module(param.dtype, param.target);
    for (const int64_t rows : {1, 2, 3, 4, 7, 12}) {
      for (const int64_t n : {1, 15, 64, 99}) this->check(rows, n, 300, n == 15);
    }
  }
}

TYPED_TEST(Gemm, OfEveryTile) {
  for (const CodeParam& param : code_params()) {
    if (param.dtype != TestFixture::kDType) continue;
    this->module_ = gemm_module(param.dtype, param.target);
    for (this->widest_ = 1; this->widest_ <= kMostPanelVectors; ++this->widest_) {
      const int64_t n = 2 * this->widest_ * this->module_->gemm().lanes - 1;
      for (int64_t rows = 1; rows <= 9; ++rows) this->check(rows, n, 33, false);
    }
  }
}

// The widest panels of all, unless others let more of the sums be in registers.
TYPED_TEST(Gemm, HasPanelsThatTakeNoLonger) {
  constexpr DType dtype = TestFixture::kDType;
  for (const CodeParam& param : code_params()) {
    if (param.dtype != dtype) continue;
    this->module_ = gemm_module(dtype, param.target);
    const CpuGemm& gemm = this->module_->gemm();
    for (const int64_t vectors : {1, 3, 4, 7, 12, 100}) {
      for (int64_t rows = 1; rows <= 100; ++rows) {
        const PanelShape shape = {.vectors = vectors, .rows = rows, .k = 384};
        const Panels panels = best_panels(gemm, dtype, shape);
        const Panels widest(vectors);
        ASSERT_EQ(panels.begin(panels.count()), vectors);
        ASSERT_LE(term_cycles(gemm, dtype, shape, panels), term_cycles(gemm, dtype, shape, widest));
        ASSERT_TRUE(panels.count() == widest.count() || !has_large_tiles(gemm));
      }
    }
    if (param.target.level != CpuLevel::Avx2) continue;
    EXPECT_EQ(best_panels(gemm, dtype, {.vectors = 12, .rows = 1, .k = 384}).count(), 3);
    EXPECT_EQ(best_panels(gemm, dtype, {.vectors = 12, .rows = 4, .k = 384}).count(), 4);
    EXPECT_EQ(best_panels(gemm, dtype, {.vectors = 12, .rows = 6, .k = 384}).count(), 6);
  }
}

TYPED_TEST(Gemm, PassesNanAndInfinityOn) {
  const Shape shape{3, 2, false};
  const auto inf = std::numeric_limits<TypeParam>::infinity();
  const auto nan = std::numeric_limits<TypeParam>::quiet_NaN();
  const AlignedMemory packed = this->pack(shape, {1, 1, nan, 0, 0, 1});
  const std::vector<TypeParam> left = {inf, 2};
  std::vector<TypeParam> out(3);
  this->multiply(shape, {left.data(), 2, packed.data(), out.data(), 3, 1});
  EXPECT_EQ(out[0], inf);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));  // infinity times zero
}

/// Where tiles were told to ask for lines, and for how many.
struct Request {
  const std::byte* from;
  int64_t lines;
};
std::vector<Request> requests;

void record_request(const void* /*left*/, int64_t /*left_stride*/, const void* /*panel*/,
                    void* /*out*/, int64_t /*out_stride*/, int64_t k, int64_t /*columns*/,
                    int64_t /*add_to_out*/, const void* next) {
  requests.push_back({static_cast<const std::byte*>(next), k});
}

/// The lines that the products of a panel ask for.
std::set<const std::byte*> lines_asked_for(const CpuGemm& gemm, DType dtype,
                                           const PanelProduct& product) {
  requests.clear();
  multiply_panel(gemm, dtype, product);
  std::set<const std::byte*> lines;
  for (const auto& [from, count] : requests) {
    for (int64_t line = 0; line < count; ++line) lines.insert(from + line * 64);
  }
  return lines;
}

// A request that hits no page is slow each time, and what lies behind the weights is chance.
TYPED_TEST(Gemm, AsksForAllOfTheNextPanelAndNothingElse) {
  CpuGemm gemm = this->module_->gemm();
  for (auto& tiles : gemm.tiles) std::ranges::fill(tiles, record_request);
  constexpr DType dtype = TestFixture::kDType;
  for (const int64_t k : {64, 600}) {
    const int64_t panel_bytes = packed_bytes(gemm, dtype, kMostPanelVectors, k);
    const std::vector<std::byte> weights(3 * panel_bytes);
    for (const int64_t rows : {1, 7, 16, 24, 96}) {
      for (int64_t panel = 0; panel < 3; ++panel) {
        PanelProduct product;
        product.panel = weights.data() + panel * panel_bytes;
        product.rows = rows;
        product.k = k;
        product.vectors = kMostPanelVectors;
        product.weights = weights;
        const auto lines = lines_asked_for(gemm, dtype, product);
        ASSERT_GE(*lines.begin(), weights.data());
        ASSERT_LE(*lines.rbegin() + 64, weights.data() + weights.size());
        if (rows < 96 || k > gemm.block_k) continue;
        const std::byte* const next = weights.data() + (panel + 1) % 3 * panel_bytes;
        for (const std::byte* line = next; line < next + panel_bytes; line += 64) {
          ASSERT_TRUE(lines.contains(line)) << "panel " << panel << " line " << (line - next) / 64;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rnnc::test
