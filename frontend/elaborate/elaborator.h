/// Checking and lowering in one walk: goes through a definition's tree with its names bound, emits
/// the step Graph's nodes, reports what is wrong and goes on with poison, so that one run finds
/// several errors and none twice.
///
/// Dims stay symbols, so shapes are checked for all sizes at once. Loops are unrolled, and calls of
/// fns, cells and networks are inlined after the callee was checked by itself.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/elaborate/builtins.h"
#include "frontend/elaborate/context.h"
#include "frontend/elaborate/scope.h"
#include "frontend/elaborate/shape_rules.h"
#include "frontend/syntax/ast.h"
#include "frontend/syntax/suggest.h"
#include "ir/graph/graph.h"

namespace rnnc {

/// Check an item by itself, with symbolic dims; true if it is free of errors. Each is checked once
/// per Context; callers see a recursion as `Context::Progress::Running`. Where numbers matter,
/// dims have those that the context gives the definition, or else their defaults.
bool check(Context& context, const ast::Definition& definition);
bool check(Context& context, const ast::Function& function);
bool check(Context& context, const ast::Constant& constant);

/// The step Graph of a definition, or nothing after an error. `dims` must be dims of it.
std::optional<Graph> lower(Context& context, const ast::Definition& definition,
                           const DimBindings& dims);

class Elaborator {
 public:
  /// With `assume_dims`, a dim whose number is needed and not known counts as 2.
  Elaborator(Context& context, DimBindings given, bool assume_dims)
      : context_(context), given_(std::move(given)), assume_dims_(assume_dims) {}

  // Each nothing (or false) after an error.
  std::optional<Graph> definition(const ast::Definition& definition);
  bool function(const ast::Function& function);
  std::optional<double> constant(const ast::Constant& constant);

 private:
  /// While it lives, names are those of `frame`, and errors carry a note of the call.
  class Inlining;

  // elaborate_body.cpp: dims and inputs, statements, outputs.
  void top_level_dims(const ast::Definition& definition);
  void top_level_inputs(const ast::Definition& definition);
  std::vector<Value> body(const ast::Definition& definition);
  void statements(const std::vector<ast::Statement>& list, bool in_loop);
  void loop(const ast::Loop& loop);
  void assignment(const ast::Assignment& assignment);
  void name_equation(const ast::Assignment& assignment, size_t first_node);
  void assign(const ast::Target& target, Value value, const ast::Expr& expr);
  void assign_state(Binding& state, const ast::Target& target, Value value, const ast::Expr& expr);
  Binding::Next* next_given(Binding& state, const ast::Target& target);
  /// What the frame has of one kind.
  std::vector<std::string> names_of(Binding::Kind kind) const;
  void assign_element(const ast::Target& target, Value value);
  Value output(const ast::Identifier& name);
  Value output_array(const ast::Identifier& name, const Binding& array);
  void warn_unused();

  // elaborate_declaration.cpp: states and params.
  void declare(const ast::Declaration& declaration);
  void declare_entry(const ast::Declaration& declaration, const ast::Declaration::Entry& entry,
                     const std::optional<Shape>& element);
  std::optional<Shape> blocks(const ast::Declaration& declaration,
                              const std::optional<Shape>& dense);
  std::optional<Shape> array(const ast::Declaration& declaration, const ast::Expr& extent,
                             const std::optional<Shape>& element, int64_t& length);
  void initial_value(const ast::Declaration& declaration);
  Type element_type(const Binding& binding) const;
  void finish_states();
  void finish_state(const std::string& name, Binding& state);
  Hint state_to_be_given(const std::string& name) const;
  /// Null, after an error, if the name is taken.
  Binding* bind(const ast::Identifier& name, Binding binding);

  // fixed_numbers.cpp: the dims that count as their numbers (docs/language.md, "Known dims").
  enum class Fit : uint8_t {
    Good,
    Unknown,  // in a check: for another number than the assumed one it may be good
    Bad,
  };
  /// Whether all of these hold; where they do for the numbers of fixed dims, these dims are that
  /// from here on, in every type.
  Fit fit(const std::vector<Equation>& equations);
  Fit fit(const Type& left, const Type& right) {
    return left == right ? Fit::Good : fit(equations(left.shape, right.shape));
  }
  /// The caller's number, or the default, or in a check the assumed one.
  std::optional<int64_t> number_of(const std::string& symbol) const;
  bool is_assumed(const std::string& symbol) const {
    return !given_.contains(symbol) && !defaults_.contains(symbol);
  }
  DimBindings numbers_of_fixed(const Dim& dim) const;
  void fix(const DimBindings& numbers);
  /// The number of a loop's turns or an array's elements: fixes its dims.
  std::optional<int64_t> fixed_integer(const ast::Expr& expr, std::string_view noun);
  void settle_consumed_dims();

