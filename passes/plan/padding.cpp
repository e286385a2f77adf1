// 1. Find the products of Sequence and Step stages whose operands or results have rows that are not
//    aligned, those of fused launches too, as far as their left operand can be:
//    a. a temporary, by a wider row (its pad is zero in program memory, ir/plan/plan.h);
//    b. of a Sequence stage, by a copy of the chunk in front of the product, if that costs less
//       than it saves. Products of one stage share it.
// 2. Results get wider rows, too. Where nothing but such products writes them, n grows with them.
// 3. Weights are copied once, row by row, zeros first. Where weights are stacked for such a product
//    alone, they are stacked that way. Those that are split have more rows.
// 4. All accesses of a buffer get its new stride.
#include "passes/plan/padding.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "ir/base/arithmetic.h"
#include "ir/plan/buffer_uses.h"
#include "passes/lower/kernel_builder.h"
#include "passes/lower/once_stages.h"
#include "passes/plan/wider_rows.h"

namespace rnnc {
namespace {

class Padding {
 public:
  Padding(Plan& plan, const Machine& machine, const PaddingOptions& options)
      : plan_(plan),
        options_(options),
        unit_(unit_of(plan.dtype)),
        rows_(plan, machine, options.max_steps),
        uses_(plan) {}

  bool run() {
    find_products();
    if (products_.empty()) return false;
    for (const Product& product : products_) pad_left(product);
    pad_results();
    pad_weights();
    for (const Product& product : products_) {
      change(product, [&](auto& launch) {
        launch.k = product.k;
        if constexpr (requires { launch.n; }) launch.n = product.n;
      });
    }
    rows_.finish();
    append_once(plan_, once_);
    return true;
  }

 private:
  enum class Left : uint8_t { Keep, Widen, Copy };

  struct Product {
    size_t stage = 0;
    size_t launch = 0;
    size_t part = 0;  // of a FusedLaunch
    Left left = Left::Keep;
    int64_t k = 0;  // that it will have
    int64_t n = 0;
  };

  /// A product as it is. Those of a FusedLaunch have no place for their results.
  struct Operands {
    Access left, weight, out;
    int64_t n = 0;
    int64_t k = 0;
    bool transposed = false;
    int64_t row() const { return transposed ? n : k; }  // of the weight
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
    return kAlignedRowBytes / static_cast<int64_t>(size_of(dtype));
  }

  static Operands operands_of(const GemmLaunch& launch) {
    return {launch.left, launch.weight, launch.out, launch.n, launch.k, launch.transposed};
  }
  Operands operands_of(const FusedLaunch& launch, size_t part) const {
    const FusedLaunch::Product& product = launch.products[part];
    return {.left = product.left,
            .weight = product.weight,
            .out = {},
            .n = product.members * plan_.kernels[launch.kernel].length,
            .k = product.k};
  }
  Operands operands_of(const Product& product) const {
    const Launch& launch = plan_.stages[product.stage].launches[product.launch];
    const auto* gemm = std::get_if<GemmLaunch>(&launch);
    return gemm != nullptr ? operands_of(*gemm)
                           : operands_of(std::get<FusedLaunch>(launch), product.part);
  }

  /// Calls `change(launch)` with its GemmLaunch or FusedLaunch::Product.
  template <typename Change>
  void change(const Product& product, const Change& change) {
    Launch& launch = plan_.stages[product.stage].launches[product.launch];
    if (auto* gemm = std::get_if<GemmLaunch>(&launch)) return change(*gemm);
    change(std::get<FusedLaunch>(launch).products[product.part]);
  }
  const Buffer& buffer_of(const Access& access) const { return plan_.buffers[access.buffer]; }

  // ---- Step 1 ----

  void find_products() {
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      const Stage& stage = plan_.stages[i];
      if (!is_of_sweeps(stage.domain) || !has_rows(stage)) continue;
      for (size_t j = 0; j < stage.launches.size(); ++j) {
        if (const auto* gemm = std::get_if<GemmLaunch>(&stage.launches[j])) {
          if (gemm->blocks * gemm->repeats == 1) find_product(i, j, *gemm);
        } else if (const auto* fused = std::get_if<FusedLaunch>(&stage.launches[j])) {
          for (size_t part = 0; part < fused->products.size(); ++part) {
            find_product(i, j, *fused, part);
          }
        }
      }
    }
  }

