// Products with elementwise work on their results: call ['with' aN, … 'a step earlier'], products
#include "ir/plan/kernel_facts.h"
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"
#include "ir/plan/launches/kernel_calls.h"
#include "ir/plan/launches/kernel_launches.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<FusedLaunch> = kFusedOpening;

namespace {

// product := aN ['..' N] '+=' access '@' access '^T, k' N [',' N 'blocks']
FusedLaunch::Product parse_product(PlanScanner& in, const FusedLaunch& launch, uint32_t first) {
  FusedLaunch::Product product;
  product.first_argument = first;
  if (in.take("..")) {
    const size_t position = in.position();
    const auto last = in.number<uint32_t>();
    if (last < first || last >= launch.accesses.size()) {
      in.complain_at(position, fmt::format("there is no argument a{} after a{}", last, first));
    }
    product.members = last - first + 1;
  }
  in.expect("+=");
  const ParsedAccess left = parse_access(in);
  in.expect("@");
  const ParsedAccess weight = parse_access(in);
  in.expect("^ T , k");
  product.k = in.count();
  if (in.take(",")) {
    product.blocks = in.count();
    in.expect("blocks");
  }
  const int64_t length = in.plan().kernels[launch.kernel].length;
  product.left = access_of(in, left, in.product({product.k, product.blocks}, "columns"));
  product.weight =
      access_of(in, weight, in.product({product.members, length, product.k}, "elements"));
  return product;
}

/// Of one row.
bool overlap(const TypedTouch& a, const TypedTouch& b) {
  return a.access.buffer == b.access.buffer && a.access.delay == b.access.delay &&
         a.access.column < b.access.column + b.count && b.access.column < a.access.column + a.count;
}

/// Recurrences round what they load.
DType left_type(const LaunchVerifier& in, const FusedLaunch::Product& product) {
  const Plan& plan = in.plan();
  const DType compute = compute_type(plan.dtype);
  const bool rounds = in.where() == Where::Recurrence &&
                      product.left.buffer < plan.buffers.size() &&
                      plan.buffers[product.left.buffer].dtype == compute;
  return rounds ? compute : plan.dtype;
}

}  // namespace

/// The products on lines of their own, further in by 2 spaces than the launch.
std::string text_of(const Plan& plan, const FusedLaunch& launch, int indent) {
  std::string text = call_text(plan, launch.kernel, launch.accesses) + earlier_text(launch.earlier);
  const int64_t length = plan.kernels[launch.kernel].length;
  for (const FusedLaunch::Product& product : launch.products) {
    const uint32_t last = product.first_argument + product.members - 1;
    text += fmt::format("\n{:{}}a{}{} += {} @ {}^T, k {}{}", "", indent + 2, product.first_argument,
                        product.members == 1 ? "" : fmt::format("..{}", last),
                        access_text(plan, product.left, product.k * product.blocks),
                        access_text(plan, product.weight, product.members * length * product.k),
                        product.k, count_text(product.blocks, "blocks"));
  }
  return text;
}

void parse(PlanScanner& in, FusedLaunch& launch) {
  parse_call(in, launch.kernel, launch.accesses);
  parse_earlier(in, launch.accesses.size(), launch.earlier);
  uint32_t first = 0;
  while (in.take_id('a', launch.accesses.size(), first)) {
    launch.products.push_back(parse_product(in, launch, first));
  }
}

void add_touches(const Plan& plan, const FusedLaunch& launch, std::vector<Touch>& result) {
  const int64_t length = plan.kernels[launch.kernel].length;
  for (const FusedLaunch::Product& product : launch.products) {
    result.push_back({product.left, product.k * product.blocks, false});
    result.push_back({product.weight, product.members * length * product.k, false, product.k});
  }
  add_arguments(plan, launch.kernel, launch.accesses, result);
}

