#include "frontend/syntax/expression_parser.h"

#include <fmt/format.h>

#include <utility>

#include "frontend/syntax/utf8.h"

namespace rnnc {

using ast::BinaryOp;
using ast::Expr;
using ast::ExprPtr;

namespace {

ExprPtr make(Expr::Kind kind) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  return expr;
}

std::optional<BinaryOp> comparison(TokenKind kind) {
  switch (kind) {
    case TokenKind::Less:
      return BinaryOp::Lt;
    case TokenKind::LessEqual:
      return BinaryOp::Le;
    case TokenKind::Greater:
      return BinaryOp::Gt;
    case TokenKind::GreaterEqual:
      return BinaryOp::Ge;
    case TokenKind::Equal:
      return BinaryOp::Eq;
    case TokenKind::NotEqual:
      return BinaryOp::Ne;
    default:
      return std::nullopt;
  }
}

constexpr const char* kDims = "dims are given by name: `LSTM[H = 256](x)`";

bool is_binary(TokenKind kind) {
  return kind >= TokenKind::Plus && kind <= TokenKind::NotEqual;
}

}  // namespace

// expression := sum [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) sum ]
ExprPtr ExpressionParser::expression() {
  ExprPtr left = sum();
  if (!left || tokens_.at_line_end()) return left;
  const auto op = comparison(tokens_.current().kind);
  if (!op) return left;
  tokens_.advance();
  left = binary(*op, std::move(left), sum());
  if (left && !tokens_.at_line_end() && comparison(tokens_.current().kind)) {
    tokens_.error_at(tokens_.current().location, "comparisons do not chain",
                     "for \"and\", multiply two of them: `(a < b) * (b < c)`");
    return nullptr;
  }
  return left;
}

// sum := product { ( "+" | "-" ) product }
ExprPtr ExpressionParser::sum() {
  ExprPtr left = product();
  while (left && (tokens_.continues(TokenKind::Plus) || tokens_.continues(TokenKind::Minus))) {
    const BinaryOp op = tokens_.is(TokenKind::Plus) ? BinaryOp::Add : BinaryOp::Sub;
    tokens_.advance();
    left = binary(op, std::move(left), product());
  }
  return left;
}

// product := unary { ( "*" | "/" ) unary }
ExprPtr ExpressionParser::product() {
  ExprPtr left = unary();
  while (left && (tokens_.continues(TokenKind::Star) || tokens_.continues(TokenKind::Slash))) {
    const BinaryOp op = tokens_.is(TokenKind::Star) ? BinaryOp::Mul : BinaryOp::Div;
    tokens_.advance();
    left = binary(op, std::move(left), unary());
  }
  return left;
}

// unary := "-" unary | matrix_product
ExprPtr ExpressionParser::unary() {
  ExprPtr result;
  if (tokens_.enter()) {
    const uint32_t begin = tokens_.current().location.begin;
    if (tokens_.take(TokenKind::Minus)) {
      if (ExprPtr operand = unary()) {
        result = make(Expr::Kind::Negate);
        result->children.push_back(std::move(operand));
        result = finish(std::move(result), begin);
      }
    } else {
      result = matrix_product();
    }
  }
  tokens_.leave();
  return result;
}

// matrix_product := postfix [ "@" unary ]
ExprPtr ExpressionParser::matrix_product() {
  ExprPtr left = postfix();
  if (!left || !tokens_.continues(TokenKind::At)) return left;
  tokens_.advance();
  return binary(BinaryOp::MatMul, std::move(left), unary());
}

/// Of `LSTM[64]` and `LSTM[H]` in front of a `(`: dims are in capitals, indices are not.
bool is_call_with_dims(const Expr& base) {
  if (base.kind != Expr::Kind::Index || base.children[0]->kind != Expr::Kind::Name) return false;
  const Expr& index = *base.children[1];
  return index.kind == Expr::Kind::Number ||
         (index.kind == Expr::Kind::Name && index.text[0] >= 'A' && index.text[0] <= 'Z');
}

// postfix := ( call | primary ) { index }
ExprPtr ExpressionParser::postfix() {
  ExprPtr base = at_call() ? numbered(call()) : primary();
  while (base && tokens_.continues(TokenKind::LeftBracket)) base = index_after(std::move(base));
  if (base && tokens_.continues(TokenKind::LeftParen)) {
    const char* hint = "a product is written with `*` or `@`";
    if (is_call_with_dims(*base)) hint = kDims;
    if (base->kind == Expr::Kind::Call) {
      hint = "layers follow one another: `y = A(x)`, then `y = B(y)`; a product is `*` or `@`";
    }
    tokens_.error_at(base->location, "only a name can be called", hint);
    return nullptr;
  }
  return base;
}

