// 1. Take every fused launch, and every product that is for a kernel of ours as a fused launch
//    whose kernel stores the result.
// 2. Part each launch's kernel into what it computes and what it stores. Launches that compute the
//    same of products of the same sizes and alignments share a shape.
// 3. A shape's kernel has the stores of all its launches; each leaves out those that are not its.
// 4. For each shape, choose a tile and emit its kernel.
#include "codegen/cuda/fused/fused_kernels.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "codegen/cuda/device/prelude.h"
#include "codegen/cuda/elementwise/kernel_traits.h"
#include "codegen/cuda/fused/emit_fused.h"
#include "codegen/cuda/fused/fused_tile.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr int64_t kMostInstances = 16;

/// What a kernel stores, whatever the place.
struct Stored {
  uint32_t value = 0;  // instruction of the kernel without stores
  bool vector = false;
  DType dtype = DType::f32;
  friend auto operator<=>(const Stored&, const Stored&) = default;
};

/// A launch of the plan: when it runs, and where its arrays lie.
struct Candidate {
  LaunchId id;
  uint32_t sweep = 0;
  uint32_t lag = 0;
  std::vector<Access> loads;
  std::multimap<Stored, Access> stores;
  std::vector<Access> operands;  // `left` and `weight` of each product
};

/// Launches that share a kernel.
struct Group {
  FusedKernel kernel;  // without stores until all candidates are there
  std::vector<Candidate> candidates;
};

/// The kernel of a product whose results are stored as they are, or added to what is there.
Kernel storing_kernel(const GemmLaunch& gemm, DType dtype) {
  Kernel kernel;
  const auto repeats = static_cast<uint32_t>(gemm.repeats);
  kernel.length = gemm.n * gemm.blocks;
  const auto add = [&kernel](Instruction instruction) {
    instruction.vector = true;
    kernel.body.push_back(std::move(instruction));
    return static_cast<uint32_t>(kernel.body.size() - 1);
  };
  kernel.arguments.assign(repeats, {.dtype = dtype, .vector = true, .product = true});
  for (uint32_t r = 0; r < repeats; ++r) {
    uint32_t value = add({.kind = Kind::Load, .argument = r, .operands = {}});
    if (gemm.accumulate) {
      const auto argument = static_cast<uint32_t>(kernel.arguments.size());
      kernel.arguments.push_back({.dtype = dtype, .vector = true});
      const uint32_t old = add({.kind = Kind::Load, .argument = argument, .operands = {}});
      value = add({.kind = Kind::Scalar, .op = Op::Add, .operands = {old, value}});
    }
    const auto argument = static_cast<uint32_t>(kernel.arguments.size());
    kernel.arguments.push_back({.dtype = dtype, .vector = true, .written = true});
    add({.kind = Kind::Store, .argument = argument, .operands = {value}});
  }
  return kernel;
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

/// Step 2: the kernel without stores. The candidate gets the accesses.
Kernel part(const Kernel& kernel, const std::vector<Access>& accesses, Candidate& candidate) {
  Kernel result;
  result.length = kernel.length;
  std::vector<uint32_t> arguments(kernel.arguments.size());  // old index → new index
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    if (kernel.arguments[i].written) continue;
    arguments[i] = static_cast<uint32_t>(result.arguments.size());
    result.arguments.push_back(kernel.arguments[i]);
    if (!kernel.arguments[i].product) candidate.loads.push_back(accesses[i]);
  }
  std::vector<uint32_t> values;  // old index → new index
  for (Instruction instruction : kernel.body) {
    values.push_back(static_cast<uint32_t>(result.body.size()));
    for (uint32_t& operand : instruction.operands) operand = values[operand];
    if (instruction.kind == Kind::Store) {
      const Kernel::Argument& argument = kernel.arguments[instruction.argument];
      candidate.stores.emplace(Stored{instruction.operands[0], argument.vector, argument.dtype},
                               accesses[instruction.argument]);
      continue;
    }
    if (instruction.kind == Kind::Load) instruction.argument = arguments[instruction.argument];
    result.body.push_back(std::move(instruction));
  }
  return result;
}

