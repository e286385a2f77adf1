// 1. Find the products of Sequence stages and the totals of outer products, those together that have
//    one left operand in a stage: it is split once.
// 2. Of each, reckon what a call takes less if it is split. (On an H200 the input products of an
//    LSTM of 1024 in batches of 16 take 2.7 of 7.25 us a step in f32; three times their k in TF32
//    takes about 1.05.) Those that gain are split if together they gain more than it takes to split
//    the left operand, chunk by chunk.
// 3. Put the launches that split an operand of a chunk in front of the first product of it: the
//    left ones, and the right ones of totals.
// 4. Split each weight once, turned round before if it is transposed. Several repeats of a product
//    become one of more columns.
// Of plans that round to TF32 the right operands of totals are turned, where that takes less than
// it gains. So are those in parts, where columns can be aligned.
#include "passes/plan/split_gemms.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "ir/base/arithmetic.h"
#include "ir/plan/waves.h"
#include "passes/cost/cost.h"
#include "passes/lower/once_stages.h"

namespace rnnc {
namespace {

constexpr int64_t kPartUnit = 4;  // elements of 16 bytes

int64_t part_of(int64_t length) {
  return round_up(length, kPartUnit);
}

/// Of all repeats.
int64_t columns_of(const GemmLaunch& gemm) {
  return gemm.n * gemm.repeats;
}

bool can_split(const Plan&, const GemmLaunch& gemm) {
  return gemm.blocks == 1 && gemm.weight.stride == 0 && !(gemm.transposed && gemm.repeats > 1);
}

bool can_split(const Plan& plan, const TotalLaunch& total) {
  return total.right.buffer != kNoBuffer && total.blocks == 1 && !total.earlier &&
         plan.batch <= kMostSplitRows;
}

/// Whether a call has pieces of a total whose columns begin every multiple of 16 bytes: of parts
/// only so many rows are added up at once.
bool can_turn(const Plan& plan, const SplitGemmsOptions& options) {
  const int64_t most =
      plan.tf32 ? options.max_steps : std::min(options.max_steps, kMostSplitRows / plan.batch);
  return turned_steps(plan) <= most;
}

/// What varies, and is read row by row.
struct Operand {
  Access access;
  int64_t length = 0;
  bool weight = false;  // the right one of a total
  bool turned = false;
  int64_t parts = kSplitParts;

  auto key() const {
    return std::tuple(access.buffer, access.delay, access.column, length, weight, turned);
  }
};

Operand left_of(const GemmLaunch& gemm) {
  return {gemm.left, gemm.k};
}
Operand left_of(const TotalLaunch& total) {
  return {total.left, total.m};
}
Operand right_of(const Plan& plan, const TotalLaunch& total, bool turned) {
  return {.access = total.right,
          .length = total.n,
          .weight = true,
          .turned = turned,
          .parts = plan.tf32 ? 1 : kSplitParts};
}

/// Of a launch that can be split.
std::optional<Operand> left_of(const Plan& plan, const Launch& launch) {
  return std::visit(
      [&](const auto& product) -> std::optional<Operand> {
        if constexpr (requires { left_of(product); }) {
          if (can_split(plan, product)) return left_of(product);
        }
        return std::nullopt;
      },
      launch);
}

Buffer parts_buffer(const Plan& plan, const Operand& operand) {
  return {.name = "parts of " + plan.buffers[operand.access.buffer].name,
          .extent = Extent::Chunk,
          .width = operand.parts * part_of(operand.length),
          .turned = operand.turned};
}

Buffer weight_buffer(const Plan& plan, const GemmLaunch& gemm) {
  return {.name = "parts of " + plan.buffers[gemm.weight.buffer].name,
          .placement = Placement::Program,
          .extent = Extent::Invariant,
          .width = columns_of(gemm) * kSplitParts * part_of(gemm.k)};
}

SplitLaunch split_operand(const Operand& operand, BufferId target) {
  const int64_t part = part_of(operand.length);
  return {.source = operand.access,
          .target = {.buffer = target, .stride = operand.parts * part},
          .length = operand.length,
          .part = part,
          .weight = operand.weight,
          .parts = operand.parts,
          .turned = operand.turned};
}

/// Of one whose rows are those of the product: it is not transposed.
SplitLaunch split_weight(const GemmLaunch& gemm, const Access& weight, BufferId target) {
  const int64_t part = part_of(gemm.k);
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
  const int64_t k = kSplitParts * part_of(gemm.k);
  gemm.n = columns_of(gemm);
  gemm.repeats = 1;
  gemm.transposed = false;
  gemm.left = {.buffer = left, .stride = k};
  gemm.weight = {.buffer = weight};
  gemm.k = k;
  gemm.tf32 = true;
  return gemm;
}

TotalLaunch total_of_right(TotalLaunch total, const Operand& operand, BufferId right) {
  total.right = {.buffer = right, .stride = operand.parts * part_of(total.n)};
  total.turned = operand.turned;
  return total;
}

TotalLaunch total_of_parts(const TotalLaunch& total, BufferId left, const Operand& operand,
                           BufferId right) {
  TotalLaunch result = total_of_right(total, operand, right);
  result.left = {.buffer = left, .stride = kSplitParts * part_of(total.m)};
  result.in_parts = true;
  return result;
}

BufferId add(Plan& plan, Buffer buffer) {
  plan.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(plan.buffers.size() - 1);
}

class SplitGemms {
 public:
  SplitGemms(Plan& plan, const Machine& machine, const SplitGemmsOptions& options)
      : plan_(plan),
        machine_(machine),
        options_(options),
        turns_(can_turn(plan, options)),
        usual_(with_usual_chunk(plan, options.max_steps)),
        cache_(usual_) {
    const int64_t chunks = chunks_of(usual_, options.max_steps);
    chunks_ = static_cast<double>(chunks);
  }

