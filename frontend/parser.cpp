#include "frontend/parser.h"

#include <fmt/format.h>

#include <utility>

#include "frontend/expression_parser.h"
#include "frontend/lexer.h"
#include "frontend/token_stream.h"

namespace rnnc {

using ast::ExprPtr;
using ast::Identifier;

namespace {

/// Items and statements. Functions return false (or nothing) after reporting an error.
class Parser {
 public:
  explicit Parser(TokenStream tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  // module := { item }
  ast::Module module() {
    ast::Module result;
    while (!tokens_.is(TokenKind::End)) {
      const size_t start = tokens_.position();
      if (!item(result.items)) {
        tokens_.skip_item(start);
      } else if (!tokens_.at_line_end()) {
        tokens_.error_expected("the end of the line");
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
        tokens_.error_at(tokens_.current().location, "this `}` closes nothing");
        return false;
      default:
        tokens_.error_at(tokens_.current().location,
                         "expected `cell`, `network`, `fn`, `const` or `import`",
                         "equations stand inside a cell: `cell NAME[I, H](x: [I]) -> h { … }`");
        return false;
    }
  }

  // import := "import" STRING
  bool import(std::vector<ast::Item>& items) {
    const uint32_t begin = tokens_.current().location.begin;
    tokens_.advance();
    const Token path = tokens_.current();
    if (!tokens_.expect(TokenKind::String, "write `import \"file.rnn\"`")) return false;
    if (path.text.empty()) {
      tokens_.error_at(path.location, "an import names a file: `import \"file.rnn\"`");
      return false;
    }
    items.emplace_back(ast::Import{std::string(path.text), tokens_.span_from(begin), 0});
    return true;
  }

  // const := "const" NAME "=" expression
  bool constant(std::vector<ast::Item>& items, const std::string& doc) {
    tokens_.advance();
    auto name = tokens_.expect_name("the const's name");
    if (!name || !tokens_.expect(TokenKind::Assign)) return false;
    ExprPtr value = expressions_.expression();
    if (!value) return false;
    items.emplace_back(ast::Constant{doc, std::move(*name), std::move(value)});
    return true;
  }

  // fn := "fn" NAME "(" [ NAME { "," NAME } ] ")" "=" expression
  bool function(std::vector<ast::Item>& items, const std::string& doc) {
    tokens_.advance();
    auto name = tokens_.expect_name("the fn's name");
    std::vector<Identifier> parameters;
    const auto parameter = [&] { return append_name(parameters, "an argument's name"); };
    if (!name || !expressions_.list(TokenKind::LeftParen, TokenKind::RightParen, parameter) ||
        !tokens_.expect(TokenKind::Assign, "a fn is one expression: `fn double(v) = 2 * v`")) {
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
    auto name = tokens_.expect_name(fmt::format("the {}'s name", result.kind()));
    if (!name) return false;
    result.name = std::move(*name);
    if (tokens_.is(TokenKind::LeftBracket) &&
        !expressions_.list(TokenKind::LeftBracket, TokenKind::RightBracket,
                           [&] { return dim(result.dims); })) {
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

  // dim := NAME [ "=" sum ]
  bool dim(std::vector<ast::DimParameter>& dims) {
    auto name = tokens_.expect_name("a dim's name");
    if (!name) return false;
    ExprPtr value;
    if (tokens_.take(TokenKind::Assign) && !(value = expressions_.sum())) return false;
    dims.push_back({std::move(*name), std::move(value)});
    return true;
  }

  // input := NAME ":" shape
  bool input(std::vector<ast::Input>& inputs) {
    auto name = tokens_.expect_name("an input's name");
    if (!name) return false;
    if (!tokens_.expect(TokenKind::Colon, fmt::format("give its shape: `{0}: [I]`, or `{0}: []` "
                                                      "for a scalar",
                                                      name->text))) {
      return false;
    }
    auto shape = expressions_.shape();
    if (!shape) return false;
    inputs.push_back({std::move(*name), std::move(*shape)});
    return true;
  }

  // outputs := NAME | "(" NAME { "," NAME } ")"
  bool outputs(std::vector<Identifier>& names) {
    const auto name = [&] { return append_name(names, "an output's name"); };
    if (!tokens_.is(TokenKind::LeftParen)) return name();
    const SourceLocation open = tokens_.current().location;
    if (!expressions_.list(TokenKind::LeftParen, TokenKind::RightParen, name)) return false;
    if (names.empty()) tokens_.error_at(open, "at least one output is needed");
    return !names.empty();
  }

  // block := "{" { statement } "}"        each statement on lines of its own
  bool block(std::vector<ast::Statement>& body, const std::string& owner) {
    const SourceLocation open = tokens_.current().location;
    if (!tokens_.expect(TokenKind::LeftBrace)) return false;
    while (!tokens_.take(TokenKind::RightBrace)) {
      if (tokens_.is(TokenKind::End) || tokens_.at_margin_item()) {
        tokens_.error_at(tokens_.current().location,
                         fmt::format("the body of `{}` is not closed with `}}`", owner), "",
                         {{open, "it starts here"}});
        return false;
      }
      const size_t start = tokens_.position();
      if (!statement(body, owner)) {
        tokens_.skip_statement(start);
        if (tokens_.is(TokenKind::End)) return false;
      } else if (!tokens_.at_line_end() && !tokens_.is(TokenKind::RightBrace)) {
        tokens_.error_expected("the end of the line", "each statement has a line of its own");
        tokens_.skip_statement(start);
      }
    }
    return true;
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
          fmt::format("`{}` stands outside cells and networks", tokens_.current().text));
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
      auto name = tokens_.expect_name(fmt::format("the {}'s name", kind));
      if (!name) return false;
      ExprPtr length;
      if (const Token open = tokens_.current(); tokens_.take(TokenKind::LeftBracket)) {
        if (!(length = expressions_.sum())) return false;
        if (!tokens_.expect_closing(TokenKind::RightBracket, open)) return false;
      }
      result.entries.push_back({std::move(*name), std::move(length)});
    } while (tokens_.take(TokenKind::Comma));
    if (!tokens_.expect(TokenKind::Colon,
                        fmt::format("give its shape: `{} {}: [H]`, or `: []` for a scalar", kind,
                                    result.entries.back().name.text))) {
      return false;
    }
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

  // loop := "for" NAME "in" sum ".." sum block
  bool loop(ast::Loop& result, const std::string& owner) {
    tokens_.advance();
    auto name = tokens_.expect_name("the loop's index");
    if (!name || !tokens_.expect(TokenKind::In, "write `for l in 0..L { … }`")) return false;
    result.index = std::move(*name);
    if (!(result.begin = expressions_.sum())) return false;
    if (!tokens_.expect(TokenKind::DotDot, "a range is half-open: `0..L`")) return false;
    if (!(result.end = expressions_.sum())) return false;
    return block(result.body, owner);
  }

  // assignment := ( target | "(" target { "," target } ")" ) "=" expression
  bool assignment(ast::Assignment& result) {
    if (!tokens_.is(TokenKind::LeftParen) && !tokens_.is(TokenKind::Name)) {
      const bool operation = tokens_.is(TokenKind::Plus) || tokens_.is(TokenKind::Minus) ||
                             tokens_.is(TokenKind::Star) || tokens_.is(TokenKind::Slash) ||
                             tokens_.is(TokenKind::At);
      tokens_.error_at(tokens_.current().location, "expected a statement",
                       operation ? "a line goes on after an operator: end the line above with it"
                                 : "a statement declares (`state h: [H]`) or gives a value "
                                   "(`y = …`)");
      return false;
    }
    const auto parse_target = [&] { return target(result.targets); };
    if (tokens_.is(TokenKind::LeftParen)) {
      const SourceLocation open = tokens_.current().location;
      if (!expressions_.list(TokenKind::LeftParen, TokenKind::RightParen, parse_target)) {
        return false;
      }
      if (result.targets.empty()) {
        tokens_.error_at(open, "expected names to give values to: `(a, b) = …`");
        return false;
      }
    } else if (!parse_target()) {
      return false;
    }
    if (tokens_.continues(TokenKind::Equal)) {
      tokens_.error_at(tokens_.current().location, "`==` compares; a value is given with `=`");
      return false;
    }
    if (tokens_.at_line_end() || !tokens_.is(TokenKind::Assign)) {
      const bool choice = !result.targets.empty() && result.targets.front().name.text == "if";
      tokens_.error_expected("`=`", choice ? "one of two values is `where(condition, a, b)`"
                                           : "a statement gives a value to a name: `y = …`");
      return false;
    }
    tokens_.advance();
    result.value = expressions_.expression();
    return result.value != nullptr;
  }

  // target := NAME { "[" sum "]" }
  bool target(std::vector<ast::Target>& targets) {
    const uint32_t begin = tokens_.current().location.begin;
    ast::Target result;
    auto name = tokens_.expect_name("a name to give a value to");
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

  bool append_name(std::vector<Identifier>& names, std::string_view what) {
    auto name = tokens_.expect_name(what);
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