/// What stands in brackets right behind a layer's name, `as NAME`, is its number.
ExprPtr ExpressionParser::numbered(ExprPtr call) {
  if (!call || !call->layer || !tokens_.continues(TokenKind::LeftBracket)) return call;
  const uint32_t begin = call->location.begin;
  ExprPtr result = index_after(std::move(call));
  if (!result || result->kind != Expr::Kind::Index) return result;  // or is a slice of its result
  call = std::move(result->children[0]);
  call->layer_index = std::move(result->children[1]);
  return finish(std::move(call), begin);
}

// index := "[" sum "]" | "[" [ sum ] ":" [ sum ] "]"
ExprPtr ExpressionParser::index_after(ExprPtr base) {
  const uint32_t begin = base->location.begin;
  const Token open = tokens_.current();
  tokens_.advance();
  ExprPtr index;
  ExprPtr end;
  if (!tokens_.is(TokenKind::Colon) && !(index = sum())) return nullptr;
  const bool slice = tokens_.take(TokenKind::Colon);
  const bool bare = slice && (tokens_.is(TokenKind::RightBracket) || tokens_.is(TokenKind::Comma) ||
                              tokens_.is(TokenKind::Colon));
  if (slice && !bare && !(end = sum())) return nullptr;
  if (tokens_.is(TokenKind::Comma)) return several_indices(open);
  if (!tokens_.expect_closing(TokenKind::RightBracket, open)) return nullptr;
  ExprPtr result = make(slice ? Expr::Kind::Slice : Expr::Kind::Index);
  result->children.push_back(std::move(base));
  result->children.push_back(std::move(index));
  if (slice) result->children.push_back(std::move(end));
  return finish(std::move(result), begin);
}

/// `W[i, j]`, `LSTM[64, 32](x)`: an error.
ExprPtr ExpressionParser::several_indices(const Token& open) {
  size_t end = 0;
  while (tokens_.ahead(end).kind != TokenKind::RightBracket &&
         tokens_.ahead(end).kind != TokenKind::End) {
    ++end;
  }
  const bool call = tokens_.ahead(end + 1).kind == TokenKind::LeftParen;
  tokens_.error_expected(
      "`]`",
      call ? Hint(kDims)
           : Hint("each axis has brackets of its own: `W[i][j]`; a column is `transpose(W)[j]`",
                  {{tokens_.current().location, "]["}}),
      {{open.location, fmt::format("{} is open since here", spelling(open.kind))}});
  return nullptr;
}

// primary := NUMBER | NAME | "(" expression ")" | vector
ExprPtr ExpressionParser::primary() {
  const Token token = tokens_.current();
  if (token.kind == TokenKind::LeftParen) {
    tokens_.advance();
    ExprPtr inner = expression();
    if (!inner || !tokens_.expect_closing(TokenKind::RightParen, token)) return nullptr;
    inner->location = tokens_.span_from(token.location.begin);
    return inner;
  }
  if (token.kind == TokenKind::LeftBracket) return vector();
  const bool number = token.kind == TokenKind::Number;
  if (!number && token.kind != TokenKind::Name) {
    no_value();
    return nullptr;
  }
  tokens_.advance();
  ExprPtr leaf = make(number ? Expr::Kind::Number : Expr::Kind::Name);
  leaf->text = utf8::compose(token.text);
  leaf->number = token.number;
  leaf->location = token.location;
  return leaf;
}

void ExpressionParser::no_value() {
  const Token& token = tokens_.current();
  Hint hint = "a value is a number, a name, a call, or an expression in parentheses";
  if (is_word(token.kind) && !tokens_.at_line_end()) {
    tokens_.expect_name("a value");
    return;
  }
  if (token.kind == TokenKind::Plus) {
    hint = {"there is no unary `+`", {{token.location, ""}}};
  } else if (token.kind == TokenKind::String) {
    hint = "numbers and names stand without quotes";
  } else if (is_binary(tokens_.before().kind)) {
    hint = fmt::format("{} has a value on each side", spelling(tokens_.before().kind));
  }
  tokens_.error_expected("a value", std::move(hint));
}

// vector := "[" expression { "," expression } [ "," ] "]"
ExprPtr ExpressionParser::vector() {
  const uint32_t begin = tokens_.current().location.begin;
  ExprPtr result = make(Expr::Kind::Vector);
  const bool complete = list(TokenKind::LeftBracket, TokenKind::RightBracket, [&] {
    result->children.push_back(expression());
    return result->children.back() != nullptr;
  });
  if (!complete) return nullptr;
  result = finish(std::move(result), begin);
  if (!result || !result->children.empty()) return result;
  tokens_.error_at(result->location, "a vector has at least one element",
                   "the empty one, to which `concat` adds, is `zeros(0)`");
  return nullptr;
}

bool ExpressionParser::at_call() const {
  if (tokens_.is(TokenKind::Reverse)) return true;
  if (!tokens_.is(TokenKind::Name)) return false;
  const Token& next = tokens_.ahead(1);
  if (next.kind == TokenKind::LeftParen) return !next.starts_line;
  return next.kind == TokenKind::LeftBracket && tokens_.ahead(2).kind == TokenKind::Name &&
         tokens_.ahead(3).kind == TokenKind::Assign;
}