  bool has_rows(const Stage& stage) const {
    return stage.domain == Domain::Step || plan_.batch * options_.max_steps >= options_.least_rows;
  }

  void find_product(size_t stage, size_t index, const GemmLaunch& launch) {
    const Operands product = operands_of(launch);
    if (std::min(product.n, product.k) < options_.least_size || is_aligned(product)) return;
    const std::optional<Left> left = choose_left(plan_.stages[stage], launch);
    if (left) products_.push_back({stage, index, 0, *left, padded_k(product, *left), product.n});
  }

  /// Its rows of weights lie one behind the other: they get pads only to be multiplied.
  void find_product(size_t stage, size_t index, const FusedLaunch& launch, size_t part) {
    const Operands product = operands_of(launch, part);
    if (launch.products[part].blocks > 1 || std::min(product.n, product.k) < options_.least_size ||
        product.k % unit_ == 0 || !can_widen(product.left) || !reaches_pad(product)) {
      return;
    }
    products_.push_back(
        {stage, index, part, Left::Widen, padded_k(product, Left::Widen), product.n});
  }

  static bool is_aligned(const Access& access, int64_t length, int64_t unit) {
    return access.column % unit == 0 && length % unit == 0;
  }

  bool is_left_aligned(const Operands& product) const {
    return is_aligned(product.left, product.left.stride, unit_) && product.k % unit_ == 0;
  }

  bool is_aligned(const Operands& product) const {
    return is_left_aligned(product) && is_aligned(product.weight, product.row(), unit_) &&
           is_aligned(product.out, product.out.stride, unit_of(buffer_of(product.out).dtype));
  }

  std::optional<Left> choose_left(const Stage& stage, const GemmLaunch& launch) const {
    const Operands product = operands_of(launch);
    if (is_left_aligned(product)) return Left::Keep;
    const bool widens = can_widen(product.left);
    if (widens && reaches_pad(product)) return Left::Widen;
    if (stage.domain == Domain::Sequence && rows_.pays_copy(stage, launch, product.k))
      return Left::Copy;
    // With a k as it is, products are the library's.
    const bool library = plan_.batch >= options_.least_library_rows;
    return widens && library ? std::optional(Left::Widen) : std::nullopt;
  }

  bool can_widen(const Access& left) const {
    const Buffer& buffer = buffer_of(left);
    return buffer.role == Role::Temporary && left.column % unit_ == 0 &&
           (buffer.extent == Extent::Chunk || buffer.extent == Extent::Batch);
  }

  /// Nothing lies between what the product reads and the pad.
  bool reaches_pad(const Operands& product) const {
    return product.k % unit_ == 0 ||
           product.left.column + product.k == buffer_of(product.left).width;
  }

  /// The k that the product will have.
  int64_t padded_k(const Operands& product, Left left) const {
    const bool pads = left == Left::Copy || reaches_pad(product);
    return pads ? round_up(product.k, unit_) : product.k;
  }

  void pad_left(const Product& product) {
    const Operands old = operands_of(product);
    if (product.left == Left::Widen) {
      rows_.widen(old.left.buffer, unit_);
      if (product.k > old.k) plan_.buffers[old.left.buffer].placement = Placement::Program;
    } else if (product.left == Left::Copy) {
      const Access copy = rows_.copy({product.stage, product.launch}, old.left, old.k,
                                     round_up(old.k, unit_), /*zeros=*/product.k > old.k);
      change(product, [&copy](auto& launch) { launch.left = copy; });
    }
  }

  BufferId add(Buffer buffer) {
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(plan_.buffers.size() - 1);
  }

  // ---- Step 2 ----

  void pad_results() {
    std::map<BufferId, std::vector<Product*>> writers;
    for (Product& product : products_) {
      const BufferId out = operands_of(product).out.buffer;
      if (out != kNoBuffer) writers[out].push_back(&product);
    }
    for (auto& [id, products] : writers) {
      const Buffer& buffer = plan_.buffers[id];
      if (buffer.role != Role::Temporary) continue;
      const int64_t result_unit = unit_of(buffer.dtype);
      int64_t unit = result_unit;
      for (const Product* product : products) {
        if (operands_of(*product).transposed) unit = std::max(unit, unit_);
      }
      const bool grows = may_grow(id, products);
      rows_.widen(id, grows ? unit : result_unit);
      if (!grows) continue;
      plan_.buffers[id].pad = 0;
      for (Product* product : products) product->n = plan_.buffers[id].width;
    }
  }

