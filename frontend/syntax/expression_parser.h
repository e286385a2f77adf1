/// The grammar of expressions, shapes and dims.
#pragma once

#include <optional>
#include <vector>

#include "frontend/syntax/ast.h"
#include "frontend/syntax/token_stream.h"

namespace rnnc {

/// Functions return null (or nothing) after reporting an error.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ast::ExprPtr expression();
  /// A dim, a range's end: an expression without comparisons.
  ast::ExprPtr sum();
  std::optional<std::vector<ast::ExprPtr>> shape();
  ast::ExprPtr index_after(ast::ExprPtr base);

  /// open [ item { "," item } [ "," ] ] close; `item` returns false after reporting an error.
  template <typename Item>
  bool list(TokenKind open, TokenKind close, Item&& item) {
    const Token opening = tokens_.current();
    if (!tokens_.expect(open)) return false;
    while (!tokens_.is(close)) {
      if (!item()) return false;
      if (!tokens_.take(TokenKind::Comma)) break;
    }
    return tokens_.expect_closing(close, opening);
  }

 private:
  ast::ExprPtr product();
  ast::ExprPtr unary();
  ast::ExprPtr matrix_product();
  ast::ExprPtr postfix();
  ast::ExprPtr primary();
  ast::ExprPtr several_indices(const Token& open);
  void no_value();
  Hint unbracketed_shape() const;
  ast::ExprPtr vector();
  ast::ExprPtr call();
  ast::ExprPtr numbered(ast::ExprPtr call);
  bool call_dims(std::vector<ast::DimArgument>& dims);
  bool at_call() const;
  ast::ExprPtr binary(ast::BinaryOp op, ast::ExprPtr left, ast::ExprPtr right);
  ast::ExprPtr finish(ast::ExprPtr expr, uint32_t begin);

  TokenStream& tokens_;
};

}  // namespace rnnc
