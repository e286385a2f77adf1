// 1. Find the products of Sequence and Step stages whose operands or results have rows that are not
//    aligned, as far as their left operand can be:
//    a. a temporary, by a wider row (its pad is zero in resident memory, ir/plan.h);
//    b. of a Sequence stage, by a copy of the chunk in front of the product, if that costs less than
//       it saves. Products of one stage share it.
// 2. Results get wider rows, too. Where nothing but such products writes them, n grows with them.
// 3. Weights are copied once, row by row, zeros first. Where weights are stacked for such a product
//    alone, they are stacked that way.
// 4. All accesses of a buffer get its new stride.
#include "passes/padding.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "ir/plan_accesses.h"
#include "ir/plan_touches.h"
#include "passes/cost.h"
#include "passes/kernel_builder.h"

namespace rnnc {
namespace {

constexpr int64_t kAlignedBytes = 16;
/// On an H200 products of rows that are not aligned take 3 to 50 times as long as others.
constexpr double kLeastGain = 2;
constexpr int64_t kUsualChunk = 256;

constexpr int64_t round_up(int64_t count, int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

class Padding {
 public:
  Padding(Plan& plan, const Machine& machine, const PaddingOptions& options)
      : plan_(plan),
        machine_(machine),
        options_(options),
        unit_(unit_of(plan.dtype)),
        result_unit_(unit_of(compute_type(plan.dtype))),
        usual_(plan) {
    usual_.chunk = std::clamp<int64_t>(options.max_steps, 1, kUsualChunk);
  }

  bool run() {
    find_products();
    if (products_.empty()) return false;
    for (Product& product : products_) pad_left(product);
    pad_results();
    pad_weights();
    for (const Product& product : products_) {
      GemmLaunch& launch = launch_of(product);
      launch.k = product.k;
      launch.n = product.n;
    }
    set_strides();
    insert_launches();
    return true;
  }

 private:
  enum class Left : uint8_t { Keep, Widen, Copy };

  struct Product {
    size_t stage = 0;
    size_t launch = 0;
    Left left = Left::Keep;
    int64_t k = 0;  // that it will have
    int64_t n = 0;
  };

  /// Of a weight, as it is and as it will be.
  struct Matrix {
    int64_t rows = 0;
    int64_t length = 0;
    int64_t new_rows = 0;
    int64_t stride = 0;
    bool zeros = false;  // behind its rows and below them
    friend auto operator<=>(const Matrix&, const Matrix&) = default;
  };

  static int64_t unit_of(DType dtype) {
    return kAlignedBytes / static_cast<int64_t>(size_of(dtype));
  }

  GemmLaunch& launch_of(const Product& product) {
    return std::get<GemmLaunch>(plan_.stages[product.stage].launches[product.launch]);
  }
  const GemmLaunch& launch_of(const Product& product) const {
    return std::get<GemmLaunch>(plan_.stages[product.stage].launches[product.launch]);
  }
  const Buffer& buffer_of(const Access& access) const { return plan_.buffers[access.buffer]; }

  // ---- Step 1 ----

  void find_products() {
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      const Stage& stage = plan_.stages[i];
      if (stage.domain == Domain::Once || !has_rows(stage)) continue;
      for (size_t j = 0; j < stage.launches.size(); ++j) {
        const auto* gemm = std::get_if<GemmLaunch>(&stage.launches[j]);
        if (gemm == nullptr || gemm->blocks * gemm->repeats > 1) continue;
        if (std::min(gemm->n, gemm->k) < options_.least_size || is_aligned(*gemm)) continue;
        const std::optional<Left> left = choose_left(stage, *gemm);
        if (!left) continue;
        products_.push_back({i, j, *left, padded_k(*gemm, *left), gemm->n});
      }
    }
  }

  bool has_rows(const Stage& stage) const {
    if (stage.domain == Domain::Step) return plan_.batch >= options_.least_step_rows;
    return plan_.batch * options_.max_steps >= options_.least_rows;
  }

  static bool is_aligned(const Access& access, int64_t length, int64_t unit) {
    return access.column % unit == 0 && length % unit == 0;
  }

  bool is_left_aligned(const GemmLaunch& gemm) const {
    return is_aligned(gemm.left, gemm.left.stride, unit_) &&
           (!options_.multiply_pads || gemm.k % unit_ == 0);
  }

  bool is_aligned(const GemmLaunch& gemm) const {
    return is_left_aligned(gemm) &&
           is_aligned(gemm.weight, gemm.transposed ? gemm.n : gemm.k, unit_) &&
           is_aligned(gemm.out, gemm.out.stride, result_unit_);
  }

  std::optional<Left> choose_left(const Stage& stage, const GemmLaunch& gemm) const {
    if (is_left_aligned(gemm)) return Left::Keep;
    const bool widens = can_widen(gemm.left);
    if (widens && (!options_.multiply_pads || reaches_pad(gemm))) return Left::Widen;
    if (stage.domain == Domain::Sequence && pays_copy(stage, gemm)) return Left::Copy;
    return widens ? std::optional(Left::Widen) : std::nullopt;
  }

  bool can_widen(const Access& left) const {
    const Buffer& buffer = buffer_of(left);
    return buffer.role == Role::Temporary && left.column % unit_ == 0 &&
           (buffer.extent == Extent::Chunk || buffer.extent == Extent::Batch);
  }

  /// Nothing lies between what the product reads and the pad.
  bool reaches_pad(const GemmLaunch& gemm) const {
    return gemm.k % unit_ == 0 || gemm.left.column + gemm.k == buffer_of(gemm.left).width;
  }

  bool pays_copy(const Stage& stage, const GemmLaunch& gemm) const {
    const auto elements = static_cast<double>(usual_.chunk * plan_.batch * gemm.k);
    const double bytes = 2 * elements * static_cast<double>(size_of(plan_.dtype));
    const double copy = machine_.launch_seconds + bytes / machine_.memory_bandwidth;
    return copy <= kLeastGain * cost_of(usual_, stage, gemm, machine_).seconds;
  }

  /// The k that the product will have.
  int64_t padded_k(const GemmLaunch& gemm, Left left) const {
    const bool pads = options_.multiply_pads && (left == Left::Copy || reaches_pad(gemm));
    return pads ? round_up(gemm.k, unit_) : gemm.k;
  }

  void pad_left(Product& product) {
    const GemmLaunch& gemm = launch_of(product);
    if (product.left == Left::Widen) {
      widen(gemm.left.buffer, unit_);
      if (product.k > gemm.k) plan_.buffers[gemm.left.buffer].placement = Placement::Resident;
    } else if (product.left == Left::Copy) {
      const Access copy = copy_of(product);
      launch_of(product).left = copy;
    }
  }

  void widen(BufferId id, int64_t unit) {
    Buffer& buffer = plan_.buffers[id];
    const int64_t values = buffer.width - buffer.pad;
    buffer.width = round_up(values, unit);
    buffer.pad = buffer.width - values;
    widened_.insert(id);
  }

  /// Of the chunk that it reads.
  Access copy_of(const Product& product) {
    const GemmLaunch& gemm = launch_of(product);
    const Access source = gemm.left;
    const std::tuple key(product.stage, source.buffer, source.delay, source.column, gemm.k);
    const auto [found, fresh] = copies_.try_emplace(key);
    if (!fresh) return found->second;
    Buffer buffer = {.name = buffer_of(source).name, .dtype = plan_.dtype, .extent = Extent::Chunk};
    buffer.width = round_up(gemm.k, unit_);
    buffer.pad = buffer.width - gemm.k;
    if (product.k > gemm.k) buffer.placement = Placement::Resident;
    const Access target = {.buffer = add(std::move(buffer)), .stride = round_up(gemm.k, unit_)};
    found->second = target;
    KernelBuilder builder(plan_, gemm.k);
    builder.store(target, /*vector=*/true, builder.load(source, /*vector=*/true));
    before_[{product.stage, product.launch}].emplace_back(builder.finish());
    return target;
  }

  BufferId add(Buffer buffer) {
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(plan_.buffers.size() - 1);
  }

  // ---- Step 2 ----

  void pad_results() {
    std::map<BufferId, std::vector<Product*>> writers;
    for (Product& product : products_) {
      writers[launch_of(product).out.buffer].push_back(&product);
    }
    for (auto& [id, products] : writers) {
      const Buffer& buffer = plan_.buffers[id];
      if (buffer.role != Role::Temporary) continue;
      int64_t unit = result_unit_;
      for (const Product* product : products) {
        if (launch_of(*product).transposed) unit = std::max(unit, unit_);
      }
      const bool grows = may_grow(id, products);
      widen(id, grows ? unit : result_unit_);
      if (!grows) continue;
      plan_.buffers[id].pad = 0;
      for (Product* product : products) product->n = plan_.buffers[id].width;
    }
  }

  /// Whether products write the whole rows of a buffer and are all that does, and no pad is needed
  /// that is zero. Their weights change anyway.
  bool may_grow(BufferId id, const std::vector<Product*>& products) const {
    if (!options_.multiply_pads || widened_.contains(id)) return false;
    const int64_t width = plan_.buffers[id].width;
    const bool all = std::ranges::all_of(products, [&](const Product* product) {
      const GemmLaunch& gemm = launch_of(*product);
      return gemm.out.column == 0 && gemm.n == width &&
             !is_aligned(gemm.weight, gemm.transposed ? gemm.n : gemm.k, unit_);
    });
    return all && count_writes(id) == products.size();
  }

  size_t count_writes(BufferId id) const {
    size_t count = 0;
    for_each_touch([&](const Touch& touch) {
      if (touch.write && touch.access.buffer == id) ++count;
    });
    return count;
  }

  template <typename Visit>
  void for_each_touch(const Visit& visit) const {
    for (const Stage& stage : plan_.stages) {
      for (const Launch& launch : stage.launches) {
        std::ranges::for_each(touches(plan_, launch), visit);
      }
    }
    for (const StatePlan& state : plan_.states) {
      for (const auto* launch : {&state.init_given, &state.init_declared, &state.write_final}) {
        std::ranges::for_each(touches(plan_, *launch), visit);
      }
    }
  }

  // ---- Step 3 ----

  Matrix matrix_of(const Product& product) const {
    const GemmLaunch& gemm = launch_of(product);
    Matrix matrix;
    matrix.rows = gemm.transposed ? gemm.k : gemm.n;
    matrix.length = gemm.transposed ? gemm.n : gemm.k;
    matrix.new_rows = gemm.transposed ? product.k : product.n;
    matrix.stride = round_up(matrix.length, unit_);
    matrix.zeros = product.k > gemm.k || product.n > gemm.n;
    return matrix;
  }

  void pad_weights() {
    using Weight = std::tuple<BufferId, int64_t, Matrix>;
    std::map<Weight, std::vector<Product*>> users;
    for (Product& product : products_) {
      const Access& weight = launch_of(product).weight;
      const Matrix matrix = matrix_of(product);
      if (is_aligned(weight, matrix.length, unit_) && !matrix.zeros) continue;
      users[{weight.buffer, weight.column, matrix}].push_back(&product);
    }
    std::set<Weight> stacks;
    for (const auto& [weight, products] : users) {
      const Matrix& matrix = std::get<Matrix>(weight);
      if (can_stack(launch_of(*products[0]).weight, matrix)) stacks.insert(weight);
    }
    for (const auto& [weight, products] : users) {
      const Matrix& matrix = std::get<Matrix>(weight);
      const GemmLaunch& gemm = launch_of(*products[0]);
      const BufferId id = stacks.contains(weight) ? stack(gemm.weight.buffer, matrix)
                                                  : copy_weight(gemm, matrix);
      for (Product* product : products) {
        const int64_t length = gemm.transposed ? product->n : product->k;
        launch_of(*product).weight = {.buffer = id,
                                      .stride = matrix.stride == length ? 0 : matrix.stride};
      }
    }
  }

  /// Whether a buffer is there for such products alone, and copies of whole rows make it.
  bool can_stack(const Access& weight, const Matrix& matrix) const {
    const Buffer& buffer = buffer_of(weight);
    if (buffer.role != Role::Temporary || buffer.width != matrix.rows * matrix.length) return false;
    const auto reads_it = [&](const Product& product) {
      const GemmLaunch& gemm = launch_of(product);
      return gemm.weight.buffer == weight.buffer && matrix_of(product) == matrix;
    };
    std::ptrdiff_t uses = std::ranges::count_if(products_, reads_it);
    for (const Stage& stage : plan_.stages) {
      for (const Launch& launch : stage.launches) {
        if (is_copy_of_rows(launch, weight.buffer, matrix)) ++uses;
      }
    }
    for_each_touch([&](const Touch& touch) { uses -= touch.access.buffer == weight.buffer; });
    return uses == 0;
  }

  static bool is_copy_of_rows(const Launch& launch, BufferId target, const Matrix& matrix) {
    const auto* copy = std::get_if<CopyLaunch>(&launch);
    return copy != nullptr && copy->target.buffer == target && !copy->transposed &&
           copy->target.column % matrix.length == 0 &&
           copy->rows * copy->columns % matrix.length == 0;
  }

  BufferId stack(BufferId id, const Matrix& matrix) {
    plan_.buffers[id].width = matrix.new_rows * matrix.stride;
    bool first = true;
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      for (size_t j = 0; j < plan_.stages[i].launches.size(); ++j) {
        Launch& launch = plan_.stages[i].launches[j];
        if (!is_copy_of_rows(launch, id, matrix)) continue;
        if (std::exchange(first, false) && matrix.zeros) {
          before_[{i, j}].emplace_back(zeros(id, matrix));
        }
        const auto& copy = std::get<CopyLaunch>(launch);
        const Access target = {
            .buffer = id, .column = copy.target.column / matrix.length * matrix.stride};
        launch = copy_rows(copy.source, target, matrix, copy.rows * copy.columns / matrix.length);
      }
    }
    return id;
  }