// call := [ "reverse" ] NAME [ "[" dims "]" ] "(" [ expression { "," expression } ] ")" [ "as" NAME
// ]
ExprPtr ExpressionParser::call() {
  const uint32_t begin = tokens_.current().location.begin;
  ExprPtr result = make(Expr::Kind::Call);
  result->reverse = tokens_.take(TokenKind::Reverse);
  const char* hint = "a layer runs in reverse, not a value: `reverse GRU[H = 8](x)`";
  if (result->reverse && tokens_.is(TokenKind::LeftParen)) {
    tokens_.error_expected("the name of a cell or network", hint);
    return nullptr;
  }
  const auto name = tokens_.expect_name("the name of a cell or network", hint);
  if (!name) return nullptr;
  result->text = name->text;
  result->text_location = name->location;
  if (tokens_.is(TokenKind::LeftBracket) && !call_dims(result->dims)) return nullptr;
  if (result->reverse && !tokens_.is(TokenKind::LeftParen)) {
    tokens_.error_expected("`(`", hint);
    return nullptr;
  }
  if (!tokens_.is(TokenKind::LeftParen)) {
    tokens_.error_expected("`(`", "a layer is called: `LSTM[H = 256](x)`");
    return nullptr;
  }
  const bool complete = list(TokenKind::LeftParen, TokenKind::RightParen, [&] {
    result->children.push_back(expression());
    return result->children.back() != nullptr;
  });
  if (!complete) return nullptr;
  if (tokens_.continues(TokenKind::As)) {
    tokens_.advance();
    if (!(result->layer =
              tokens_.expect_name("a name for the layer", "`as head` names its params `head.W`")))
      return nullptr;
  }
  return finish(std::move(result), begin);
}

// dims := NAME "=" sum { "," NAME "=" sum }
bool ExpressionParser::call_dims(std::vector<ast::DimArgument>& dims) {
  return list(TokenKind::LeftBracket, TokenKind::RightBracket, [&] {
    auto name = tokens_.expect_name("a dim's name", kDims);
    if (!name || !tokens_.expect(TokenKind::Assign, kDims)) {
      return false;
    }
    ExprPtr value = sum();
    if (!value) return false;
    dims.push_back({std::move(*name), std::move(value)});
    return true;
  });
}

// shape := "[" [ sum { "," sum } ] "]"
std::optional<std::vector<ExprPtr>> ExpressionParser::shape() {
  if (!tokens_.is(TokenKind::LeftBracket)) {
    tokens_.error_expected("`[`", unbracketed_shape());
    return std::nullopt;
  }
  std::vector<ExprPtr> dims;
  const bool complete = list(TokenKind::LeftBracket, TokenKind::RightBracket, [&] {
    dims.push_back(sum());
    return dims.back() != nullptr;
  });
  if (!complete) return std::nullopt;
  return dims;
}

/// For `H`, `(H, I)` and `Tensor[H]`, where a shape should stand.
Hint ExpressionParser::unbracketed_shape() const {
  Hint hint = "a shape stands in square brackets: `[H]`, or `[]` for a scalar";
  const Token& token = tokens_.current();
  if (token.starts_line) return hint;
  const SourceLocation place = token.location;
  const size_t closing = tokens_.distance_to_closing();
  if (token.kind == TokenKind::LeftParen && closing > 0) {
    hint.edits = {{place, "["}, {tokens_.ahead(closing).location, "]"}};
  } else if (token.kind == TokenKind::Name && tokens_.ahead(1).kind == TokenKind::LeftBracket) {
    hint.edits = {{place, ""}};
  } else if (token.kind == TokenKind::Name || token.kind == TokenKind::Number) {
    hint.edits = {{place, fmt::format("[{}]", token.text)}};
  }
  return hint;
}

ExprPtr ExpressionParser::binary(BinaryOp op, ExprPtr left, ExprPtr right) {
  if (!left || !right) return nullptr;
  ExprPtr result = make(Expr::Kind::Binary);
  const uint32_t begin = left->location.begin;
  result->op = op;
  result->children.push_back(std::move(left));
  result->children.push_back(std::move(right));
  return finish(std::move(result), begin);
}

ExprPtr ExpressionParser::finish(ExprPtr expr, uint32_t begin) {
  expr->location = tokens_.span_from(begin);
  for (const ExprPtr& child : expr->children) {
    if (child) expr->depth = std::max(expr->depth, child->depth + 1);
  }
  for (const ast::DimArgument& dim : expr->dims) {
    expr->depth = std::max(expr->depth, dim.value->depth + 1);
  }
  if (expr->layer_index) expr->depth = std::max(expr->depth, expr->layer_index->depth + 1);
  return tokens_.allows_depth(*expr) ? std::move(expr) : nullptr;
}

}  // namespace rnnc
