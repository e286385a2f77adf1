// The text of generated CUDA C++. What it computes is tested in tests/gpu.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/device/kernel_abi.h"
#include "codegen/cuda/elementwise/emit_kernel.h"
#include "tests/cuda/fused_plans.h"

namespace rnnc::test {
namespace {

/// Of a launch in a Step stage.
std::string kernel_text(Plan& plan, ElementwiseLaunch launch) {
  const uint32_t kernel = launch.kernel;
  Stage stage;
  stage.domain = Domain::Step;
  stage.launches.emplace_back(std::move(launch));
  plan.stages.push_back(std::move(stage));
  return emit_cuda_kernel(plan.kernels[kernel], kernel, kernel_traits(plan)[kernel].value());
}

void expect_text(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(EmitCuda, ElementwiseKernelHasOneThreadPerElement) {
  Plan plan = empty_plan(DType::bf16);
  KernelBuilder builder(plan, 300);
  const uint32_t x = builder.load(add_sequence(plan, Role::Input, 0, 300), true);
  const uint32_t gate = builder.load(add_sequence(plan, Role::Input, 1, 1), false);
  const uint32_t product = builder.scalar(Op::Mul, {x, gate});
  const uint32_t y = builder.scalar(Op::Relu, {product});
  builder.store(add_sequence(plan, Role::Output, 0, 300), true, y);
  builder.store(add_sequence(plan, Role::Output, 1, 1), false, gate);
  EXPECT_EQ(kernel_text(plan, builder.finish()),
            R"(extern "C" __global__ void __launch_bounds__(128)
k0(const rnnc_rows rows, const rnnc_access p0, const rnnc_access p1, const rnnc_access p2, const rnnc_access p3) {
  const unsigned i = blockIdx.x * 128u + threadIdx.x;
  const unsigned slice_row = i / 300u;
  const unsigned e = i % 300u;
  const unsigned row = blockIdx.y * rows.per_slice + slice_row;
  const rnnc_bf16* const a0 = rnnc_row<const rnnc_bf16>(rows.frame, p0, row);
  const rnnc_bf16* const a1 = rnnc_row<const rnnc_bf16>(rows.frame, p1, row);
  rnnc_bf16* const a2 = rnnc_row<rnnc_bf16>(rows.frame, p2, row);
  rnnc_bf16* const a3 = rnnc_row<rnnc_bf16>(rows.frame, p3, row);
  const bool due = rnnc_is_due(rows);
  rnnc_begin();
  if (!due || slice_row >= rows.per_slice || row >= rows.count) return;
  const float v0 = rnnc_load(a0 + e);
  const float v1 = rnnc_load(a1);
  const float v2 = (v0 * v1);
  const float v3 = rnnc_max(v2, 0);
  rnnc_store(a2 + e, v3);
  if (e == 0) rnnc_store(a3, v1);
}
)");
}

/// Of a kernel that multiplies rows by the squares of their gates, which it stores, too.
std::string text_of_gates(DType dtype, int64_t batch, int64_t length) {
  Plan plan = empty_plan(dtype);
  plan.batch = batch;
  KernelBuilder builder(plan, length);
  const uint32_t x = builder.load(add_sequence(plan, Role::Input, 0, length), true);
  const uint32_t gate = builder.load(add_sequence(plan, Role::Input, 1, 1), false);
  const uint32_t squared = builder.scalar(Op::Mul, {gate, gate});
  const uint32_t product = builder.scalar(Op::Mul, {x, squared});
  builder.store(add_buffer(plan, Extent::Chunk, DType::f32, length), true, product);
  builder.store(add_sequence(plan, Role::Output, 0, 1), false, squared);
  return kernel_text(plan, builder.finish());
}

TEST(EmitCuda, ThreadsOfManyRowsHavePackets) {
  EXPECT_EQ(text_of_gates(DType::f32, 2048, 64),
            R"(template <bool Aligned>
static __device__ __forceinline__ void k0_packet(unsigned e, const float* const a0, const float* const a1, float* const a2, float* const a3) {
  typedef rnnc_packet<float, 4, Aligned> t0;
  const t0 x0 = t0::load(a0 + e);
  typedef rnnc_packet<float, 4, true> t2;
  t2 o2 = {};
  const float v1 = rnnc_load(a1);
  const float v2 = (v1 * v1);
  if (e == 0) rnnc_store(a3, v2);
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    const float v0 = x0.get(x);
    const float v3 = (v0 * v2);
    o2.set(x, v3);
  }
  o2.store(a2 + e);
}
extern "C" __global__ void __launch_bounds__(128)
k0(const rnnc_rows rows, const rnnc_access p0, const rnnc_access p1, const rnnc_access p2, const rnnc_access p3) {
  const unsigned i = (blockIdx.x * 128u + threadIdx.x) * 4u;
  const unsigned slice_row = i / 64u;
  const unsigned e = i % 64u;
  const unsigned row = blockIdx.y * rows.per_slice + slice_row;
  const float* const a0 = rnnc_row<const float>(rows.frame, p0, row);
  const float* const a1 = rnnc_row<const float>(rows.frame, p1, row);
  float* const a2 = rnnc_row<float>(rows.frame, p2, row);
  float* const a3 = rnnc_row<float>(rows.frame, p3, row);
  const bool due = rnnc_is_due(rows);
  rnnc_begin();
  if (!due || slice_row >= rows.per_slice || row >= rows.count) return;
  if (((reinterpret_cast<rnnc_word>(a0) & 15)) == 0) {
    k0_packet<true>(e, a0, a1, a2, a3);
  } else {
    k0_packet<false>(e, a0, a1, a2, a3);
  }
}
)");
}

TEST(EmitCuda, ThreadsOfRowsWithoutPacketsHaveElementsThatLieApart) {
  EXPECT_EQ(text_of_gates(DType::bf16, 8192, 65),
            R"(extern "C" __global__ void __launch_bounds__(128)
k0(const rnnc_rows rows, const rnnc_access p0, const rnnc_access p1, const rnnc_access p2, const rnnc_access p3) {
  const rnnc_bf16* const a0 = reinterpret_cast<const rnnc_bf16*>(rnnc_address(rows.frame, p0));
  const rnnc_bf16* const a1 = reinterpret_cast<const rnnc_bf16*>(rnnc_address(rows.frame, p1));
  float* const a2 = reinterpret_cast<float*>(rnnc_address(rows.frame, p2));
  rnnc_bf16* const a3 = reinterpret_cast<rnnc_bf16*>(rnnc_address(rows.frame, p3));
  const unsigned first = blockIdx.x * 512u + threadIdx.x;
  const bool due = rnnc_is_due(rows);
  rnnc_begin();
  if (!due) return;
  float l0[4];
  float l1[4];
#pragma unroll
  for (unsigned x = 0; x < 4; ++x) {
    const unsigned i = first + x * 128u;
    const unsigned slice_row = i / 65u;
    const unsigned e = i % 65u;
    const unsigned row = blockIdx.y * rows.per_slice + slice_row;
    if (slice_row >= rows.per_slice || row >= rows.count) break;
    l0[x] = rnnc_load(rnnc_row(a0, p0, row) + e);
    l1[x] = rnnc_load(rnnc_row(a1, p1, row));
  }
#pragma unroll
  for (unsigned x = 0; x < 4; ++x) {
    const unsigned i = first + x * 128u;
    const unsigned slice_row = i / 65u;
    const unsigned e = i % 65u;
    const unsigned row = blockIdx.y * rows.per_slice + slice_row;
    if (slice_row >= rows.per_slice || row >= rows.count) break;
    const float v0 = l0[x];
    const float v1 = l1[x];
    const float v2 = (v1 * v1);
    const float v3 = (v0 * v2);
    rnnc_store(rnnc_row(a2, p2, row) + e, v3);
    if (e == 0) rnnc_store(rnnc_row(a3, p3, row), v2);
  }
}
)");
}

/// Of a kernel that adds up `terms` vectors, run for these rows.
KernelTraits traits_of(int64_t batch, int64_t length, int terms, int64_t column = 0) {
  Plan plan = empty_plan(DType::f32);
  plan.batch = batch;
  KernelBuilder builder(plan, length);
  Access access = add_buffer(plan, Extent::Chunk, DType::f32, 2 * length * terms);
  access.column = column;
  uint32_t sum = builder.constant(0);
  for (int i = 0; i < terms; ++i) {
    sum = builder.scalar(Op::Add, {sum, builder.load(access, true)});
    access.column += length;
  }
  builder.store(add_buffer(plan, Extent::Chunk, DType::f32, length), true, sum);
  const ElementwiseLaunch launch = builder.finish();
  Stage stage;
  stage.domain = Domain::Step;
  stage.launches.emplace_back(launch);
  plan.stages.push_back(std::move(stage));
  return *kernel_traits(plan)[launch.kernel];
}

int items(int64_t batch, int64_t length, int terms, int64_t column = 0) {
  return traits_of(batch, length, terms, column).items;
}

int spread(int64_t batch, int64_t length, int terms) {
  const KernelTraits traits = traits_of(batch, length, terms);
  EXPECT_TRUE(traits.items == 1 || traits.spread == 1);
  return traits.spread;
}

TEST(EmitCuda, PacketsAreForManyAlignedElements) {
  EXPECT_EQ(items(2048, 64, 2), 4);
  EXPECT_EQ(items(2047, 64, 2), 1);  // a thread for each occupies more of the machine
  EXPECT_EQ(items(2048, 66, 2), 2);
  EXPECT_EQ(items(2048, 65, 2), 1);
  EXPECT_EQ(items(2048, 64, 2, 2), 2);
  EXPECT_EQ(items(2048, 64, 15), 4);
  EXPECT_EQ(items(2048, 64, 16), 2);  // registers
}

TEST(EmitCuda, ElementsThatLieApartAreOfManyWithoutPackets) {
  EXPECT_EQ(spread(1 << 14, 64, 2), 1);
  EXPECT_EQ(spread(1 << 14, 65, 2), 8);
  EXPECT_EQ(spread(1 << 13, 65, 2), 4);
  EXPECT_EQ(spread(1 << 11, 65, 2), 1);
  EXPECT_EQ(spread(1 << 14, 65, 7), 8);
  EXPECT_EQ(spread(1 << 14, 65, 8), 4);  // registers
}

TEST(EmitCuda, ReductionKernelHasOneBlockPerRow) {
  Plan plan = empty_plan(DType::f32);
  KernelBuilder builder(plan, 1000);
  const uint32_t x = builder.load(add_sequence(plan, Role::Input, 0, 1000), true);
  const uint32_t mean = builder.reduce(Op::Mean, x);
  const uint32_t centred = builder.scalar(Op::Sub, {x, mean});
  builder.store(add_buffer(plan, Extent::Chunk, DType::f32, 1000), true, centred);
  builder.store(add_sequence(plan, Role::Output, 0, 1), false, mean);
  EXPECT_EQ(kernel_text(plan, builder.finish()),
            R"(template <bool Aligned>
static __device__ __forceinline__ void k0_row(const float* const a0, float* const a1, float* const a2) {
  typedef rnnc_packet<float, 4, Aligned> t0;
  t0 x0[1];
  typedef rnnc_packet<float, 4, true> t1;
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const unsigned e = (threadIdx.x + j * 256u) * 4u;
    if (e >= 1000u) break;
    x0[j] = t0::load(a0 + e);
  }
  rnnc_wait_for_previous();
  float r1 = rnnc_sum::identity();
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const unsigned e = (threadIdx.x + j * 256u) * 4u;
    if (e >= 1000u) break;
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      r1 = rnnc_sum::join(r1, x0[j].get(x));
    }
  }
  __shared__ __align__(16) float w1[8];
  rnnc_reduce_warps<rnnc_sum>(r1, w1);
  __syncthreads();
  const float v1 = rnnc_join_warps<rnnc_sum, 8>(w1) / 1000.0f;
  if (threadIdx.x == 0) rnnc_store(a2, v1);
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const unsigned e = (threadIdx.x + j * 256u) * 4u;
    if (e >= 1000u) break;
    t1 o1 = {};
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const float v2 = (x0[j].get(x) - v1);
      o1.set(x, v2);
    }
    o1.store(a1 + e);
  }
}
extern "C" __global__ void __launch_bounds__(256, 4)
k0(const rnnc_rows rows, const rnnc_access p0, const rnnc_access p1, const rnnc_access p2) {
  rnnc_let_next_begin();
  if (!rnnc_is_due(rows)) {
    rnnc_wait_for_previous();
    return;
  }
  const float* const a0 = rnnc_row<const float>(rows.frame, p0, blockIdx.x);
  float* const a1 = rnnc_row<float>(rows.frame, p1, blockIdx.x);
  float* const a2 = rnnc_row<float>(rows.frame, p2, blockIdx.x);
  if (((reinterpret_cast<rnnc_word>(a0) & 15)) == 0) {
    k0_row<true>(a0, a1, a2);
  } else {
    k0_row<false>(a0, a1, a2);
  }
}
)");
}

