// 1. Take every fused launch, and every product of a Step stage for few rows as a fused launch
//    whose kernel stores the result.
// 2. Launches with the same kernel and products of the same sizes and alignments share a shape.
// 3. For each shape, choose a tile and emit its kernel.
#include "codegen/cuda/fused_kernels.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "codegen/cuda/emit_fused.h"
#include "codegen/cuda/fused_tile.h"
#include "codegen/cuda/prelude.h"

namespace rnnc {
namespace {

constexpr int64_t kMostParameterBytes = 32764;
constexpr int64_t kMostInstances = 16;
/// Of the batch: above, a library's products are the faster ones.
constexpr int64_t kMostProductRows = 32;

/// A launch of the plan, and where it stands.
struct Candidate {
  const void* address = nullptr;
  uint32_t sweep = 0;
  uint32_t lag = 0;
  size_t stage = 0;
};

/// Launches that share a kernel.
struct Group {
  const Kernel* kernel = nullptr;
  std::vector<FusedProduct> products;
  std::vector<Candidate> candidates;
};

/// The largest power of two up to 16 by which bytes at multiples of all of these are aligned.
int copy_bytes(const Buffer& buffer, std::initializer_list<int64_t> elements) {
  const auto element = static_cast<int64_t>(size_of(buffer.dtype));
  // The caller's arrays are aligned to their elements only, others to more than 16 bytes.
  if (buffer.placement == Placement::Caller) return static_cast<int>(element);
  int64_t bits = 16;
  for (const int64_t count : elements) bits |= count * element;
  return static_cast<int>(bits & -bits);
}

class Collector {
 public:
  explicit Collector(const Plan& plan) : plan_(plan) {}

  void collect(std::unordered_map<const void*, CudaFusedKernels::Parameters>& parameters) {
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      const Stage& stage = plan_.stages[i];
      if (stage.domain != Domain::Step) continue;
      for (const Launch& launch : stage.launches) {
        const Candidate candidate = {.sweep = stage.sweep, .lag = stage.lag, .stage = i};
        if (const auto* fused = std::get_if<FusedLaunch>(&launch)) {
          add(*fused, plan_.kernels[fused->kernel], fused, candidate, parameters);
        } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch); gemm && is_ours(*gemm)) {
          add(as_fused(*gemm), *storing_kernel(*gemm), gemm, candidate, parameters);
        }
      }
    }
  }
  const std::vector<Group>& groups() const { return groups_; }

 private:
  bool is_ours(const GemmLaunch& gemm) const {
    return !gemm.transposed && plan_.batch <= kMostProductRows && gemm.repeats <= kMostFusedResults;
  }

  /// The kernel of a product whose results are stored as they are, or added to what is there.
  const Kernel* storing_kernel(const GemmLaunch& gemm) {
    const auto [found, is_new] =
        storing_.try_emplace({gemm.n * gemm.blocks, gemm.repeats, gemm.accumulate});
    Kernel& kernel = found->second;
    if (!is_new) return &kernel;
    const DType dtype = compute_type(plan_.dtype);
    const auto repeats = static_cast<uint32_t>(gemm.repeats);
    kernel.length = gemm.n * gemm.blocks;
    const auto add = [&kernel](Instruction instruction) {
      instruction.vector = true;
      kernel.body.push_back(std::move(instruction));
      return static_cast<uint32_t>(kernel.body.size() - 1);
    };
    kernel.arguments.assign(repeats, {.dtype = dtype, .vector = true, .product = true});
    for (uint32_t r = 0; r < repeats; ++r) {
      uint32_t value = add({.kind = Instruction::Kind::Load, .argument = r, .operands = {}});
      if (gemm.accumulate) {
        const auto argument = static_cast<uint32_t>(kernel.arguments.size());
        kernel.arguments.push_back({.dtype = dtype, .vector = true});
        const uint32_t old =
            add({.kind = Instruction::Kind::Load, .argument = argument, .operands = {}});
        value = add({.kind = Instruction::Kind::Scalar, .op = Op::Add, .operands = {old, value}});
      }
      const auto argument = static_cast<uint32_t>(kernel.arguments.size());
      kernel.arguments.push_back({.dtype = dtype, .vector = true, .written = true});
      add({.kind = Instruction::Kind::Store, .argument = argument, .operands = {value}});
    }
    return &kernel;
  }

  FusedLaunch as_fused(const GemmLaunch& gemm) {
    FusedLaunch fused;
    const auto repeats = static_cast<uint32_t>(gemm.repeats);
    fused.accesses.resize(repeats);
    for (uint32_t r = 0; r < repeats; ++r) {
      Access out = gemm.out;
      out.column += r * gemm.blocks * gemm.n;
      for (int i = 0; i < (gemm.accumulate ? 2 : 1); ++i) fused.accesses.push_back(out);
    }
    fused.products.push_back({.left = gemm.left,
                              .weight = gemm.weight,
                              .k = gemm.k,
                              .blocks = gemm.blocks,
                              .first_argument = 0,
                              .members = repeats});
    return fused;
  }

  void add(const FusedLaunch& launch, const Kernel& kernel, const void* address,
           Candidate candidate,
           std::unordered_map<const void*, CudaFusedKernels::Parameters>& parameters) {
    CudaFusedKernels::Parameters& mine = parameters[address];
    std::vector<uint32_t> results(kernel.arguments.size());  // by argument: results before it
    uint32_t count = 0;
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      results[i] = count;
      if (kernel.arguments[i].product) {
        ++count;
      } else {
        mine.accesses.push_back(launch.accesses[i]);
      }
    }
    std::vector<FusedProduct> products;
    for (const FusedLaunch::Product& product : launch.products) {
      const Access& left = product.left;
      const Access& weight = product.weight;
      products.push_back(
          {.k = product.k,
           .blocks = product.blocks,
           .first = results[product.first_argument],
           .members = product.members,
           .left_copy =
               copy_bytes(plan_.buffers[left.buffer], {product.k, left.column, left.stride}),
           .weight_copy = copy_bytes(plan_.buffers[weight.buffer], {product.k, weight.column})});
      mine.accesses.push_back(left);
      mine.accesses.push_back(weight);
    }
    candidate.address = address;
    const auto [found, is_new] =
        shapes_.try_emplace({&kernel, products}, static_cast<uint32_t>(groups_.size()));
    if (is_new) groups_.push_back({.kernel = &kernel, .products = products, .candidates = {}});
    groups_[found->second].candidates.push_back(candidate);
    mine.shape = found->second;
  }

  const Plan& plan_;
  std::map<std::tuple<int64_t, int64_t, bool>, Kernel> storing_;
  std::map<std::pair<const Kernel*, std::vector<FusedProduct>>, uint32_t> shapes_;
  std::vector<Group> groups_;
};