  // elaborate_dims.cpp: dims and numbers. `noun` says what they are for.
  std::optional<Dim> dim(const ast::Expr& expr, std::string_view noun = "a dim");
  std::optional<Dim> dim_of_number(const ast::Expr& expr, std::string_view noun);
  std::optional<Dim> dim_of_name(const ast::Expr& expr, std::string_view noun);
  std::optional<Dim> dim_of_binary(const ast::Expr& expr, std::string_view noun);
  std::optional<Dim> dim_of_power(const ast::Expr& expr, std::string_view noun);
  /// Nothing, without a word, if the expression is no dim.
  std::optional<Dim> possible_dim(const ast::Expr& expr);
  /// Of a short expression of dims, loop indices and such locals; nothing for others.
  std::optional<Dim> position_of_local(const ast::Expr& expr);
  std::optional<Shape> shape(const std::vector<ast::ExprPtr>& dims);
  bool spend_terms(SourceLocation location, const Shape& shape);
  bool check_extent(const Dim& dim, SourceLocation location);
  bool check_whole(const Dim& dim, SourceLocation location);
  /// The numbers that the caller gave; in a check, which stands for all calls, the defaults too.
  DimBindings known_dims() const;
  /// The number of a dim expression.
  std::optional<int64_t> integer(const ast::Expr& expr, std::string_view noun);
  std::optional<int64_t> integer(const Dim& dim, SourceLocation location, std::string_view noun);

  // elaborate_expression.cpp: names, operators.
  Value expression(const ast::Expr& expr);
  Value name(const ast::Expr& expr);
  Value bound_name(const ast::Expr& expr, Binding& binding);
  void which_step(const ast::Expr& expr, const Binding& binding);
  Value not_initial(const ast::Expr& expr, Binding::Kind kind);
  /// `read` is the name with an earlier step, or nothing.
  Value unknown_name(const ast::Expr& expr, const ast::Expr* read = nullptr);
  std::optional<Hint> habitual_name(const ast::Expr& expr);
  static Hint last_value(const ast::Expr& read, const std::string& name);
  Value read_too_early(const ast::Expr& expr, const std::string& text);
  /// An operand and where it stands.
  struct Part {
    Value value;
    SourceLocation location;
  };
  Value apply(Op op, const std::vector<Value>& values, const ast::Expr& whole);
  std::string operand_hint(const Node& matrix, const std::string& text) const;
  Value applied(Op op, const std::vector<Part>& parts, const ast::Expr& whole);
  Value joined(std::vector<Part> parts, const ast::Expr& whole);
  Value vector(const ast::Expr& expr);
  bool vary_as_vectors(const std::vector<NodeId>& operands, const std::vector<Part>& parts,
                       const Type& result, const ast::Expr& whole);
  bool is_empty(Value value, SourceLocation location);
  bool is_dense(Value value, SourceLocation location);
  bool is_integer(Value value) const;
  bool is_real(Value value, SourceLocation location);
  Value argument(const Binding& binding);

  // elaborate_index.cpp: steps in time, arrays, elements and slices.
  Value indexed(const ast::Expr& expr);
  bool has_steps(const Binding& binding) const;
  Value element_without_step(const ast::Expr& expr, Binding& binding);
  Value at_time(const ast::Expr& expr);
  Value without_time(const ast::Expr& expr, std::string_view what, Value value);
  std::optional<int64_t> delay(const ast::Expr& index);
  Value input_or_state_at(const ast::Expr& expr, Binding& binding, int64_t delay);
  Value new_value(const ast::Expr& expr, Binding& state, int64_t position);
  bool may_look_back(const ast::Expr& expr, const std::string& name, Value value, int64_t delay);
  Value earlier(const std::string& name, Binding& binding, int64_t delay, SourceLocation location);
  Value local_at(const ast::Expr& expr, Binding& local);
  Value kept(const Frame::Part& part, const Type& type, int64_t delay, SourceLocation location);
  void finish_kept(const Frame::Part& part, const Frame::Kept& kept);
  Value whole_array(const ast::Expr& expr, Binding& array);
  Value of_array(const ast::Expr& expr, Binding& array);
  Value given_element(const ast::Expr& expr, Binding& array);
  std::optional<int64_t> element(const ast::Expr& index, const std::string& name,
                                 const Binding& array);
  std::optional<Dim> position(const ast::Expr& expr, const Dim& size, std::string_view noun);
  Value element_of(const ast::Expr& expr, Value value);
  bool names_integer(const ast::Expr& index);
  Value row_of(const ast::Expr& expr, Value table);
  Value one_hot(const ast::Expr& expr);
  Value step_number(const ast::Expr& expr);
  Value sliced(const ast::Expr& expr, Value value);
  bool exceeds(const Dim& low, const Dim& high) const;
  std::string shown(const ast::Expr& index, const Dim& position) const;
  Value filled(const Builtin& builtin, const ast::Expr& expr);