  BufferId copy_weight(const GemmLaunch& gemm, const Matrix& matrix) {
    const BufferId id = add({.name = buffer_of(gemm.weight).name,
                             .dtype = plan_.dtype,
                             .placement = Placement::Resident,
                             .extent = Extent::Invariant,
                             .width = matrix.new_rows * matrix.stride});
    if (matrix.zeros) once_.emplace_back(zeros(id, matrix));
    once_.emplace_back(copy_rows(gemm.weight, {.buffer = id}, matrix, matrix.rows));
    return id;
  }

  ElementwiseLaunch zeros(BufferId id, const Matrix& matrix) {
    KernelBuilder builder(plan_, matrix.stride);
    builder.store({.buffer = id, .stride = matrix.stride}, /*vector=*/true, builder.constant(0));
    return builder.finish(matrix.new_rows);
  }

  ElementwiseLaunch copy_rows(Access source, Access target, const Matrix& matrix, int64_t rows) {
    source.stride = matrix.length;
    target.stride = matrix.stride;
    KernelBuilder builder(plan_, matrix.length);
    builder.store(target, /*vector=*/true, builder.load(source, /*vector=*/true));
    return builder.finish(rows);
  }

  // ---- Step 4 ----

  void set_strides() {
    const auto set = [this](Access& access) {
      if (widened_.contains(access.buffer)) access.stride = plan_.buffers[access.buffer].width;
    };
    for (Stage& stage : plan_.stages) {
      for (Launch& launch : stage.launches) for_each_access(launch, set);
    }
    for (auto& [place, launches] : before_) {
      for (Launch& launch : launches) for_each_access(launch, set);
    }
    for (StatePlan& state : plan_.states) {
      for (auto* launch : {&state.init_given, &state.init_declared, &state.write_final}) {
        std::ranges::for_each(launch->accesses, set);
      }
    }
  }

