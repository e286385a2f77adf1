// A product runs over B rows in a step, and over a chunk's C * B rows in a sequence, which a total
// adds up: one in parts in equal pieces (library_products.cpp). What is left of a
// sequence after its full chunks is run in pieces of 2^i steps, so that a few shapes, all known
// beforehand, serve every length. Nothing is a step earlier than the first step: a total of such
// rows leaves it out.
#include "runtime/cuda/plan_products.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "ir/plan/alignment.h"
#include "ir/plan/waves.h"

namespace rnnc::cuda {
namespace {

/// What the caller's buffers are usually aligned to.
constexpr uint32_t kUsualAlignment = 16;

}  // namespace

Result<PlanProducts> PlanProducts::prepare(const Plan& plan, const CudaModule& module,
                                           CudaContext& context) {
  PlanProducts products(plan);
  Status status;
  for_each_launch(plan, [&](LaunchId id, const Launch& launch) {
    const std::optional<LibraryProduct> product = library_product(plan, launch);
    if (status && product && module.fused(id) == nullptr) {
      status = products.add(id, *product, context);
    }
  });
  if (!status) return tl::unexpected(status.error());
  return products;
}

Status PlanProducts::add(LaunchId id, const LibraryProduct& operands, CudaContext& context) {
  if (context.lt == nullptr) {
    Result<std::unique_ptr<CublasLt>> lt = CublasLt::create(context.device);
    if (!lt) return tl::unexpected(lt.error());
    context.lt = std::move(*lt);
  }
  std::vector<int64_t> counts =
      row_counts(plan_.stages[id.stage].domain, operands.once_rows, operands.most_steps);
  if (operands.earlier && plan_.chunk > 1) counts.push_back((plan_.chunk - 1) * plan_.batch);
  std::vector<ProductUse> uses;
  for (const int64_t rows : counts) {
    for (const ProductAlignment& alignment : alignments(operands, rows)) {
      uses.push_back({rows * operands.row_parts, alignment});
    }
  }
  Result<Product> product = Product::prepare(*context.lt, operands.shape, uses);
  if (!product) return tl::unexpected(product.error());
  products_.emplace(id, Planned{operands, std::move(*product)});
  return {};
}

std::vector<int64_t> PlanProducts::row_counts(Domain domain, int64_t once_rows,
                                              int64_t most_steps) const {
  if (!is_of_sweeps(domain)) return {once_rows};
  if (domain == Domain::Step) return {plan_.batch};
  std::vector<int64_t> counts = {most_steps * plan_.batch};
  const int64_t last = plan_.chunk % most_steps;
  if (last > 0) counts.push_back(last * plan_.batch);
  for (int64_t steps = 1; steps < most_steps; steps *= 2) counts.push_back(steps * plan_.batch);
  return counts;
}

/// Of row 0 of every block and repeat, which are `apart` elements from one another.
uint32_t PlanProducts::alignment(const Access& access, int64_t apart,
                                 uint32_t caller_alignment) const {
  const Buffer& buffer = plan_.buffers[access.buffer];
  const auto element = static_cast<int64_t>(size_of(buffer.dtype));
  int64_t result = buffer.placement == Placement::Caller ? caller_alignment : kBufferAlignment;
  result = std::gcd(result, access.column * element);
  result = std::gcd(result, apart * element);
  // Row 0 lies some steps into the buffer.
  if (buffer.extent == Extent::Chunk || buffer.extent == Extent::Steps) {
    result = std::gcd(result, plan_.batch * buffer.width * element);
  }
  return static_cast<uint32_t>(result);
}

/// Of columns from any multiple of so many steps on.
uint32_t PlanProducts::turned_alignment(const LibraryProduct& operands, int64_t steps) const {
  const int64_t elements = steps * plan_.batch * operands.row_parts;
  const auto element = static_cast<int64_t>(size_of(plan_.dtype));
  return static_cast<uint32_t>(std::gcd(int64_t{kBufferAlignment}, elements * element));
}

/// Best first. Pieces of turned columns begin where they are aligned, but for single steps behind
/// two others, and where no piece has steps enough for that.
std::vector<ProductAlignment> PlanProducts::alignments(const LibraryProduct& operands,
                                                       int64_t rows) const {
  const auto element = static_cast<uint32_t>(size_of(plan_.dtype));
  const auto out_element = static_cast<uint32_t>(size_of(plan_.buffers[operands.out.buffer].dtype));
  const int64_t apart = operands.turned ? turned_steps(plan_) : 1;
  const bool anywhere = rows == plan_.batch || operands.most_steps % apart != 0;
  std::vector<ProductAlignment> result;
  for (const bool aligned_caller : {true, false}) {
    const uint32_t caller = aligned_caller ? kUsualAlignment : element;
    const uint32_t out = aligned_caller ? kUsualAlignment : out_element;
    for (const int64_t steps : {apart, anywhere ? int64_t{1} : apart}) {
      const ProductAlignment next = {
          .left = alignment(operands.left, operands.left_apart, caller),
          .weight = operands.turned ? turned_alignment(operands, steps)
                                    : alignment(operands.weight, operands.weight_apart, caller),
          .out = alignment(operands.out, operands.out_apart, out)};
      if (std::ranges::find(result, next) == result.end()) result.push_back(next);
    }
  }
  return result;
}

size_t PlanProducts::workspace_bytes() const {
  size_t bytes = 0;
  for (const auto& [id, planned] : products_) {
    bytes = std::max(bytes, planned.product.workspace_bytes());
  }
  return bytes;
}

Status PlanProducts::warm_up(const CudaDevice& device, const DeviceAllocator& allocator,
                             void* workspace, cudaStream_t stream) {
  if (products_.empty()) return {};
  constexpr auto bytes_of = [](int64_t count, size_t element) {
    return aligned_size(static_cast<size_t>(count) * element);
  };
  const size_t element = size_of(plan_.dtype);
  size_t left = 0;
  size_t weight = 0;
  size_t out = 0;
  for (const auto& [id, planned] : products_) {
    const Product& product = planned.product;
    left = std::max(left, bytes_of(product.left_elements(), element));
    weight = std::max(weight, bytes_of(product.weight_elements(), element));
    out = std::max(out, bytes_of(product.out_elements(), sizeof(float)));
  }
  const Result<DeviceMemory> memory =
      DeviceMemory::allocate(device, allocator, left + weight + out);
  if (!memory) return tl::unexpected(memory.error());
  const ProductPointers scratch{.left = memory->data(),
                                .weight = memory->data() + left,
                                .out = memory->data() + left + weight};
  Status status = check_cuda(
      cudaMemsetAsync(memory->data(), Product::kTestByte, left + weight, stream), "clearing");
  for (auto& [id, planned] : products_) {
    Product& product = planned.product;
    if (status && device.under_mps) {
      status = product.replace_wrong_algorithms(scratch, workspace, stream);
    }
    if (status) status = product.warm_up(scratch, workspace, stream);
  }
  // Before the scratch memory goes.
  const Status done = check_cuda(cudaStreamSynchronize(stream), "multiplying");
  return status ? done : status;
}

Status PlanProducts::clear(const LibraryProduct& operands, const Addresses& addresses,
                           cudaStream_t stream) const {
  const ProductShape& shape = operands.shape;
  const int64_t elements = shape.blocks * shape.m * shape.n;
  return check_cuda(cudaMemsetAsync(addresses.pointer(operands.out, {}), 0,
                                    static_cast<size_t>(elements) * sizeof(float), stream),
                    "clearing a total");
}

Status PlanProducts::run(LaunchId id, int64_t rows, const Addresses& addresses,
                         LaunchPosition position, void* workspace, cudaStream_t stream,
                         bool opens) const {
  const Planned& planned = products_.at(id);
  const LibraryProduct& operands = planned.operands;
  const auto element = static_cast<int64_t>(size_of(plan_.dtype));
  int64_t done = 0;  // rows
  const auto run_at = [&](int64_t count, LaunchPosition at) -> Status {
    Access weight = operands.weight;
    Access out = operands.out;
    const int64_t back = operands.earlier ? plan_.batch * weight.stride * element : 0;
    for (int64_t repeat = 0; repeat < operands.repeats; ++repeat) {
      const ProductPointers pointers{
          .left = addresses.pointer(operands.left, at),
          .weight = operands.turned ? addresses.start(weight) + done * operands.row_parts * element
                                    : addresses.pointer(weight, at) - back,
          .out = addresses.pointer(out, at)};
      Status status =
          planned.product.run(count * operands.row_parts, pointers, workspace, stream, opens);
      if (!status) return status;
      weight.column += operands.blocks * operands.weight_apart;
      out.column += operands.blocks * operands.out_apart;
    }
    return {};
  };
  if (plan_.stages[id.stage].domain != Domain::Sequence) return run_at(rows, position);
  int64_t steps = rows / plan_.batch;
  if (operands.earlier && step_at(plan_, addresses.steps(), position) == 0) {
    if (--steps == 0 && opens) return clear(operands, addresses, stream);
    position.step += plan_.descending ? -1 : 1;
  }
  const int64_t last = rows == plan_.chunk * plan_.batch ? steps % operands.most_steps : 0;
  while (steps > 0) {
    const auto floor = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(steps)));
    const int64_t piece = steps >= operands.most_steps ? operands.most_steps
                          : steps == last              ? last
                                                       : floor;
    if (Status status = run_at(piece * plan_.batch, position); !status) return status;
    opens = false;
    done += piece * plan_.batch;
    position.step += plan_.descending ? -piece : piece;
    steps -= piece;
  }
  return {};
}

}  // namespace rnnc::cuda