  bool run() {
    for (Stage& stage : plan_.stages) {
      if (stage.domain != Domain::Sequence) continue;
      if (plan_.tf32) {
        turn_totals(stage);
      } else {
        split_products(stage);
      }
    }
    if (!once_.empty()) append_once(plan_, once_);
    return changed_;
  }

 private:
  using Key = decltype(std::declval<Operand>().key());

  /// A plan that gets buffers for as long as this lives.
  class Trial {
   public:
    Trial(Plan& plan, const CacheUse& cache)
        : plan_(plan), cache_(cache), buffers_(plan.buffers.size()) {}
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;
    ~Trial() { plan_.buffers.resize(buffers_); }

    BufferId add(Buffer buffer) {
      cache_.add(plan_, buffer);
      return rnnc::add(plan_, std::move(buffer));
    }
    double seconds_of(const Stage& stage, const Launch& launch, const Machine& machine) const {
      return cost_of(plan_, cache_, stage, launch, machine).seconds;
    }

   private:
    Plan& plan_;
    CacheUse cache_;
    size_t buffers_;
  };

  // ---- Steps 1 and 2 ----

  void split_products(Stage& stage) {
    std::map<Key, std::vector<size_t>> products;  // launches
    for (size_t i = 0; i < stage.launches.size(); ++i) {
      if (const auto left = left_of(plan_, stage.launches[i])) products[left->key()].push_back(i);
    }
    parts_.clear();
    before_.clear();
    for (const auto& [left, launches] : products) {
      for (const size_t i : choose(stage, launches)) split(stage, i);
    }
    insert_before(stage);
  }

  Operand right_of(const TotalLaunch& total) const { return rnnc::right_of(plan_, total, turns_); }

  void turn_totals(Stage& stage) {
    if (!turns_) return;
    parts_.clear();
    before_.clear();
    for (size_t i = 0; i < stage.launches.size(); ++i) {
      auto* total = std::get_if<TotalLaunch>(&stage.launches[i]);
      if (total == nullptr || !can_split(plan_, *total)) continue;
      const Operand right = right_of(*total);
      if (!options_.always && gain_of_turning(stage, *total) <= 0) continue;
      *total = total_of_right(*total, right, parts_before(i, right));
    }
    insert_before(stage);
  }

  void insert_before(Stage& stage) {
    changed_ = changed_ || !before_.empty();
    for (auto at = before_.rbegin(); at != before_.rend(); ++at) {
      stage.launches.insert(stage.launches.begin() + static_cast<std::ptrdiff_t>(at->first),
                            at->second);
    }
  }

  /// Those of one left operand that are to be split, in order.
  std::vector<size_t> choose(const Stage& stage, const std::vector<size_t>& launches) {
    if (options_.always) return launches;
    std::vector<size_t> chosen;
    double gain = 0;
    for (const size_t i : launches) {
      const auto* gemm = std::get_if<GemmLaunch>(&stage.launches[i]);
      const double one = gemm != nullptr ? gain_of(stage, *gemm)
                                         : gain_of(stage, std::get<TotalLaunch>(stage.launches[i]));
      if (one <= 0) continue;
      chosen.push_back(i);
      gain += one;
    }
    if (chosen.empty()) return {};
    const Operand left = *left_of(plan_, stage.launches[chosen[0]]);
    return gain > chunks_ * split_seconds(stage, left) ? chosen : std::vector<size_t>();
  }

  double split_seconds(const Stage& stage, const Operand& operand) {
    Trial trial(usual_, cache_);
    const SplitLaunch launch = split_operand(operand, trial.add(parts_buffer(usual_, operand)));
    return trial.seconds_of(stage, launch, machine_);
  }