/// The greatest number of different values that `member` has among candidates of one sweep.
template <typename Member>
int64_t most_in_a_sweep(const Group& group, Member Candidate::* member) {
  std::map<uint32_t, std::set<Member>> values;
  for (const Candidate& candidate : group.candidates) {
    values[candidate.sweep].insert(candidate.*member);
  }
  size_t most = 0;
  for (const auto& [sweep, found] : values) most = std::max(most, found.size());
  return static_cast<int64_t>(most);
}

FusedWork work_of(const Plan& plan, const Group& group) {
  FusedWork work = {.dtype = plan.dtype, .tf32 = plan.tf32, .batch = plan.batch, .products = {}};
  for (const FusedProduct& product : group.products) {
    work.segments = std::lcm(work.segments, product.blocks);
    work.products.push_back({.k = product.k, .members = product.members});
  }
  work.segment_length = group.kernel->length / work.segments;
  work.results = std::ranges::count_if(group.kernel->arguments, &Kernel::Argument::product);
  // Layers of a wavefront, which differ in their lags, are launched as one.
  work.instances = most_in_a_sweep(group, &Candidate::lag);
  return work;
}

}  // namespace

CudaFusedKernels::CudaFusedKernels(const Plan& plan) {
  Collector collector(plan);
  collector.collect(parameters_);
  for (const Group& group : collector.groups()) {
    const FusedWork work = work_of(plan, group);
    const auto arrays =
        static_cast<int64_t>(group.kernel->arguments.size() + 2 * group.products.size()) -
        work.results;
    const int64_t bytes =
        static_cast<int64_t>(sizeof(CudaRows)) + arrays * static_cast<int64_t>(sizeof(CudaAccess));
    if (work.results > kMostFusedResults || bytes > kMostParameterBytes) {
      status_ = fail(
          "one step makes {} products and touches {} arrays at once; on a GPU at most "
          "{} and {} work",
          work.results, arrays, kMostFusedResults, kCudaMaxArguments);
      return;
    }
    const FusedTile tile = choose_fused_tile(work);
    const int64_t instances = std::min(
        {most_in_a_sweep(group, &Candidate::stage), kMostInstances, kMostParameterBytes / bytes});
    const CudaFusedShape shape = {
        .name = fmt::format("f{}", shapes_.size()),
        .threads = static_cast<uint32_t>(tile.threads()),
        .shared_bytes = static_cast<uint32_t>(tile.shared_bytes(work.tensor_cores())),
        .tiles = static_cast<uint32_t>(tile.tiles(work)),
        .row_tiles = static_cast<uint32_t>(tile.row_tiles(work)),
        .most_instances = static_cast<uint32_t>(instances),
        .instance_bytes = static_cast<uint32_t>(bytes)};
    if (shapes_.empty()) code_ += kCudaFused;
    code_ += '\n';
    code_ += emit_fused_kernel(*group.kernel, group.products, work, tile, shape);
    shapes_.push_back(shape);
  }
}

const CudaFusedKernels::Parameters* CudaFusedKernels::of(const GemmLaunch& launch) const {
  const auto found = parameters_.find(&launch);
  return found == parameters_.end() ? nullptr : &found->second;
}

}  // namespace rnnc