/// Equal for kernels that compute the same.
std::vector<uint64_t> key_of(const Kernel& kernel) {
  std::vector<uint64_t> key = {static_cast<uint64_t>(kernel.length), kernel.arguments.size()};
  const auto add = [&key](auto value) { key.push_back(static_cast<uint64_t>(value)); };
  for (const Kernel::Argument& argument : kernel.arguments) {
    add(argument.dtype);
    add(argument.vector);
    add(argument.product);
  }
  for (const Instruction& instruction : kernel.body) {
    add(instruction.kind);
    add(instruction.op);
    add(instruction.vector);
    add(instruction.argument);
    add(std::bit_cast<uint64_t>(instruction.value));
    add(instruction.operands.size());
    key.insert(key.end(), instruction.operands.begin(), instruction.operands.end());
  }
  return key;
}

class Collector {
 public:
  explicit Collector(const Plan& plan) : plan_(plan) {}

  std::vector<Group> run() {
    for_each_launch(plan_, [&](LaunchId id, const Launch& launch) {
      const Stage& stage = plan_.stages[id.stage];
      if (stage.domain != Domain::Step) return;
      Candidate candidate;
      candidate.id = id;
      candidate.sweep = stage.sweep;
      candidate.lag = stage.lag;
      if (const auto* fused = std::get_if<FusedLaunch>(&launch)) {
        add(*fused, plan_.kernels[fused->kernel], std::move(candidate));
      } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch); gemm && gemm->own) {
        add(as_fused(*gemm), storing_kernel(*gemm, compute_type(plan_.dtype)),
            std::move(candidate));
      }
    });
    return std::move(groups_);
  }

 private:
  void add(const FusedLaunch& launch, const Kernel& kernel, Candidate candidate) {
    FusedKernel parted;
    parted.kernel = part(kernel, launch.accesses, candidate);
    for (const FusedLaunch::Product& product : launch.products) {
      const Access& left = product.left;
      const Access& weight = product.weight;
      const auto before = kernel.arguments.begin() + product.first_argument;
      parted.products.push_back(
          {.k = product.k,
           .blocks = product.blocks,
           .first = static_cast<uint32_t>(
               std::count_if(kernel.arguments.begin(), before,
                             [](const Kernel::Argument& argument) { return argument.product; })),
           .members = product.members,
           .left_copy =
               copy_bytes(plan_.buffers[left.buffer], {product.k, left.column, left.stride}),
           .weight_copy = copy_bytes(plan_.buffers[weight.buffer], {product.k, weight.column})});
      candidate.operands.push_back(left);
      candidate.operands.push_back(weight);
    }
    const auto [found, is_new] =
        known_.try_emplace({key_of(parted.kernel), parted.products}, groups_.size());
    if (is_new) groups_.push_back({.kernel = std::move(parted), .candidates = {}});
    groups_[found->second].candidates.push_back(std::move(candidate));
  }

  const Plan& plan_;
  std::map<std::pair<std::vector<uint64_t>, std::vector<FusedProduct>>, size_t> known_;
  std::vector<Group> groups_;
};

/// Step 3: the kernel gets the stores of all candidates. Returns the accesses of each.
std::vector<std::vector<Access>> join_stores(Group& group) {
  struct Count {
    size_t least = SIZE_MAX;
    size_t most = 0;
  };
  std::map<Stored, Count> counts;
  std::vector<std::vector<Access>> accesses;
  for (const Candidate& candidate : group.candidates) {
    for (const auto& [stored, access] : candidate.stores) counts.try_emplace(stored);
    accesses.push_back(candidate.loads);
  }
  Kernel& kernel = group.kernel.kernel;
  for (auto& [stored, count] : counts) {
    for (size_t i = 0; i < group.candidates.size(); ++i) {
      const size_t mine = group.candidates[i].stores.count(stored);
      count.least = std::min(count.least, mine);
      count.most = std::max(count.most, mine);
    }
    for (size_t i = 0; i < group.candidates.size(); ++i) {
      auto [at, end] = group.candidates[i].stores.equal_range(stored);
      for (size_t j = 0; j < count.most; ++j) {
        accesses[i].push_back(at == end ? Access{} : (at++)->second);
      }
    }
    for (size_t j = 0; j < count.most; ++j) {
      const auto argument = static_cast<uint32_t>(kernel.arguments.size());
      if (j >= count.least) group.kernel.optional.insert(argument);
      kernel.arguments.push_back({.dtype = stored.dtype, .vector = stored.vector, .written = true});
      kernel.body.push_back({.kind = Kind::Store,
                             .vector = stored.vector,
                             .argument = argument,
                             .operands = {stored.value}});
    }
  }
  for (size_t i = 0; i < group.candidates.size(); ++i) {
    const std::vector<Access>& operands = group.candidates[i].operands;
    accesses[i].insert(accesses[i].end(), operands.begin(), operands.end());
  }
  return accesses;
}