  // elaborate_call.cpp: built-in functions, fns, cells and networks.
  Value call(const ast::Expr& expr);
  Value call_builtin(const Builtin& builtin, const ast::Expr& expr);
  Value call_function(const ast::Function& function, const ast::Expr& expr);
  std::vector<Value> call_definition(const ast::Definition& callee, const ast::Expr& expr);
  std::vector<Value> inline_layer(const ast::Definition& callee, const ast::Expr& expr,
                                  const std::vector<Value>& arguments);
  bool explicit_dims(const ast::Definition& callee, const ast::Expr& expr, Frame& frame);
  bool inferred_dims(const ast::Definition& callee, const ast::Expr& expr,
                     const std::vector<Value>& arguments, Frame& frame);
  bool layer_inputs(const ast::Definition& callee, const ast::Expr& expr,
                    const std::vector<Value>& arguments, Frame& frame);
  std::string layer_name(const ast::Definition& callee, const ast::Expr& expr);
  std::vector<Value> arguments(const ast::Expr& expr);
  bool may_call_definition(const ast::Definition& callee, const ast::Expr& expr);
  bool dims_as_inputs(const ast::Expr& expr, size_t inputs);
  bool may_reverse(const ast::Expr& expr);
  Value unknown_callee(const ast::Expr& expr);
  static bool is_step_in_parentheses(const ast::Expr& expr, const Binding& called);
  bool accepts_layer_syntax(const ast::Expr& expr, std::string_view kind);
  template <typename Item>
  bool check_callee(const Item& callee, const ast::Expr& expr);

  // elaborator.cpp: what all of these use.
  Value error(SourceLocation location, std::string message, Hint hint = {},
              std::vector<Diagnostic::Note> notes = {});
  /// Takes `count` operations (at least one) off the budget; false when it is spent.
  bool spend(SourceLocation location, int64_t count = 1);
  /// Tells who watches the check.
  void tell(SourceLocation place, Value value);
  Type type_of(Value value) const;
  NodeId node_of(Value value, SourceLocation location);
  /// The value as a layer in reverse sees it; what does not vary over time is the same there.
  Value backwards(Value value, SourceLocation location);
  bool varies(NodeId id);
  std::string quote(const ast::Expr& expr) const { return context_.quote(expr.location); }
  /// " (H = 4, N has no value)": of the dims in these types values that are known, and those that
  /// would count if they were.
  std::string values_in(const std::vector<Type>& types) const;
  void remove_dead_nodes();

  Context& context_;
  const DimBindings given_;
  const bool assume_dims_;
  DimBindings defaults_;
  DimBindings consumed_;              // dims whose numbers shaped the graph
  std::set<std::string> fixed_dims_;  // that count as numbers where these are known
  DimBindings fixed_;                 // those that do, in every type; also in `consumed_`
  Graph graph_;
  bool failed_ = false;
  bool assumed_ = false;  // some number is an assumption: positions may differ from what they seem
  Frame* frame_ = nullptr;
  std::vector<Diagnostic::Note> trail_;   // the calls that are being inlined, outermost first
  std::map<uint64_t, NodeId> constants_;  // by their bits
  std::array<NodeId, 2> steps_ = {kNoNode, kNoNode};  // `step()`, forward and in reverse
  std::vector<bool> varies_;  // over time; of the first nodes, as far as asked for
};

class Elaborator::Inlining {
 public:
  Inlining(Elaborator& elaborator, Frame& frame, const ast::Expr& call)
      : elaborator_(elaborator),
        outer_(std::exchange(elaborator.frame_, &frame)),
        view_(elaborator.context_, frame.file) {
    elaborator_.trail_.push_back({call.text_location, "in this call of `" + call.text + "`"});
  }
  ~Inlining() {
    elaborator_.frame_ = outer_;
    elaborator_.trail_.pop_back();
  }
  Inlining(const Inlining&) = delete;
  Inlining& operator=(const Inlining&) = delete;

 private:
  Elaborator& elaborator_;
  Frame* outer_;
  Context::View view_;
};

}  // namespace rnnc