  /// As it is.
  double exact_seconds(const Stage& stage, const Launch& launch) {
    return Trial(usual_, cache_).seconds_of(stage, launch, machine_);
  }

  /// Seconds of a call, but for splitting the left operand.
  double gain_of(const Stage& stage, const GemmLaunch& gemm) {
    const double exact = exact_seconds(stage, gemm);
    Trial trial(usual_, cache_);
    const BufferId left = trial.add(parts_buffer(usual_, left_of(gemm)));
    const BufferId weight = trial.add(weight_buffer(usual_, gemm));
    const double parts = trial.seconds_of(stage, product_of_parts(gemm, left, weight), machine_);
    const double once_seconds = trial.seconds_of({.domain = Domain::Once},
                                                 split_weight(gemm, gemm.weight, weight), machine_);
    return chunks_ * (exact - parts) - once_seconds;
  }

  double gain_of(const Stage& stage, const TotalLaunch& total) {
    const double exact = exact_seconds(stage, total);
    const Operand operand = right_of(total);
    const double split = split_seconds(stage, operand);
    Trial trial(usual_, cache_);
    const BufferId left = trial.add(parts_buffer(usual_, left_of(total)));
    const BufferId right = trial.add(parts_buffer(usual_, operand));
    const double parts =
        trial.seconds_of(stage, total_of_parts(total, left, operand, right), machine_);
    return chunks_ * (exact - parts - split);
  }

  double gain_of_turning(const Stage& stage, const TotalLaunch& total) {
    const Operand right = right_of(total);
    const double across = exact_seconds(stage, total);
    const double split = split_seconds(stage, right);
    Trial trial(usual_, cache_);
    const BufferId target = trial.add(parts_buffer(usual_, right));
    const double along = trial.seconds_of(stage, total_of_right(total, right, target), machine_);
    return across - along - split;
  }

  // ---- Steps 3 and 4 ----

  void split(Stage& stage, size_t index) {
    if (auto* gemm = std::get_if<GemmLaunch>(&stage.launches[index])) {
      const BufferId left = parts_before(index, left_of(*gemm));
      *gemm = product_of_parts(*gemm, left, weight_of(*gemm));
    } else {
      auto& total = std::get<TotalLaunch>(stage.launches[index]);
      const Operand right = right_of(total);
      const BufferId left = parts_before(index, left_of(total));
      total = total_of_parts(total, left, right, parts_before(index, right));
    }
  }

  /// An operand's, made in front of this launch at the latest.
  BufferId parts_before(size_t launch, const Operand& operand) {
    const auto [found, fresh] = parts_.try_emplace(operand.key(), kNoBuffer);
    BufferId& target = found->second;
    if (fresh) target = add(plan_, parts_buffer(plan_, operand));
    const auto made = std::ranges::find_if(
        before_, [&](const auto& split) { return split.second.target.buffer == target; });
    if (made != before_.end() && made->first <= launch) return target;
    if (made != before_.end()) before_.erase(made);
    before_.emplace(launch, split_operand(operand, target));
    return target;
  }

  /// Its weight, split.
  BufferId weight_of(const GemmLaunch& gemm) {
    const std::tuple key(gemm.weight.buffer, gemm.weight.column, columns_of(gemm), gemm.k,
                         gemm.transposed);
    const auto [found, fresh] = weights_.try_emplace(key);
    if (!fresh) return found->second;
    const Access source = gemm.transposed ? turn_weight(plan_, gemm, once_) : gemm.weight;
    found->second = add(plan_, weight_buffer(plan_, gemm));
    once_.emplace_back(split_weight(gemm, source, found->second));
    return found->second;
  }

  Plan& plan_;
  const Machine& machine_;
  const SplitGemmsOptions& options_;
  const bool turns_;      // right operands of totals
  Plan usual_;            // as it was, with a chunk of a usual length
  const CacheUse cache_;  // of that
  double chunks_ = 1;
  bool changed_ = false;
  std::map<std::tuple<BufferId, int64_t, int64_t, int64_t, bool>, BufferId> weights_;
  std::vector<Launch> once_;  // at the end of Once stages
  // Of the stage that is looked at: operands' parts, and the launches that these are made before.
  std::map<Key, BufferId> parts_;
  std::multimap<size_t, SplitLaunch> before_;
};

}  // namespace

bool run_split_gemms(Plan& plan, const Machine& machine, const SplitGemmsOptions& options) {
  if (machine.kind != Machine::Kind::Cuda || plan.dtype != DType::f32) return false;
  return SplitGemms(plan, machine, options).run();
}

}  // namespace rnnc
