/// What both halves of the parser stand on: the tokens, where a line ends, and errors.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/syntax/ast.h"
#include "frontend/syntax/diagnostics.h"
#include "frontend/syntax/lexer.h"

namespace rnnc {

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, Diagnostics& diagnostics)
      : tokens_(std::move(tokens)), diagnostics_(diagnostics) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& ahead(size_t count) const {
    return tokens_[std::min(position_ + count, tokens_.size() - 1)];
  }
  /// The token read last; only after the first.
  const Token& before() const { return tokens_[position_ - 1]; }
  /// Whether the current token and the next touch, as in `+=`.
  bool touches_next() const { return current().location.end == ahead(1).location.begin; }
  /// How far ahead the bracket stands that closes the current one; 0 if none does on this line.
  size_t distance_to_closing() const;
  /// Whether this kind comes before the line ends.
  bool line_has(TokenKind kind) const;
  size_t position() const { return position_; }
  bool is(TokenKind kind) const { return current().kind == kind; }
  /// Outside brackets, a new line ends a statement.
  bool at_line_end() const {
    return (current().starts_line && brackets_ == 0) || is(TokenKind::End);
  }
  /// Whether the line goes on with a token of this kind.
  bool continues(TokenKind kind) const { return is(kind) && !at_line_end(); }
  /// Whether a line starts here with a cell, network, fn, const or import.
  bool at_item() const;
  /// The same at the line's first character, where a body that goes on must have lost its `}`.
  bool at_margin_item() const { return at_item() && !current().indented; }
  /// From `begin` to the end of what was read last.
  SourceLocation span_from(uint32_t begin) const;

  void advance();
  bool take(TokenKind kind);
  /// Takes the token or reports "expected …, found …".
  bool expect(TokenKind kind, Hint hint = {});
  /// The same for the bracket that closes `open`, which a note shows.
  bool expect_closing(TokenKind kind, const Token& open);
  /// A name, in normal form C.
  std::optional<ast::Identifier> expect_name(std::string_view what, Hint hint = {});

  /// "expected `what`, found …", at the current token, or just after the last one where the line
  /// ended too early. Words of other languages have hints of their own.
  void error_expected(std::string_view what, Hint hint = {},
                      std::vector<Diagnostic::Note> notes = {});
  void error_at(SourceLocation location, std::string message, Hint hint = {},
                std::vector<Diagnostic::Note> notes = {});
  /// Whether nobody would see another error.
  bool gives_up() const { return diagnostics_.is_full(); }
  /// An empty place just after the token read last.
  SourceLocation end_of_last() const;

  /// After an error: forgets open brackets and goes on at the next line or at a `}`, passing over
  /// whole blocks and over at least one token after `start`.
  void skip_statement(size_t start);
  /// The same, to the next item of the file.
  void skip_item(size_t start);

  /// Bounds recursion: false, with an error, where it goes too deep. Pair it with `leave`.
  bool enter();
  void leave() { --nesting_; }
  /// Whether a tree of this depth may be built; reports it if not.
  bool allows_depth(const ast::Expr& expr);

 private:
  std::string_view habit_here() const;

  std::vector<Token> tokens_;
  Diagnostics& diagnostics_;
  size_t position_ = 0;
  int brackets_ = 0;  // open ( and [
  int nesting_ = 0;
};

}  // namespace rnnc