  void insert_launches() {
    for (auto place = before_.rbegin(); place != before_.rend(); ++place) {
      std::vector<Launch>& launches = plan_.stages[place->first.first].launches;
      const auto at = launches.begin() + static_cast<std::ptrdiff_t>(place->first.second);
      launches.insert(at, place->second.begin(), place->second.end());
    }
    if (once_.empty()) return;
    const auto is_once = [](const Stage& stage) { return stage.domain == Domain::Once; };
    auto end = std::ranges::find_if_not(plan_.stages, is_once);
    if (end == plan_.stages.begin()) {
      end = plan_.stages.insert(end, Stage{.domain = Domain::Once}) + 1;
    }
    std::vector<Launch>& last = (end - 1)->launches;
    last.insert(last.end(), once_.begin(), once_.end());
  }

  Plan& plan_;
  const Machine& machine_;
  const PaddingOptions& options_;
  int64_t unit_;         // elements of the storage type that rows are multiples of
  int64_t result_unit_;  // and of the compute type
  Plan usual_;           // as it was, with a chunk of a usual length
  std::vector<Product> products_;
  std::set<BufferId> widened_;
  std::map<std::tuple<size_t, BufferId, uint32_t, int64_t, int64_t>, Access> copies_;
  std::map<std::pair<size_t, size_t>, std::vector<Launch>> before_;  // by stage and launch
  std::vector<Launch> once_;                                         // at the end of Once stages
};

}  // namespace

bool run_padding(Plan& plan, const Machine& machine, const PaddingOptions& options) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  return Padding(plan, machine, options).run();
}

}  // namespace rnnc