  /// Whether products write the whole rows of a buffer and are all that does, and no pad is needed
  /// that is zero. Their weights change anyway, can have more rows, or are copied for it: products in
  /// TF32 are worth that. (H200, [7200, 12048] @ [12048, 1001]: 8.5 ms, [7200, 12000] @ [12000, 1000]:
  /// 0.6 ms.)
  bool may_grow(BufferId id, const std::vector<Product*>& products) const {
    if (rows_.is_wider(id)) return false;
    const int64_t width = plan_.buffers[id].width;
    const bool all = std::ranges::all_of(products, [&](const Product* product) {
      const Operands old = operands_of(*product);
      const bool changes = !is_aligned(old.weight, old.row(), unit_) || is_split(old) || plan_.tf32;
      return old.out.column == 0 && old.n == width && changes;
    });
    return all && std::ranges::count_if(uses_.of(id), &BufferUse::write) == std::ssize(products);
  }

  // ---- Step 3 ----

  Matrix matrix_of(const Product& product) const {
    const Operands old = operands_of(product);
    Matrix matrix;
    matrix.rows = old.transposed ? old.k : old.n;
    matrix.length = old.row();
    matrix.new_rows = old.transposed ? product.k : product.n;
    matrix.stride = round_up(matrix.length, unit_);
    matrix.zeros = product.k > old.k || product.n > old.n;
    return matrix;
  }

  void pad_weights() {
    std::map<std::tuple<BufferId, int64_t, Matrix>, std::vector<Product*>> users;
    for (Product& product : products_) {
      const Access weight = operands_of(product).weight;
      const Matrix matrix = matrix_of(product);
      if (is_aligned(weight, matrix.length, unit_) && !matrix.zeros) continue;
      if (is_split(operands_of(product))) {
        add_rows(weight.buffer, matrix);
        continue;
      }
      users[{weight.buffer, weight.column, matrix}].push_back(&product);
    }
    std::map<BufferId, Matrix> stacks;
    for (const auto& [weight, products] : users) {
      const auto& [id, column, matrix] = weight;
      if (stacks.contains(id)) continue;
      if (const std::optional<Matrix> all = as_stack(id, matrix)) stacks.emplace(id, *all);
    }
    for (const auto& [id, all] : stacks) stack(id, all);
    for (const auto& [weight, products] : users) {
      const auto& [id, column, matrix] = weight;
      Access padded = {.buffer = id, .column = column / matrix.length * matrix.stride};
      if (!stacks.contains(id)) {
        padded = {.buffer = copy_weight({.buffer = id, .column = column}, matrix)};
      }
      for (const Product* product : products) {
        const int64_t row = operands_of(*product).transposed ? product->n : product->k;
        padded.stride = matrix.stride == row ? 0 : matrix.stride;
        change(*product, [&padded](auto& launch) {
          launch.weight = padded;
          if constexpr (requires { launch.own; }) launch.own = launch.own && padded.stride == 0;
        });
      }
    }
  }

  /// Whether the weight's rows are split for this product alone: others can follow them.
  bool is_split(const Operands& product) const {
    const std::span<const BufferUse> uses = uses_.of(product.weight.buffer);
    if (product.transposed || product.weight.column != 0 || uses.size() != 2) return false;
    return std::ranges::any_of(uses, [&](const BufferUse& use) {
      if (!use.write || !use.place) return false;
      const Launch& launch = plan_.stages[use.place->stage].launches[use.place->launch];
      const auto* split = std::get_if<SplitLaunch>(&launch);
      return split != nullptr && split->once_rows == product.n && split->target.stride == product.k;
    });
  }

  /// Of zeros, to a weight that is split.
  void add_rows(BufferId id, const Matrix& matrix) {
    plan_.buffers[id].width = matrix.new_rows * matrix.length;
    KernelBuilder builder(plan_, matrix.length);
    const Access rest = {
        .buffer = id, .column = matrix.rows * matrix.length, .stride = matrix.length};
    builder.store(rest, /*vector=*/true, builder.constant(0));
    once_.emplace_back(builder.finish(matrix.new_rows - matrix.rows));
  }