TEST(EmitCuda, RowsLoadAheadOfEarlierLaunchesWhatTheseDoNotWrite) {
  Plan plan = empty_plan(DType::bf16);
  const Access old = add_buffer(plan, Extent::Chunk, DType::f32, 512);
  const Access gain = add_buffer(plan, Extent::Invariant, DType::bf16, 512);
  const Access made = add_buffer(plan, Extent::Batch, DType::f32, 512);
  const Access other = add_buffer(plan, Extent::Batch, DType::f32, 512);
  {
    KernelBuilder first(plan, 512);
    first.store(made, true, first.load(old, true));
    kernel_text(plan, first.finish());
  }
  KernelBuilder builder(plan, 512);
  const uint32_t sum = builder.scalar(Op::Add, {builder.load(made, true), builder.load(old, true)});
  const uint32_t scaled = builder.scalar(Op::Mul, {sum, builder.load(gain, true)});
  builder.store(other, true, builder.scalar(Op::Sub, {scaled, builder.reduce(Op::Mean, scaled)}));
  const std::string text = kernel_text(plan, builder.finish());
  const size_t wait = text.find("  rnnc_wait_for_previous();\n");
  expect_text(text, "typedef rnnc_packet<rnnc_bf16, 2, true> t2;");
  EXPECT_GT(text.find("x0[j] = t0::load"), wait) << text;
  EXPECT_LT(text.find("x1[j] = t1::load"), wait) << text;
  EXPECT_LT(text.find("x2[j] = t2::load"), wait) << text;
}