Status verify(LaunchVerifier& in, const FusedLaunch& launch) {
  if (in.where() != Where::Step && in.where() != Where::Recurrence) {
    return fail("products with an epilogue are for steps");
  }
  if (Status status = in.check_call(launch.kernel, launch.accesses); !status) return status;
  if (Status status = check_earlier(in.plan(), launch.kernel, launch.accesses, launch.earlier);
      !status) {
    return status;
  }
  const Kernel& kernel = in.plan().kernels[launch.kernel];
  if (in.where() == Where::Step) {
    if (!launch.earlier.empty()) return fail("the epilogue of a product reads an earlier step");
    if (has_reductions(kernel)) return fail("the epilogue of a product has a reduction");
    if (launch.products.empty()) return fail("an epilogue has no product");
  }
  std::vector<TypedTouch> touches = in.arguments(launch.kernel, launch.accesses);
  std::vector<bool> given(kernel.arguments.size(), false);
  for (const FusedLaunch::Product& product : launch.products) {
    if (product.k < 1 || product.blocks < 1 || product.members < 1 ||
        kernel.length % product.blocks != 0) {
      return fail("a product of nothing");
    }
    for (uint32_t i = 0; i < product.members; ++i) {
      const uint32_t argument = product.first_argument + i;
      if (argument >= given.size() || !kernel.arguments[argument].product) {
        return fail("a{} is no product's result", argument);
      }
      given[argument] = true;
    }
    const int64_t weights = product.members * kernel.length * product.k;
    if (Status status = in.check_weight(product.weight, weights); !status) return status;
    touches.push_back({product.left, product.k * product.blocks, left_type(in, product), false});
    const TypedTouch left = touches.back();
    for (const TypedTouch& touch : touches) {
      if (touch.write && overlap(touch, left)) {
        return fail("{} is written while products read it",
                    in.plan().buffers[touch.access.buffer].name);
      }
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (kernel.arguments[i].product && !given[i]) return fail("a{} has no product", i);
  }
  return in.check_touches(touches, 1);
}

LaunchWork work_of(const Plan& plan, const FusedLaunch& launch, int64_t rows) {
  const Kernel& kernel = plan.kernels[launch.kernel];
  const auto count = static_cast<double>(rows);
  LaunchWork work{.elementwise = count * flops_of(kernel)};
  for (const FusedLaunch::Product& product : launch.products) {
    const int64_t width = product.members * kernel.length;
    work.products += 2 * count * static_cast<double>(width * product.k);
    work.width += width;
  }
  return work;
}

LaunchWords describe(const LaunchNames& in, const FusedLaunch& launch) {
  LaunchWords words;
  words.kind = "fused";
  words.looks = LaunchWords::Looks::Product;
  const Kernel& kernel = in.plan().kernels[launch.kernel];
  std::vector<std::string> terms;
  std::vector<std::string> sizes;
  int64_t products = 0;
  for (const FusedLaunch::Product& product : launch.products) {
    const std::vector<std::string> weights =
        in.weights_in(product.weight, product.members * kernel.length * product.k);
    for (const std::string& name : weights) add_once(words.weights, name);
    terms.push_back(fmt::format("{} @ {}", join_names(weights),
                                in.value(product.left, product.k * product.blocks)));
    sizes.push_back(
        fmt::format("{} x {}{}", product.members * kernel.length, product.k,
                    product.blocks > 1 ? fmt::format(", {} blocks", product.blocks) : ""));
    products += product.members;
  }
  words.strategy =
      fmt::format("fused step product, {} x {}", in.rows(1), fmt::join(sizes, " and "));
  add_kernel(kernel, words);
  words.what =
      fmt::format("{} from {}", join_names(in.arguments(launch.kernel, launch.accesses, true)),
                  fmt::join(terms, " and "));
  words.summary = fmt::format("{} + {}", plural(products, "product"),
                              plural(operation_count(words), "operation"));
  if (products > 1) {
    words.notes.push_back({"merged", fmt::format("{} in one, of {}", plural(products, "product"),
                                                 join_names(words.weights))});
  }
  words.notes.push_back(
      {"fused", "the elementwise work follows each product where it is: no result in memory"});
  return words;
}

template struct LaunchKind<FusedLaunch>;

}  // namespace rnnc