  /// All rows of a buffer that is there for such products alone, and that copies of whole rows
  /// make; or nothing.
  std::optional<Matrix> as_stack(BufferId id, Matrix matrix) const {
    const Buffer& buffer = plan_.buffers[id];
    if (buffer.role != Role::Temporary || buffer.width % matrix.length != 0) return std::nullopt;
    const int64_t rows = buffer.width / matrix.length;
    std::ptrdiff_t known = 0;  // uses
    for (const Product& product : products_) {
      const Access weight = operands_of(product).weight;
      if (weight.buffer != id) continue;
      const Matrix other = matrix_of(product);
      const bool fits = other.length == matrix.length && other.zeros == matrix.zeros &&
                        weight.column % matrix.length == 0;
      const bool whole = other.rows == rows && other.new_rows == matrix.new_rows;
      if (!fits || (!whole && other.new_rows != other.rows)) return std::nullopt;
      ++known;
    }
    for (const Stage& stage : plan_.stages) {
      for (const Launch& launch : stage.launches) {
        if (is_copy_of_rows(launch, id, matrix)) ++known;
      }
    }
    if (std::ssize(uses_.of(id)) != known) return std::nullopt;
    matrix.new_rows = std::max(rows, matrix.new_rows);
    matrix.rows = rows;
    return matrix;
  }

  static bool is_copy_of_rows(const Launch& launch, BufferId target, const Matrix& matrix) {
    const auto* copy = std::get_if<CopyLaunch>(&launch);
    return copy != nullptr && copy->target.buffer == target && !copy->transposed &&
           copy->target.column % matrix.length == 0 &&
           copy->rows * copy->columns % matrix.length == 0;
  }

  void stack(BufferId id, const Matrix& matrix) {
    plan_.buffers[id].width = matrix.new_rows * matrix.stride;
    bool first = true;
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      for (size_t j = 0; j < plan_.stages[i].launches.size(); ++j) {
        Launch& launch = plan_.stages[i].launches[j];
        if (!is_copy_of_rows(launch, id, matrix)) continue;
        if (std::exchange(first, false) && matrix.zeros) {
          rows_.insert_before({i, j}, zeros(id, matrix));
        }
        const auto& copy = std::get<CopyLaunch>(launch);
        const Access target = {.buffer = id,
                               .column = copy.target.column / matrix.length * matrix.stride};
        launch = copy_rows(copy.source, target, matrix, copy.rows * copy.columns / matrix.length);
      }
    }
  }

  BufferId copy_weight(const Access& weight, const Matrix& matrix) {
    const BufferId id = add({.name = buffer_of(weight).name,
                             .dtype = plan_.dtype,
                             .placement = Placement::Program,
                             .extent = Extent::Invariant,
                             .width = matrix.new_rows * matrix.stride});
    if (matrix.zeros) once_.emplace_back(zeros(id, matrix));
    once_.emplace_back(copy_rows(weight, {.buffer = id}, matrix, matrix.rows));
    return id;
  }

  ElementwiseLaunch zeros(BufferId id, const Matrix& matrix) {
    KernelBuilder builder(plan_, matrix.stride);
    builder.store({.buffer = id, .stride = matrix.stride}, /*vector=*/true, builder.constant(0));
    return builder.finish(matrix.new_rows);
  }

  static CopyLaunch copy_rows(Access source, Access target, const Matrix& matrix, int64_t rows) {
    source.stride = matrix.length;
    target.stride = matrix.stride;
    return {.source = source, .target = target, .rows = rows, .columns = matrix.length};
  }

  Plan& plan_;
  const PaddingOptions& options_;
  int64_t unit_;  // elements of the storage type that rows of operands are multiples of
  WiderRows rows_;
  BufferUses uses_;  // as they were
  std::vector<Product> products_;
  std::vector<Launch> once_;  // at the end of Once stages
};

}  // namespace

bool run_padding(Plan& plan, const Machine& machine, const PaddingOptions& options) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  return Padding(plan, machine, options).run();
}

}  // namespace rnnc