TEST(EmitCuda, LongRowsAreNotLoadedAhead) {
  Plan plan = empty_plan(DType::f32);
  KernelBuilder builder(plan, 100'000);
  const uint32_t x = builder.load(add_sequence(plan, Role::Input, 0, 100'000), true);
  builder.store(add_sequence(plan, Role::Output, 0, 100'000), true,
                builder.scalar(Op::Sub, {x, builder.reduce(Op::Mean, x)}));
  const std::string text = kernel_text(plan, builder.finish());
  expect_text(text, "const t0 x0 = t0::load(a0 + e);");
  expect_text(text, "s0[j * 4 + x] = v0;");
  expect_text(text, "const float v2 = (s0[j * 4 + x] - v1);");
}

TEST(EmitCuda, VarianceTakesTwoPasses) {
  Plan plan = empty_plan(DType::f32);
  KernelBuilder builder(plan, 64);
  const uint32_t x = builder.load(add_sequence(plan, Role::Input, 0, 64), true);
  const uint32_t mean = builder.reduce(Op::Mean, x);
  const uint32_t variance = builder.reduce(Op::Var, x);
  builder.store(add_sequence(plan, Role::Output, 0, 1), false,
                builder.scalar(Op::Add, {mean, variance}));
  const std::string text = kernel_text(plan, builder.finish());
  // One mean for both.
  expect_text(text, "const float v1 = rnnc_join_warps<rnnc_sum, 2>(w1) / 64.0f;");
  expect_text(text, "const float v2 = (x0[j].get(x) - v1);");
  expect_text(text, "const float v3 = (v2 * v2);");
  expect_text(text, "const float v4 = rnnc_join_warps<rnnc_sum, 2>(w4) / 64.0f;");
  expect_text(text, "rnnc_store(a1, v5);");
}

TEST(EmitCuda, LiteralsAreExactFloats) {
  const std::vector<std::pair<double, std::string>> cases = {
      {0.0, "0.0f"},
      {-0.0, "(-0.0f)"},
      {1.0, "1.0f"},
      {-30.0, "(-30.0f)"},
      {0.1, "0.1f"},
      {1.0 / 3.0, "0.33333334f"},
      {1e-45, "1e-45f"},
      {16777216.0, "16777216.0f"},
      {1e30, "1e+30f"},
      {1e300, "__int_as_float(0x7f800000)"},
      {-std::numeric_limits<double>::infinity(), "__int_as_float(0xff800000)"},
      {std::nan(""), "__int_as_float(0x7fffffff)"},
  };
  for (const auto& [value, literal] : cases) {
    Plan plan = empty_plan(DType::f32);
    KernelBuilder builder(plan, 1);
    const uint32_t x = builder.load(add_sequence(plan, Role::Input, 0, 1), true);
    const uint32_t sum = builder.scalar(Op::Add, {x, builder.constant(value)});
    builder.store(add_sequence(plan, Role::Output, 0, 1), true, sum);
    const std::string text = kernel_text(plan, builder.finish());
    EXPECT_NE(text.find("(v0 + " + literal + ");"), std::string::npos) << literal << "\n" << text;
  }
}

TEST(EmitCuda, UnitIncludesNothingAndHasNoNames) {
  Plan plan = empty_plan(DType::f32);
  const std::string nasty = "int asm __shared__ */ \"); \n#include <x>";
  plan.name = nasty;
  add_every_op(plan, 8);
  for (Buffer& buffer : plan.buffers) buffer.name = nasty;
  for (Kernel& kernel : plan.kernels) kernel.name = nasty;
  for (Stage& stage : plan.stages) stage.name = nasty;
  const Result<std::string> source = emit_cuda(plan);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EXPECT_EQ(source->find("#include"), std::string::npos);
  EXPECT_EQ(source->find("asm __shared__"), std::string::npos);
  EXPECT_NE(source->find("k0("), std::string::npos);
  EXPECT_NE(source->find("rnnc_end_chunk"), std::string::npos);
}

/// With so many inputs, their sum is the output, times its own sum if it `reduces`.
Plan sum_of_arrays(uint32_t count, bool reduces) {
  Plan plan = empty_plan(DType::f32);
  KernelBuilder builder(plan, 8);
  uint32_t sum = builder.constant(0);
  for (uint32_t i = 0; i < count; ++i) {
    const Access input = add_sequence(plan, Role::Input, i, 8);
    sum = builder.scalar(Op::Add, {sum, builder.load(input, true)});
  }
  if (reduces) sum = builder.scalar(Op::Mul, {sum, builder.reduce(Op::Sum, sum)});
  builder.store(add_sequence(plan, Role::Output, 0, 8), true, sum);
  kernel_text(plan, builder.finish());
  return plan;
}

TEST(EmitCuda, WorksOutRowsOfManyArraysWhereTheyAreNeeded) {
  for (const uint32_t count : {8, 300}) {
    SCOPED_TRACE(count);
    const Result<std::string> unit = emit_cuda(sum_of_arrays(count, /*reduces=*/false));
    ASSERT_TRUE(unit.has_value()) << unit.error().message;
    EXPECT_EQ(unit->find("* const a7 = ") != std::string::npos, count == 8) << *unit;
    EXPECT_EQ(unit->find("rnnc_row_of_many<const float>(") != std::string::npos, count == 300);
    EXPECT_EQ(unit->find("T* rnnc_row_of_many(") != std::string::npos, count == 300);
  }
}

TEST(EmitCuda, BlocksFindTheirRowsOfArraysOnce) {
  for (const uint32_t count : {3, 4, 40, 300}) {
    SCOPED_TRACE(count);
    const Result<std::string> unit = emit_cuda(sum_of_arrays(count, /*reduces=*/true));
    ASSERT_TRUE(unit.has_value()) << unit.error().message;
    EXPECT_EQ(unit->find("* const a2 = ") != std::string::npos, count == 3) << *unit;
    EXPECT_EQ(unit->find("void rnnc_find_rows(") != std::string::npos, count > 3);
    EXPECT_EQ(unit->find("rnnc_place<const float>(places[2]) + e") != std::string::npos, count > 3);
  }
}

TEST(EmitCuda, BlocksCheckRowsThatMayLieAnywhere) {
  Plan plan = empty_plan(DType::bf16);
  KernelBuilder builder(plan, 512);
  const uint32_t x = builder.load(add_sequence(plan, Role::Input, 0, 512), true);
  const uint32_t u = builder.load(add_buffer(plan, Extent::Chunk, DType::f32, 512), true);
  const uint32_t mask = builder.load(add_buffer(plan, Extent::Chunk, DType::f32, 1), false);
  const uint32_t y = builder.scalar(Op::Mul, {builder.scalar(Op::Add, {x, u}), mask});
  builder.store(add_sequence(plan, Role::Output, 0, 512), true, y);
  builder.store(add_sequence(plan, Role::Output, 1, 1), false, builder.reduce(Op::Sum, y));
  const std::string text = kernel_text(plan, builder.finish());
  // Of 4 bytes: arguments 1 and 2. From the caller: 0 and 3, and 4, of which there is no packet.
  expect_text(text,
              "rnnc_find_rows<5>(rows.frame, arrays.of, {{0x6}}, {{0x9}}, 2, places, misaligned)");
  expect_text(text, "if ((misaligned) == 0) {");
}

TEST(EmitCuda, RefusesWhatGpusDoNotDo) {
  const Result<std::string> f64 = emit_cuda(empty_plan(DType::f64));
  ASSERT_FALSE(f64.has_value());
  EXPECT_EQ(f64.error().message, "f64 runs on the CPU only; on a GPU use f32, bf16 or f16");

  Plan plan = empty_plan(DType::f32);
  KernelBuilder builder(plan, 1);
  uint32_t sum = builder.constant(0);
  for (uint32_t i = 0; i <= kMostArrays; ++i) {
    const Access input = add_sequence(plan, Role::Input, i, 1);
    sum = builder.scalar(Op::Add, {sum, builder.load(input, true)});
  }
  builder.finish();
  const Result<std::string> large = emit_cuda(plan);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().message,
            "one step reads and writes 1001 arrays; on a GPU at most 1000 work");
}

TEST(CudaGrid, CoversEveryElementOnce) {
  Kernel kernel;
  for (const int64_t length : {1, 7, 128, 300, 1 << 20, 1 << 30, INT32_MAX}) {
    kernel.length = length;
    const int items = length % 4 == 0 ? 4 : length > 128 ? 8 : 1;
    const CudaKernelShape shape = cuda_kernel_shape(kernel, items);
    for (const int64_t rows : {1, 3, 1000, 65535}) {
      if (rows > cuda_most_rows(length)) continue;
      const CudaGrid grid = cuda_grid(shape, rows);
      EXPECT_EQ(grid.rows.count, rows);
      EXPECT_LE(grid.y, 65535u);
      EXPECT_GE(int64_t{grid.y} * grid.rows.per_slice, rows);
      EXPECT_LT((int64_t{grid.y} - 1) * grid.rows.per_slice, rows);
      const int64_t elements = int64_t{grid.x} * shape.threads * items;
      EXPECT_GE(elements, int64_t{grid.rows.per_slice} * length);
      // Indices within a slice, those of idle threads too, are 32-bit.
      EXPECT_LE(elements, int64_t{UINT32_MAX});
    }
  }
}

TEST(CudaGrid, ReductionsSpreadARowOverOneBlock) {
  Kernel kernel;
  Instruction sum;
  sum.kind = Instruction::Kind::Reduce;
  sum.op = Op::Sum;
  kernel.body.push_back(sum);
  for (const int64_t length : {1, 3, 7, 32, 33, 256, 257, 300, 1000, 4096, 5000, 100000}) {
    kernel.length = length;
    const CudaKernelShape shape = cuda_kernel_shape(kernel);
    EXPECT_TRUE(shape.row_block);
    EXPECT_EQ(shape.threads % 32, 0);
    EXPECT_LE(shape.threads, 1024);
    EXPECT_GE(int64_t{shape.threads} * shape.items, length);
    EXPECT_LT(int64_t{shape.threads} * (shape.items - 1), length);
    EXPECT_EQ(cuda_grid(shape, 12).x, 12u);
  }
}

}  // namespace
}  // namespace rnnc::test
