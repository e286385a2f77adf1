#include <algorithm>

#include "ir/base/name.h"
#include "ir/base/text_scanner.h"
#include "ir/graph/text.h"

namespace rnnc {
namespace {

/// Recursive descent without backtracking; the first error stops it.
class GraphParser : private TextScanner {
 public:
  explicit GraphParser(std::string_view text) : TextScanner(text) {}

  // file := 'graph' NAME ['(' [dim (',' dim)*] ')'] ['descending'] '{' statement* '}'
  Result<Graph> parse() {
    Status status = parse_file();
    if (status) return std::move(graph_);
    return fail("line {}: {}", place_of(position_).line, status.error().message);
  }

 private:
  Status parse_file() {
    if (!take_word("graph")) return unexpected("`graph`");
    if (Status name = parse_name(graph_.name); !name) return name;
    if (take('(') && !take(')')) {
      do {
        if (Status dim = parse_dim(); !dim) return dim;
      } while (take(','));
      if (!take(')')) return unexpected("`,` or `)`");
    }
    graph_.descending = take_word("descending");
    if (!take('{')) return unexpected("`{`");
    while (!take('}')) {
      if (Status statement = parse_statement(); !statement) return statement;
    }
    if (Status delays = resolve_delays(); !delays) return delays;
    skip_spaces();
    return position_ == text_.size() ? Status() : unexpected("nothing after the graph");
  }

  // dim := NAME [('=' | 'is') NUMBER]      which is its default, or what it is fixed at
  Status parse_dim() {
    DimDecl dim;
    if (Status name = parse_name(dim.name); !name) return name;
    dim.fixed = take_word("is");
    if (dim.fixed || take('=')) {
      if (Status number = parse_number(dim.default_value.emplace()); !number) return number;
    }
    graph_.dims.push_back(std::move(dim));
    return {};
  }

  // statement := 'input' NAME shape ['int'] | 'param' NAME shape
  //            | 'state' NAME shape ['reversed'] ['delay' 'of' NAME]
  //            | '%' NUMBER '=' node
  //            | ('init' | 'next' | 'output' | 'result') NAME '=' '%' NUMBER
  Status parse_statement() {
    if (take('%')) return parse_node();
    if (take_word("input")) return parse_input();
    if (take_word("param")) return parse_declaration(graph_.params);
    if (take_word("state")) return parse_state();
    if (take_word("init")) return parse_state_value(&StateDecl::init);
    if (take_word("next")) return parse_state_value(&StateDecl::next);
    if (take_word("output")) return parse_end(graph_.outputs);
    if (take_word("result")) return parse_end(graph_.results);
    return unexpected("a declaration, a node or `}`");
  }

  template <typename Decl>
  Status parse_declaration(std::vector<Decl>& decls) {
    Decl decl;
    if (Status name = parse_name(decl.name); !name) return name;
    if (Status shape = parse_shape(decl.type.shape); !shape) return shape;
    decls.push_back(std::move(decl));
    return {};
  }

  Status parse_input() {
    if (Status input = parse_declaration(graph_.inputs); !input) return input;
    graph_.inputs.back().integer = take_word("int");
    return {};
  }

  Status parse_state() {
    if (Status state = parse_declaration(graph_.states); !state) return state;
    graph_.states.back().reversed = take_word("reversed");
    std::string& delay_of = delay_of_.emplace_back();
    if (!take_word("delay")) return {};
    if (!take_word("of")) return unexpected("`of`");
    return parse_name(delay_of);
  }

  /// States may be delays of later ones.
  Status resolve_delays() {
    for (size_t i = 0; i < delay_of_.size(); ++i) {
      if (delay_of_[i].empty()) continue;
      const auto found = std::ranges::find(graph_.states, delay_of_[i], &StateDecl::name);
      if (found == graph_.states.end()) return fail("there is no state `{}`", delay_of_[i]);
      graph_.states[i].delay_of = static_cast<uint32_t>(found - graph_.states.begin());
    }
    return {};
  }

  Status parse_state_value(NodeId StateDecl::* member) {
    uint32_t index = 0;
    if (Status state = parse_reference("state", graph_.states, index); !state) return state;
    if (!take('=')) return unexpected("`=`");
    return parse_node_id(graph_.states[index].*member);
  }

  /// An output or a result.
  template <typename Decl>
  Status parse_end(std::vector<Decl>& decls) {
    Decl decl;
    if (Status name = parse_name(decl.name); !name) return name;
    if (!take('=')) return unexpected("`=`");
    if (Status value = parse_node_id(decl.value); !value) return value;
    decls.push_back(std::move(decl));
    return {};
  }

