#include "frontend/syntax/parser.h"

#include <fmt/format.h>

#include <utility>

#include "frontend/syntax/expression_parser.h"
#include "frontend/syntax/habits.h"
#include "frontend/syntax/lexer.h"
#include "frontend/syntax/suggest.h"
#include "frontend/syntax/token_stream.h"

namespace rnnc {

using ast::ExprPtr;
using ast::Identifier;

namespace {

constexpr size_t kMostDims = 64;  // more make polynomials that take long
constexpr const char* kConst = "a const is a number: `const eps = 1e-5`";
constexpr const char* kFn = "a fn is one expression: `fn double(v) = 2 * v`";
constexpr const char* kCell =
    "dims stand in square brackets, inputs in parentheses: `cell A[I, H](x: [I]) -> h { … }`";
constexpr const char* kValue = "a statement gives a value to a name: `y = …`";
constexpr const char* kOutputs = "outputs are named: `-> h`, or `-> (h, c)`";

/// Items and statements. Functions return false (or nothing) after reporting an error.
class Parser {
 public:
  explicit Parser(TokenStream tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  // module := { item }
  ast::Module module() {
    ast::Module result;
    while (!tokens_.is(TokenKind::End) && !tokens_.gives_up()) {
      const size_t start = tokens_.position();
      if (!item(result.items)) {
        tokens_.skip_item(start);
      } else if (!tokens_.at_line_end()) {
        tokens_.error_expected("the end of the line",
                               tokens_.is(TokenKind::As)
                                   ? "what a file defines keeps its names where it is imported"
                                   : "each definition starts a line of its own");
        tokens_.skip_item(start);
      }
    }
    return result;
  }

 private:
  // item := import | const | fn | definition
  bool item(std::vector<ast::Item>& items) {
    const std::string doc = tokens_.current().doc;
    switch (tokens_.current().kind) {
      case TokenKind::Import:
        return import(items);
      case TokenKind::Const:
        return constant(items, doc);
      case TokenKind::Fn:
        return function(items, doc);
      case TokenKind::Cell:
      case TokenKind::Network:
        return definition(items, doc);
      case TokenKind::RightBrace:
        tokens_.error_at(
            tokens_.current().location, "this `}` closes nothing",
            {"leave it out, or open the body that it closes", {{tokens_.current().location, ""}}});
        return false;
      default:
        tokens_.error_at(tokens_.current().location,
                         "expected `cell`, `network`, `fn`, `const` or `import`", no_item_hint());
        return false;
    }
  }

  Hint no_item_hint() const {
    const Token& token = tokens_.current();
    const std::string_view habit = habits::of_item(token.text);
    if (!habit.empty()) return std::string(habit);
    if (token.kind == TokenKind::Name && tokens_.ahead(1).kind == TokenKind::LeftParen) return kFn;
    Hint equation = "equations stand inside a cell: `cell NAME[I, H](x: [I]) -> h { … }`";
    if (token.kind != TokenKind::Name || tokens_.ahead(1).kind != TokenKind::Name) return equation;
    return did_you_mean(token.location, token.text, {"cell", "network", "fn", "const", "import"},
                        equation);
  }

  // import := "import" STRING
  bool import(std::vector<ast::Item>& items) {
    const uint32_t begin = tokens_.current().location.begin;
    tokens_.advance();
    const Token path = tokens_.current();
    if (!tokens_.expect(TokenKind::String, "write `import \"file.rnn\"`")) return false;
    if (path.text.empty()) {
      tokens_.error_at(path.location, "an import names a file: `import \"file.rnn\"`",
                       "its path is relative to this file");
      return false;
    }
    items.emplace_back(ast::Import{std::string(path.text), tokens_.span_from(begin), 0});
    return true;
  }

  // const := "const" NAME "=" expression
  bool constant(std::vector<ast::Item>& items, const std::string& doc) {
    tokens_.advance();
    auto name = tokens_.expect_name("the const's name", kConst);
    if (!name || !tokens_.expect(TokenKind::Assign, kConst)) {
      return false;
    }
    ExprPtr value = expressions_.expression();
    if (!value) return false;
    items.emplace_back(ast::Constant{doc, std::move(*name), std::move(value)});
    return true;
  }

  // fn := "fn" NAME "(" [ NAME { "," NAME } ] ")" "=" expression
  bool function(std::vector<ast::Item>& items, const std::string& doc) {
    tokens_.advance();
    auto name = tokens_.expect_name("the fn's name", kFn);
    std::vector<Identifier> parameters;
    const auto parameter = [&] {
      if (!append_name(parameters, "an argument's name", kFn)) return false;
      if (!tokens_.is(TokenKind::Colon)) return true;
      const bool shape = tokens_.is(TokenKind::Colon);
      tokens_.error_expected("`,` or `)`",
                             shape ? "a fn's arguments are names alone, of any shape" : kFn);
      return false;
    };
    if (name && !tokens_.is(TokenKind::LeftParen)) {
      tokens_.error_expected("`(`", kFn);
      return false;
    }
    if (!name || !expressions_.list(TokenKind::LeftParen, TokenKind::RightParen, parameter) ||
        !tokens_.expect(TokenKind::Assign, kFn)) {
      return false;
    }
    ExprPtr body = expressions_.expression();
    if (!body) return false;
    items.emplace_back(
        ast::Function{doc, std::move(*name), std::move(parameters), std::move(body)});
    return true;
  }

  // definition := ( "cell" | "network" ) NAME [ dims ] "(" [ input { "," input } ] ")"
  //               "->" outputs block
  // dims := "[" [ dim { "," dim } ] "]"
  bool definition(std::vector<ast::Item>& items, const std::string& doc) {
    ast::Definition result;
    result.is_network = tokens_.is(TokenKind::Network);
    result.doc = doc;
    tokens_.advance();
    auto name = tokens_.expect_name(fmt::format("the {}'s name", result.kind()), kCell);
    if (!name) return false;
    result.name = std::move(*name);
    if (dims_in_parentheses()) return false;
    if (tokens_.is(TokenKind::LeftBracket) &&
        !expressions_.list(TokenKind::LeftBracket, TokenKind::RightBracket,
                           [&] { return dim(result.dims); })) {
      return false;
    }
    if (result.dims.size() > kMostDims) {
      tokens_.error_at(result.dims[kMostDims].name.location,
                       fmt::format("a {} has at most {} dims, this one has {}", result.kind(),
                                   kMostDims, result.dims.size()),
                       "sizes that are always the same are numbers");
      return false;
    }
    if (!tokens_.is(TokenKind::LeftParen)) {
      tokens_.error_expected("`(`", kCell);
      return false;
    }
    const auto parse_input = [&] { return input(result.inputs); };
    if (!expressions_.list(TokenKind::LeftParen, TokenKind::RightParen, parse_input)) return false;
    if (!tokens_.expect(TokenKind::Arrow, "say what it gives: `-> h`, or `-> (y, h)`")) {
      return false;
    }
    if (!outputs(result.outputs)) return false;
    const bool closed = block(result.body, result.name.text);
    items.emplace_back(std::move(result));
    return closed;
  }

  /// `cell A(I, H)(x: [I])`: an error.
  bool dims_in_parentheses() {
    if (!tokens_.is(TokenKind::LeftParen)) return false;
    const size_t closing = tokens_.distance_to_closing();
    if (closing == 0 || tokens_.ahead(closing + 1).kind != TokenKind::LeftParen) return false;
    tokens_.error_at(tokens_.current().location, "dims stand in square brackets",
                     {"write `cell A[I, H](x: [I]) -> h { … }`",
                      {{tokens_.current().location, "["}, {tokens_.ahead(closing).location, "]"}}});
    return true;
  }

  // dim := NAME [ "=" sum ]
  bool dim(std::vector<ast::DimParameter>& dims) {
    auto name = tokens_.expect_name("a dim's name", "dims are named: `cell A[I, H](x: [I]) -> h`");
    if (!name) return false;
    ExprPtr value;
    if (tokens_.take(TokenKind::Assign) && !(value = expressions_.sum())) return false;
    dims.push_back({std::move(*name), std::move(value)});
    return true;
  }

  // input := NAME ":" ( shape | "int" "[" "]" )
  bool input(std::vector<ast::Input>& inputs) {
    auto name = tokens_.expect_name("an input's name", "an input has a name and a shape: `x: [I]`");
    if (!name) return false;
    Hint hint = fmt::format("give its shape: `{0}: [I]`, or `{0}: []` for a scalar", name->text);
    if (tokens_.is(TokenKind::LeftBracket)) hint.edits = {{tokens_.end_of_last(), ": "}};
    if (!tokens_.expect(TokenKind::Colon, std::move(hint))) return false;
    const bool integer = tokens_.is(TokenKind::Name) && tokens_.current().text == "int";
    if (integer) tokens_.advance();
    const SourceLocation begin = tokens_.current().location;
    auto shape = expressions_.shape();
    if (!shape) return false;
    if (integer && !shape->empty()) {
      tokens_.error_at(begin, "an input of integers is one integer at each step",
                       fmt::format("write `{}: int []`", name->text));
      return false;
    }
    inputs.push_back({std::move(*name), std::move(*shape), integer});
    return true;
  }

  // outputs := NAME | "(" NAME { "," NAME } ")"
  bool outputs(std::vector<Identifier>& names) {
    const auto name = [&] { return append_name(names, "an output's name", kOutputs); };
    const SourceLocation open = tokens_.current().location;
    if (!tokens_.is(TokenKind::LeftParen)) {
      if (!name()) return false;
      return outputs_without_parentheses(names, open.begin) && output_without_shape();
    }
    if (!expressions_.list(TokenKind::LeftParen, TokenKind::RightParen, name)) return false;
    if (names.empty()) {
      tokens_.error_at(open, "at least one output is needed", kOutputs);
    }
    return !names.empty() && output_without_shape();
  }

  /// `-> h, c` is an error, after which reading goes on.
  bool outputs_without_parentheses(std::vector<Identifier>& names, uint32_t begin) {
    const SourceLocation comma = tokens_.current().location;
    std::string list = names.front().text;
    while (tokens_.continues(TokenKind::Comma)) {
      tokens_.advance();
      if (!append_name(names, "an output's name", kOutputs)) return false;
      list += ", " + names.back().text;
    }
    if (names.size() == 1) return true;
    tokens_.error_at(comma, "several outputs stand in parentheses",
                     {fmt::format("write `-> ({})`", list),
                      {{tokens_.span_from(begin), fmt::format("({})", list)}}});
    return true;
  }

  /// `-> h: [H]` is an error, after which reading goes on.
  bool output_without_shape() {
    const SourceLocation colon = tokens_.current().location;
    if (!tokens_.is(TokenKind::Colon) || tokens_.ahead(1).kind != TokenKind::LeftBracket) {
      return true;
    }
    tokens_.advance();
    if (!expressions_.shape()) return false;
    tokens_.error_at(
        colon, "an output has no shape of its own",
        {"it has that of the value that the body gives", {{tokens_.span_from(colon.begin), ""}}});
    return true;
  }

  // block := "{" { statement } "}"        each statement on lines of its own
  bool block(std::vector<ast::Statement>& body, const std::string& owner) {
    const SourceLocation open = tokens_.current().location;
    if (!tokens_.expect(TokenKind::LeftBrace, "a body stands in braces: `{ … }`")) return false;
    while (!tokens_.take(TokenKind::RightBrace)) {
      if (tokens_.gives_up()) return false;
      if (tokens_.is(TokenKind::End) || tokens_.at_margin_item()) {
        tokens_.error_at(tokens_.current().location,
                         fmt::format("the body of `{}` is not closed with `}}`", owner),
                         {"each `{` has its `}`", {{tokens_.end_of_last(), "\n}\n"}}},
                         {{open, "it starts here"}});
        return false;
      }
      const size_t start = tokens_.position();
      if (!statement(body, owner)) {
        tokens_.skip_statement(start);
        if (tokens_.is(TokenKind::End)) return false;
      } else if (!tokens_.at_line_end() && !tokens_.is(TokenKind::RightBrace)) {
        line_goes_on();
        tokens_.skip_statement(start);
      }
    }
    return true;
  }

  /// Where a statement is complete, but its line is not.
  void line_goes_on() {
    const Token& token = tokens_.current();
    Hint hint = "each statement has a line of its own";
    const bool operand = token.kind == TokenKind::Name || token.kind == TokenKind::Number ||
                         token.kind == TokenKind::LeftParen;
    if (token.kind == TokenKind::RightParen || token.kind == TokenKind::RightBracket) {
      hint = {fmt::format("this {} closes nothing", spelling(token.kind)), {{token.location, ""}}};
    } else if (token.kind == TokenKind::Comma) {
      hint = {"one name takes one value", {{token.location, ""}}};
    } else if (token.kind == TokenKind::Assign) {
      hint = "a line gives one value; `==` compares";
    } else if (token.kind == TokenKind::LeftBrace && tokens_.before().text.ends_with('_')) {
      hint = "a step stands in square brackets: `h[t-1]`";
    } else if (operand && !tokens_.line_has(TokenKind::Assign)) {
      hint = "a product is written with `*` or `@`: `a * b`, `W @ x[t]`";
    }
    tokens_.error_expected("the end of the line", std::move(hint));
  }

  // statement := declaration | loop | assignment
  bool statement(std::vector<ast::Statement>& body, const std::string& owner) {
    const uint32_t begin = tokens_.current().location.begin;
    ast::Statement result;
    bool complete = false;
    if (!tokens_.enter()) {
      complete = false;
    } else if (tokens_.at_item()) {
      tokens_.error_at(
          tokens_.current().location,
          fmt::format("`{}` stands outside cells and networks", tokens_.current().text),
          fmt::format("write it above `{}`", owner));
    } else if (tokens_.is(TokenKind::State) || tokens_.is(TokenKind::Param)) {
      complete = declaration(result.node.emplace<ast::Declaration>());
    } else if (tokens_.is(TokenKind::For)) {
      complete = loop(result.node.emplace<ast::Loop>(), owner);
    } else {
      complete = assignment(result.node.emplace<ast::Assignment>());
    }
    tokens_.leave();
    result.location = tokens_.span_from(begin);
    if (complete) body.push_back(std::move(result));
    return complete;
  }

  // declaration := ( "state" | "param" ) entry { "," entry } ":" shape
  //                [ "blocks" sum ] [ "=" expression ]
  // entry := NAME [ "[" sum "]" ]
  bool declaration(ast::Declaration& result) {
    result.is_state = tokens_.is(TokenKind::State);
    const std::string_view kind = result.is_state ? "state" : "param";
    tokens_.advance();
    do {
      auto name = tokens_.expect_name(fmt::format("the {}'s name", kind),
                                      fmt::format("write `{} NAME: [H]`", kind));
      if (!name) return false;
      result.entries.push_back({std::move(*name), nullptr});
      if (tokens_.is(TokenKind::LeftBracket) && !length(result.entries.back(), kind)) return false;
    } while (tokens_.take(TokenKind::Comma));
    if (!tokens_.is(TokenKind::Colon)) {
      tokens_.error_expected("`:`", missing_shape(result.entries.back(), kind));
      return false;
    }
    tokens_.advance();
    auto shape = expressions_.shape();
    if (!shape) return false;
    result.shape = std::move(*shape);
    if (tokens_.continues(TokenKind::Blocks)) {
      tokens_.advance();
      if (!(result.blocks = expressions_.sum())) return false;
    }
    if (tokens_.continues(TokenKind::Assign)) {
      tokens_.advance();
      if (!(result.initial = expressions_.expression())) return false;
    }
    return true;
  }

  // entry := NAME [ "[" sum "]" ]
  bool length(ast::Declaration::Entry& entry, std::string_view kind) {
    const Token open = tokens_.current();
    tokens_.advance();
    entry.length = expressions_.sum();
    if (!entry.length) return false;
    if (!tokens_.is(TokenKind::Comma)) {
      return tokens_.expect_closing(TokenKind::RightBracket, open);
    }
    const SourceLocation place = {open.location.file, open.location.begin, open.location.begin};
    tokens_.error_expected(
        "`]`", {fmt::format("a shape follows a colon: `{} {}: […]`", kind, entry.name.text),
                {{place, ": "}}});
    return false;
  }

  Hint missing_shape(const ast::Declaration::Entry& entry, std::string_view kind) const {
    Hint hint =
        fmt::format("give its shape: `{} {}: [H]`, or `: []` for a scalar", kind, entry.name.text);
    const SourceLocation name = entry.name.location;
    if (entry.length) hint.edits = {{{name.file, name.end, name.end}, ":"}};
    return hint;
  }

  // loop := "for" NAME "in" sum ".." sum block
  bool loop(ast::Loop& result, const std::string& owner) {
    tokens_.advance();
    auto name = tokens_.expect_name("the loop's index", "write `for l in 0..L { … }`");
    if (!name) return false;
    Hint in = "write `for l in 0..L { … }`";
    if (tokens_.is(TokenKind::Assign)) in.edits = {{tokens_.current().location, "in"}};
    if (!tokens_.expect(TokenKind::In, std::move(in))) return false;
    result.index = std::move(*name);
    if (!(result.begin = expressions_.sum())) return false;
    if (!tokens_.is(TokenKind::DotDot)) {
      tokens_.error_expected("`..`", no_range(*result.begin));
      return false;
    }
    tokens_.advance();
    if (!(result.end = expressions_.sum())) return false;
    return block(result.body, owner);
  }

  /// For `range(3)`, `0:3` and `3`, where a range should stand.
  Hint no_range(const ast::Expr& written) const {
    Hint hint = "a range is half-open: `0..L`";
    const SourceLocation place = written.location;
    if (written.kind == ast::Expr::Kind::Call && written.text == "range" &&
        written.children.size() == 1) {
      const SourceLocation length = written.children[0]->location;
      hint.edits = {{{place.file, place.begin, length.begin}, "0.."},
                    {{place.file, length.end, place.end}, ""}};
    } else if (tokens_.is(TokenKind::Colon) && !tokens_.ahead(1).starts_line) {
      hint.edits = {{tokens_.current().location, ".."}};
    } else if (tokens_.is(TokenKind::LeftBrace) && written.kind != ast::Expr::Kind::Call) {
      hint.edits = {{{place.file, place.begin, place.begin}, "0.."}};
    }
    return hint;
  }

  // assignment := ( target | "(" target { "," target } ")" ) "=" expression
  bool assignment(ast::Assignment& result) {
    if (is_word(tokens_.current().kind)) {
      tokens_.expect_name("a name to give a value to", kValue);
      return false;
    }
    if (!tokens_.is(TokenKind::LeftParen) && !tokens_.is(TokenKind::Name)) {
      const bool operation =
          tokens_.current().kind >= TokenKind::Plus && tokens_.current().kind <= TokenKind::At;
      tokens_.error_at(tokens_.current().location, "expected a statement",
                       operation ? "a line goes on after an operator: end the line above with it"
                                 : "a statement declares (`state h: [H]`) or gives a value "
                                   "(`y = …`)");
      return false;
    }
    const uint32_t begin = tokens_.current().location.begin;
    const auto parse_target = [&] { return target(result.targets); };
    if (tokens_.is(TokenKind::LeftParen)) {
      const SourceLocation open = tokens_.current().location;
      if (!expressions_.list(TokenKind::LeftParen, TokenKind::RightParen, parse_target)) {
        return false;
      }
      if (result.targets.empty()) {
        tokens_.error_at(open, "expected names to give values to: `(a, b) = …`",
                         "only the call of a cell or network gives several values");
        return false;
      }
    } else if (!parse_target()) {
      return false;
    }
    if (tokens_.at_line_end() || !tokens_.is(TokenKind::Assign)) {
      no_assignment(result, begin);
      return false;
    }
    tokens_.advance();
    result.value = expressions_.expression();
    return result.value != nullptr;
  }

  /// What else than `=` may follow what looks like a target.
  void no_assignment(const ast::Assignment& written, uint32_t begin) {
    const Token& token = tokens_.current();
    const ast::Target& target = written.targets.front();
    if (tokens_.continues(TokenKind::Equal)) {
      return tokens_.error_at(token.location, "`==` compares; a value is given with `=`",
                              {"write `=`", {{token.location, "="}}});
    }
    const bool operation = token.kind >= TokenKind::Plus && token.kind <= TokenKind::At;
    if (operation && !tokens_.at_line_end() && tokens_.touches_next() &&
        tokens_.ahead(1).kind == TokenKind::Assign) {
      return updated(target);
    }
    Hint hint = kValue;
    if (token.kind == TokenKind::Less && tokens_.ahead(1).kind == TokenKind::Minus) {
      hint = {"a value is given with `=`",
              {{{token.location.file, token.location.begin, tokens_.ahead(1).location.end}, "="}}};
    } else if (token.kind == TokenKind::Comma) {
      hint = "each value has a line of its own; those of one call: `(h, c) = LSTM[H = H](x[t])`";
    } else if (token.kind == TokenKind::Colon) {
      hint = fmt::format("a declaration says what it is: `state {0}: […]` or `param {0}: […]`",
                         target.name.text);
    } else if (token.kind == TokenKind::LeftParen && tokens_.ahead(1).text == "t") {
      hint = "a step stands in square brackets: `h[t]`";
    } else if (token.kind == TokenKind::LeftBrace && target.name.text.ends_with('_')) {
      hint = "a step stands in square brackets: `h[t]`";
    } else if (token.kind == TokenKind::Name && !token.starts_line) {
      const SourceLocation place = {token.location.file, begin, target.location.end};
      hint = did_you_mean(place, target.name.text, {"state", "param", "for"}, hint);
    }
    tokens_.error_expected("`=`", std::move(hint));
  }

  /// `a += b` is an error, whose edits make it `a = a + (b)`.
  void updated(const ast::Target& target) {
    const SourceLocation op = tokens_.current().location;
    const std::string_view sign = tokens_.current().text;
    std::string now = target.name.text;
    std::string old = now;
    for (const ExprPtr& index : target.indices) {
      const bool step = index->kind == ast::Expr::Kind::Name && index->text == "t";
      const std::string text = fmt::format("[{}]", ast::print(*index));
      now += text;
      old += step ? "[t-1]" : text;
    }
    tokens_.advance();
    const SourceLocation both = {op.file, op.begin, tokens_.current().location.end};
    tokens_.advance();
    Hint hint = fmt::format("write `{} = {} {} …`", now, old, sign);
    if (const ExprPtr change = expressions_.expression()) {
      const bool simple = sign == "+" || change->depth == 1;
      const uint32_t end = change->location.end;
      hint.edits = {{both, fmt::format("= {} {}{}", old, sign, simple ? "" : " (")}};
      if (!simple) hint.edits.push_back({{op.file, end, end}, ")"});
    }
    tokens_.error_at(both, fmt::format("`{}=` has no meaning here", sign), std::move(hint));
  }

  // target := NAME { "[" sum "]" }
  bool target(std::vector<ast::Target>& targets) {
    const uint32_t begin = tokens_.current().location.begin;
    ast::Target result;
    auto name = tokens_.expect_name("a name to give a value to", kValue);
    if (!name) return false;
    result.name = std::move(*name);
    while (tokens_.continues(TokenKind::LeftBracket)) {
      const Token open = tokens_.current();
      tokens_.advance();
      result.indices.push_back(expressions_.sum());
      if (!result.indices.back()) return false;
      if (!tokens_.expect_closing(TokenKind::RightBracket, open)) return false;
    }
    result.location = tokens_.span_from(begin);
    targets.push_back(std::move(result));
    return true;
  }

  bool append_name(std::vector<Identifier>& names, std::string_view what, Hint hint = {}) {
    auto name = tokens_.expect_name(what, std::move(hint));
    if (name) names.push_back(std::move(*name));
    return name.has_value();
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
};

}  // namespace

ast::Module parse(const SourceFile& file, uint32_t file_index, Diagnostics& diagnostics) {
  return Parser(TokenStream(lex(file, file_index, diagnostics), diagnostics)).module();
}

}  // namespace rnnc
