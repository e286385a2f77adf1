// 1. Find the products of Sequence stages, those together that have one left operand in a stage:
//    it is split once.
// 2. Of each, reckon what a call takes less if it is split. (On an H200 the input products of an
//    LSTM of 1024 in batches of 16 take 2.7 of 7.25 us a step in f32; three times their k in TF32
//    takes about 1.05.) Those that gain are split if together they gain more than it takes to split
//    the left operand, chunk by chunk.
// 3. Put the launch that splits the left operand in front of the first product of it.
// 4. Split each weight once, turned round before if it is transposed. Several repeats of a product
//    become one of more columns.
#include "passes/plan/split_gemms.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "ir/base/arithmetic.h"
#include "ir/plan/waves.h"
#include "passes/cost/cost.h"
#include "passes/plan/once_stages.h"

namespace rnnc {
namespace {

constexpr int64_t kPartUnit = 4;  // elements of 16 bytes
constexpr int64_t kUsualChunk = 256;

int64_t part_of(const GemmLaunch& gemm) {
  return round_up(gemm.k, kPartUnit);
}

/// Of all repeats.
int64_t columns_of(const GemmLaunch& gemm) {
  return gemm.n * gemm.repeats;
}

bool can_split(const GemmLaunch& gemm) {
  return gemm.blocks == 1 && gemm.weight.stride == 0 && !(gemm.transposed && gemm.repeats > 1);
}

Buffer left_buffer(const Plan& plan, const GemmLaunch& gemm) {
  return {.name = "parts of " + plan.buffers[gemm.left.buffer].name,
          .extent = Extent::Chunk,
          .width = kSplitParts * part_of(gemm)};
}

Buffer weight_buffer(const Plan& plan, const GemmLaunch& gemm) {
  return {.name = "parts of " + plan.buffers[gemm.weight.buffer].name,
          .placement = Placement::Resident,
          .extent = Extent::Invariant,
          .width = columns_of(gemm) * kSplitParts * part_of(gemm)};
}

SplitLaunch split_left(const GemmLaunch& gemm, BufferId target) {
  const int64_t part = part_of(gemm);
  return {.source = gemm.left,
          .target = {.buffer = target, .stride = kSplitParts * part},
          .length = gemm.k,
          .part = part};
}

/// Of one whose rows are those of the product: it is not transposed.
SplitLaunch split_weight(const GemmLaunch& gemm, const Access& weight, BufferId target) {
  const int64_t part = part_of(gemm);
  SplitLaunch launch{.source = weight,
                     .target = {.buffer = target, .stride = kSplitParts * part},
                     .length = gemm.k,
                     .part = part,
                     .weight = true,
                     .once_rows = columns_of(gemm)};
  launch.source.stride = gemm.k;
  return launch;
}

GemmLaunch product_of_parts(GemmLaunch gemm, BufferId left, BufferId weight) {
  const int64_t k = kSplitParts * part_of(gemm);
  gemm.n = columns_of(gemm);
  gemm.repeats = 1;
  gemm.transposed = false;
  gemm.left = {.buffer = left, .stride = k};
  gemm.weight = {.buffer = weight};
  gemm.k = k;
  gemm.tf32 = true;
  return gemm;
}

BufferId add(Plan& plan, Buffer buffer) {
  plan.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(plan.buffers.size() - 1);
}

class SplitGemms {
 public:
  SplitGemms(Plan& plan, const Machine& machine, const SplitGemmsOptions& options)
      : plan_(plan), machine_(machine), options_(options), usual_(plan) {
    usual_.chunk = std::clamp<int64_t>(options.max_steps, 1, kUsualChunk);
    const int64_t chunks = chunks_of(usual_, options.max_steps);
    chunks_ = static_cast<double>(chunks);
  }

  bool run() {
    for (Stage& stage : plan_.stages) {
      if (stage.domain == Domain::Sequence) split_products(stage);
    }
    if (once_.empty()) return false;
    append_once(plan_, once_);
    return true;
  }

 private:
  /// Buffer, delay, column and k.
  using Left = std::tuple<BufferId, uint32_t, int64_t, int64_t>;

  // ---- Steps 1 and 2 ----