/// The greatest number of different values that `member_of` gives of candidates of one sweep.
template <typename MemberOf>
int64_t most_in_a_sweep(const Group& group, const MemberOf& member_of) {
  std::map<uint32_t, std::set<size_t>> values;
  for (const Candidate& candidate : group.candidates) {
    values[candidate.sweep].insert(member_of(candidate));
  }
  size_t most = 0;
  for (const auto& [sweep, found] : values) most = std::max(most, found.size());
  return static_cast<int64_t>(most);
}

/// Finds what is `fixed` in all launches.
void find_fixed(const std::vector<std::vector<Access>>& launches, const std::vector<bool>& written,
                FusedKernel& fused) {
  size_t array = 0;
  for (uint32_t i = 0; i < fused.kernel.arguments.size(); ++i) {
    const Kernel::Argument& argument = fused.kernel.arguments[i];
    if (argument.product) continue;
    const bool is_fixed =
        !argument.written && std::ranges::none_of(launches, [&](const auto& accesses) {
          return written[accesses[array].buffer];
        });
    if (is_fixed) fused.fixed.insert(i);
    ++array;
  }
}

FusedWork work_of(const Plan& plan, const Group& group) {
  const Kernel& kernel = group.kernel.kernel;
  FusedWork work = {.dtype = plan.dtype, .tf32 = plan.tf32, .batch = plan.batch, .products = {}};
  for (const FusedProduct& product : group.kernel.products) {
    work.segments = std::lcm(work.segments, product.blocks);
    work.products.push_back({.k = product.k, .members = product.members});
  }
  work.segment_length = kernel.length / work.segments;
  work.results = std::ranges::count_if(kernel.arguments, &Kernel::Argument::product);
  // Layers of a wavefront, which differ in their lags, are launched as one.
  work.instances = most_in_a_sweep(group, [](const Candidate& one) { return one.lag; });
  return work;
}

}  // namespace

Status add_fused_kernels(const Plan& plan, std::string_view arch, CudaModule& module) {
  const std::vector<bool> written = written_by_steps(plan);
  size_t count = 0;
  for (Group& group : Collector(plan).run()) {
    std::vector<std::vector<Access>> accesses = join_stores(group);
    find_fixed(accesses, written, group.kernel);
    const FusedKernel& kernel = group.kernel;
    const FusedWork work = work_of(plan, group);
    const auto arrays =
        static_cast<int64_t>(kernel.kernel.arguments.size() + 2 * kernel.products.size()) -
        work.results;
    const int64_t bytes =
        static_cast<int64_t>(sizeof(CudaRows)) + arrays * static_cast<int64_t>(sizeof(CudaAccess));
    if (work.results > kMostResults || arrays > kMostArrays) {
      return fail(
          "one step makes {} products and touches {} arrays at once; on a GPU at most "
          "{} and {} work",
          work.results, arrays, kMostResults, kMostArrays);
    }
    const FusedTile tile = choose_fused_tile(work, most_shared_bytes(arch));
    const int64_t stages =
        most_in_a_sweep(group, [](const Candidate& one) { return one.id.stage; });
    const CudaFusedShape shape = {
        .threads = static_cast<uint32_t>(tile.threads()),
        .shared_bytes = static_cast<uint32_t>(tile.shared_bytes(work.tensor_cores())),
        .tiles = static_cast<uint32_t>(tile.tiles(work)),
        .row_tiles = static_cast<uint32_t>(tile.row_tiles(work)),
        .most_instances =
            static_cast<uint32_t>(std::min({stages, kMostInstances, kMostParameterBytes / bytes})),
        .instance_bytes = static_cast<uint32_t>(bytes)};
    const std::string name = fmt::format("f{}", count);
    if (count++ == 0) module.source += kCudaFused;
    module.source += '\n';
    module.source += emit_fused_kernel(kernel, work, tile, shape, name);
    const uint32_t index = module.add({name, shape});
    for (size_t i = 0; i < accesses.size(); ++i) {
      module.of(group.candidates[i].id) = {index, std::move(accesses[i])};
    }
  }
  return {};
}

}  // namespace rnnc