  // node := ('input' | 'state') NAME ['@' NUMBER] shape
  //       | ('param' | 'final') NAME shape
  //       | 'const' NUMBER shape
  //       | 'vector' NUMBER (',' NUMBER)* shape
  //       | 'valid' ['reversed'] shape
  //       | 'reset' ['reversed'] ['@' NUMBER] shape
  //       | ('eye' | 'range') shape
  //       | NAME '%' NUMBER (',' '%' NUMBER)* ['from' DIM 'to' DIM | 'at' DIM] shape
  // where `from` and `to` belong to a slice, `at` to an index.
  Status parse_node() {
    size_t id = 0;
    if (Status number = parse_number(id); !number) return number;
    if (id != graph_.nodes.size()) return fail("expected node %{}", graph_.nodes.size());
    if (!take('=')) return unexpected("`=`");
    std::string name;
    if (Status word = parse_name(name); !word) return word;
    const std::optional<Op> op = parse_op(name);
    if (!op) return fail("there is no op `{}`", name);
    Node node;
    node.op = *op;
    if (Status operands = parse_operands(node); !operands) return operands;
    if (Status shape = parse_shape(node.type.shape); !shape) return shape;
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  Status parse_operands(Node& node) {
    switch (node.op) {
      case Op::Param:
        return parse_reference("param", graph_.params, node.decl);
      case Op::Final:
        return parse_reference("state", graph_.states, node.decl);
      case Op::Constant:
        return parse_number(node.value);
      case Op::Input:
      case Op::State: {
        Status reference = node.op == Op::Input
                               ? parse_reference("input", graph_.inputs, node.decl)
                               : parse_reference("state", graph_.states, node.decl);
        if (!reference) return reference;
        return take('@') ? parse_number(node.delay) : Status();
      }
      case Op::Valid:
      case Op::Reset:
        node.decl = take_word("reversed") ? 1 : 0;
        return node.op == Op::Reset && take('@') ? parse_number(node.delay) : Status();
      case Op::Vector:
        do {
          if (Status number = parse_number(node.values.emplace_back()); !number) return number;
        } while (take(','));
        return {};
      case Op::Range:
      case Op::Eye:
        return {};
      default:
        break;
    }
    do {
      if (Status operand = parse_node_id(node.operands.emplace_back()); !operand) return operand;
    } while (take(','));
    if (node.op == Op::Index) return parse_position("at", node.begin);
    if (node.op != Op::Slice) return {};
    if (Status begin = parse_position("from", node.begin); !begin) return begin;
    return parse_position("to", node.end);
  }

  // DIM is as in Dim::parse: names and numbers with operators between them.
  Status parse_position(std::string_view word, Dim& position) {
    if (!take_word(word)) return unexpected(fmt::format("`{}`", word));
    skip_spaces();
    const size_t begin = position_;
    size_t end = begin;
    take('-');
    do {
      skip_spaces();
      while (position_ < text_.size() && continues_name(text_[position_])) ++position_;
      end = position_;
    } while (take('+') || take('-') || take('*') || take('/'));
    Result<Dim> dim = Dim::parse(text_.substr(begin, end - begin));
    if (!dim) return tl::unexpected(dim.error());
    position = std::move(*dim);
    return {};
  }

  // shape := ':' '[' [DIM (',' DIM)*] ']'      DIM as in Dim::parse
  Status parse_shape(Shape& shape) {
    if (!take(':')) return unexpected("`:`");
    if (!take('[')) return unexpected("`[`");
    if (take(']')) return {};
    while (true) {
      const size_t end = text_.find_first_of(",]\n", position_);
      if (end == std::string_view::npos || text_[end] == '\n') return unexpected("a shape");
      Result<Dim> dim = Dim::parse(text_.substr(position_, end - position_));
      if (!dim) return tl::unexpected(dim.error());
      shape.push_back(std::move(*dim));
      position_ = end + 1;
      if (text_[end] == ']') return {};
    }
  }

  /// Finds a declared name.
  template <typename Decl>
  Status parse_reference(const char* kind, const std::vector<Decl>& decls, uint32_t& index) {
    std::string name;
    if (Status word = parse_name(name); !word) return word;
    const auto found = std::ranges::find(decls, name, &Decl::name);
    if (found == decls.end()) return fail("there is no {} `{}`", kind, name);
    index = static_cast<uint32_t>(found - decls.begin());
    return {};
  }

  Status parse_node_id(NodeId& id) {
    if (!take('%')) return unexpected("`%`");
    if (Status number = parse_number(id); !number) return number;
    return id == kNoNode ? Status(fail("there is no node %{}", id)) : Status();
  }

  Status parse_name(std::string& name) {
    skip_spaces();
    const std::string_view rest = text_.substr(position_);
    if (rest.empty() || !starts_name(rest.front())) return unexpected("a name");
    const auto end = std::ranges::find_if_not(rest, continues_name);
    name.assign(rest.begin(), end);
    position_ += name.size();
    return {};
  }

  template <typename Number>
  Status parse_number(Number& number) {
    const std::errc error = take_number(number);
    if (error == std::errc()) return {};
    return unexpected(error == std::errc::result_out_of_range ? "a smaller number" : "a number");
  }

  Status unexpected(std::string_view wanted) { return fail("expected {}, {}", wanted, found()); }

  Graph graph_;
  std::vector<std::string> delay_of_;  // per state; empty: of none
};

}  // namespace

Result<Graph> parse_graph(std::string_view text) {
  return GraphParser(text).parse();
}

}  // namespace rnnc