  void split_products(Stage& stage) {
    std::map<Left, std::vector<size_t>> products;  // launches
    for (size_t i = 0; i < stage.launches.size(); ++i) {
      const auto* gemm = std::get_if<GemmLaunch>(&stage.launches[i]);
      if (gemm == nullptr || !can_split(*gemm)) continue;
      const Access& left = gemm->left;
      products[{left.buffer, left.delay, left.column, gemm->k}].push_back(i);
    }
    std::map<size_t, SplitLaunch> before;  // launches
    for (const auto& [left, launches] : products) {
      const std::vector<size_t> chosen = choose(stage, launches);
      if (!chosen.empty()) before.emplace(chosen[0], split(stage, chosen));
    }
    for (auto at = before.rbegin(); at != before.rend(); ++at) {
      stage.launches.insert(stage.launches.begin() + static_cast<std::ptrdiff_t>(at->first),
                            at->second);
    }
  }

  /// Those of one left operand that are to be split.
  std::vector<size_t> choose(const Stage& stage, const std::vector<size_t>& launches) const {
    if (options_.always) return launches;
    std::vector<size_t> chosen;
    double gain = 0;
    for (const size_t i : launches) {
      const double one = gain_of(stage, std::get<GemmLaunch>(stage.launches[i]));
      if (one <= 0) continue;
      chosen.push_back(i);
      gain += one;
    }
    if (chosen.empty()) return {};
    const auto& first = std::get<GemmLaunch>(stage.launches[chosen[0]]);
    Plan trial = usual_;
    const SplitLaunch left = split_left(first, add(trial, left_buffer(trial, first)));
    const double seconds = cost_of(trial, stage, left, machine_).seconds;
    return gain > chunks_ * seconds ? chosen : std::vector<size_t>();
  }

  /// Seconds of a call, but for splitting the left operand.
  double gain_of(const Stage& stage, const GemmLaunch& gemm) const {
    Plan trial = usual_;
    const BufferId left = add(trial, left_buffer(trial, gemm));
    const BufferId weight = add(trial, weight_buffer(trial, gemm));
    const double exact = cost_of(usual_, stage, gemm, machine_).seconds;
    const double parts =
        cost_of(trial, stage, product_of_parts(gemm, left, weight), machine_).seconds;
    const Stage once{.domain = Domain::Once};
    const double once_seconds =
        cost_of(trial, once, split_weight(gemm, gemm.weight, weight), machine_).seconds;
    return chunks_ * (exact - parts) - once_seconds;
  }

  // ---- Steps 3 and 4 ----

  /// Gives the launch that splits the left operand.
  SplitLaunch split(Stage& stage, const std::vector<size_t>& launches) {
    const auto& first = std::get<GemmLaunch>(stage.launches[launches[0]]);
    const BufferId left = add(plan_, left_buffer(plan_, first));
    const SplitLaunch launch = split_left(first, left);
    for (const size_t i : launches) {
      auto& gemm = std::get<GemmLaunch>(stage.launches[i]);
      gemm = product_of_parts(gemm, left, weight_of(gemm));
    }
    return launch;
  }

  /// Its weight, split.
  BufferId weight_of(const GemmLaunch& gemm) {
    const std::tuple key(gemm.weight.buffer, gemm.weight.column, columns_of(gemm), gemm.k,
                         gemm.transposed);
    const auto [found, fresh] = weights_.try_emplace(key);
    if (!fresh) return found->second;
    Access source = gemm.weight;
    if (gemm.transposed) {
      const BufferId turned = add(plan_, {.name = plan_.buffers[source.buffer].name,
                                          .placement = Placement::Resident,
                                          .extent = Extent::Invariant,
                                          .width = gemm.n * gemm.k});
      once_.emplace_back(CopyLaunch{.source = source,
                                    .target = {.buffer = turned},
                                    .rows = gemm.k,
                                    .columns = gemm.n,
                                    .transposed = true});
      source = {.buffer = turned};
    }
    found->second = add(plan_, weight_buffer(plan_, gemm));
    once_.emplace_back(split_weight(gemm, source, found->second));
    return found->second;
  }

  Plan& plan_;
  const Machine& machine_;
  const SplitGemmsOptions& options_;
  Plan usual_;  // as it was, with a chunk of a usual length
  double chunks_ = 1;
  std::map<std::tuple<BufferId, int64_t, int64_t, int64_t, bool>, BufferId> weights_;
  std::vector<Launch> once_;  // at the end of Once stages
};

}  // namespace

bool run_split_gemms(Plan& plan, const Machine& machine, const SplitGemmsOptions& options) {
  if (machine.kind != Machine::Kind::Cuda || plan.dtype != DType::f32 || plan.tf32) return false;
  return SplitGemms(plan, machine, options).run();
}

}  // namespace rnnc
