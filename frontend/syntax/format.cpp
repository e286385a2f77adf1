// 1. The lexer gives the tokens; what stands between two of them is read again for comments, line
//    ends and blank lines.
// 2. Tokens are laid out in lines. Lines break where they did, and around the body of a block that
//    has more than one; a `{` stands behind what it belongs to.
// 3. A statement stands two columns in for each block. A line that goes on stands behind its open
//    bracket, or four columns further in than the line whose last token that bracket or an operator
//    is.
// 4. Blank lines are one at most, none at the edges of a block, and one around each cell and
//    network. Comments behind the code of neighbouring lines start in one column.
#include "frontend/syntax/format.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/syntax/lexer.h"

namespace rnnc {
namespace {

constexpr size_t kBlockIndent = 2;
constexpr size_t kContinuationIndent = 4;
constexpr std::string_view kBlanks = " \t\r";

/// In characters.
size_t width(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

/// What stands between two tokens.
struct Gap {
  struct Comment {
    std::string_view text;
    bool blank_before = false;
  };
  std::string_view trailing;      // a comment on the first token's line
  std::vector<Comment> comments;  // on lines of their own
  bool blank = false;             // a blank line before the second token
  bool breaks = false;            // the second token starts a line

  /// `starts_file`: there is no first token, so that no comment is behind it.
  Gap(std::string_view text, bool starts_file) : breaks(text.find('\n') != text.npos) {
    bool first = !starts_file;
    for (size_t begin = 0; begin <= text.size(); first = false) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const bool last = end == text.size();
      std::string_view line = text.substr(begin, end - begin);
      begin = end + 1;
      line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
      line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
      if (line.empty()) {
        blank |= !first && !last;
      } else if (first) {
        trailing = line;
      } else {
        comments.push_back({line, std::exchange(blank, false)});
      }
    }
  }
  bool has_comments() const { return !trailing.empty() || !comments.empty(); }
};

bool ends_value(TokenKind kind) {
  return kind == TokenKind::Name || kind == TokenKind::Number || kind == TokenKind::String ||
         kind == TokenKind::RightParen || kind == TokenKind::RightBracket;
}

bool opens(TokenKind kind) {
  return kind == TokenKind::LeftParen || kind == TokenKind::LeftBracket;
}

bool closes(TokenKind kind) {
  return kind == TokenKind::RightParen || kind == TokenKind::RightBracket;
}

bool starts_statement(TokenKind kind) {
  return kind == TokenKind::Name || kind == TokenKind::LeftParen || kind == TokenKind::State ||
         kind == TokenKind::Param || kind == TokenKind::For || kind == TokenKind::Cell ||
         kind == TokenKind::Network || kind == TokenKind::Fn || kind == TokenKind::Const ||
         kind == TokenKind::Import || kind == TokenKind::End;
}

class Formatter {
 public:
  explicit Formatter(const SourceFile& file) : file_(file) {
    Diagnostics ignored;  // the file was parsed before
    tokens_ = lex(file, 0, ignored);
    find_blocks();
  }

  std::string run() {
    size_t end = file_.text().starts_with("\xEF\xBB\xBF") ? 3 : 0;
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      const SourceLocation place = tokens_[at_].location;
      add_token(Gap(file_.text().substr(end, place.begin - end), at_ == 0));
      end = place.end;
    }
    part_definitions();
    align_comments();
    return text();
  }

 private:
  struct Line {
    std::string code;  // from the first column on
    std::string comment;
    bool blank_before = false;
    bool defines = false;  // a cell or network starts here
    bool closes = false;   // one ends here
  };
  struct Bracket {
    size_t inside;   // the column of lines that start inside it
    size_t closing;  // and of one that starts with its end
    bool square;
    bool time;  // `[t…]`
  };

  TokenKind kind() const { return tokens_[at_].kind; }
  TokenKind kind_before() const { return at_ == 0 ? TokenKind::End : tokens_[at_ - 1].kind; }

  /// Which braces have a body of several lines between them.
  void find_blocks() {
    tall_.assign(tokens_.size(), false);
    std::vector<size_t> open;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind == TokenKind::LeftBrace) open.push_back(i);
      if (tokens_[i].kind != TokenKind::RightBrace || open.empty()) continue;
      const uint32_t begin = tokens_[open.back()].location.end;
      const std::string_view body = file_.text().substr(begin, tokens_[i].location.begin - begin);
      tall_[i] = tall_[open.back()] = body.find('\n') != body.npos;
      open.pop_back();
    }
  }

  void add_token(const Gap& gap) {
    const bool closing = kind() == TokenKind::RightBrace;
    const bool edge = at_ == 0 || kind_before() == TokenKind::LeftBrace;
    const size_t column = column_of_next();
    if (!gap.trailing.empty()) lines_.back().comment = gap.trailing;
    for (size_t i = 0; i < gap.comments.size(); ++i) {
      const bool blank = gap.comments[i].blank_before && !(edge && i == 0);
      start_line(closing ? blocks_ * kBlockIndent : column, blank);
      lines_.back().comment = gap.comments[i].text;
    }
    if (kind() == TokenKind::End) return;
    if (breaks_before(gap)) {
      const bool blank = gap.blank && !closing && !(edge && gap.comments.empty());
      start_line(column, blank);
    } else if (space_before()) {
      lines_.back().code += ' ';
    }
    write();
  }

  bool breaks_before(const Gap& gap) const {
    if (at_ == 0 || gap.has_comments()) return true;
    if (kind() == TokenKind::LeftBrace) return false;
    if (kind() == TokenKind::RightBrace) return tall_[at_];
    if (kind_before() == TokenKind::LeftBrace) return tall_[at_ - 1];
    return gap.breaks;
  }

  void start_line(size_t column, bool blank) {
    lines_.push_back({std::string(column, ' '), "", blank});
    indent_ = column;
  }

  /// Where the token stands if it starts a line.
  size_t column_of_next() const {
    if (!brackets_.empty()) {
      return closes(kind()) ? brackets_.back().closing : brackets_.back().inside;
    }
    if (kind() == TokenKind::RightBrace) return (std::max<size_t>(blocks_, 1) - 1) * kBlockIndent;
    const TokenKind before = kind_before();
    const bool complete = ends_value(before) || before == TokenKind::LeftBrace ||
                          before == TokenKind::RightBrace || before == TokenKind::End;
    const bool fresh = complete && !in_header_ && starts_statement(kind());
    return blocks_ * kBlockIndent +
           (fresh || kind() == TokenKind::LeftBrace ? 0 : kContinuationIndent);
  }

  void write() {
    Line& line = lines_.back();
    line.code += file_.slice(tokens_[at_].location);
    switch (kind()) {
      case TokenKind::LeftParen:
      case TokenKind::LeftBracket:
        open_bracket();
        break;
      case TokenKind::RightParen:
      case TokenKind::RightBracket:
        if (!brackets_.empty()) brackets_.pop_back();
        break;
      case TokenKind::LeftBrace:
        ++blocks_;
        in_header_ = false;
        break;
      case TokenKind::RightBrace:
        if (blocks_ > 0) --blocks_;
        line.closes = blocks_ == 0;
        break;
      case TokenKind::Cell:
      case TokenKind::Network:
        line.defines = true;
        [[fallthrough]];
      case TokenKind::Fn:
      case TokenKind::For:
        in_header_ = true;
        break;
      case TokenKind::Assign:
        if (brackets_.empty()) in_header_ = false;
        break;
      default:
        break;
    }
  }

  void open_bracket() {
    const Token& next = tokens_[at_ + 1];
    const size_t column = width(lines_.back().code);
    const bool square = kind() == TokenKind::LeftBracket;
    const bool time = square && next.kind == TokenKind::Name && next.text == "t";
    const bool last = next.starts_line;
    brackets_.push_back(
        {last ? indent_ + kContinuationIndent : column, last ? indent_ : column, square, time});
  }

  /// Whether a minus at `index` has no left operand.
  bool is_unary(size_t index) const {
    return tokens_[index].kind == TokenKind::Minus &&
           (index == 0 || !ends_value(tokens_[index - 1].kind));
  }

  /// The `int` of `token: int []`.
  bool is_integer_type(size_t at) const {
    return at > 0 && tokens_[at].text == "int" && tokens_[at - 1].kind == TokenKind::Colon;
  }

  /// Between the token and the one before it on the line.
  bool space_before() const {
    const TokenKind before = kind_before();
    const auto either = [&](TokenKind one) { return before == one || kind() == one; };
    if (opens(before) || closes(kind()) || kind() == TokenKind::Comma) return false;
    if (before == TokenKind::LeftBrace) return kind() != TokenKind::RightBrace;
    if (either(TokenKind::DotDot) || kind() == TokenKind::Colon) return false;
    // `--` would be one token.
    if (is_unary(at_ - 1)) return kind() == TokenKind::Minus;
    const bool in_square = !brackets_.empty() && brackets_.back().square;
    if (before == TokenKind::Colon) return !in_square;
    if (opens(kind())) return !ends_value(before) || is_integer_type(at_ - 1);
    const bool sum = either(TokenKind::Plus) || either(TokenKind::Minus);
    if (sum && !brackets_.empty() && brackets_.back().time) return is_unary(at_);
    return true;
  }

  /// A blank line before and after each cell and network, and what is said above it.
  void part_definitions() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (i > 0 && lines_[i - 1].closes) lines_[i].blank_before = true;
      if (!lines_[i].defines) continue;
      size_t first = i;
      while (first > 0 && !lines_[first].blank_before && is_comment(lines_[first - 1])) --first;
      lines_[first].blank_before = first > 0;
    }
  }

  static bool is_comment(const Line& line) {
    return line.code.find_first_not_of(' ') == std::string::npos;
  }

  /// Of neighbouring lines with code, indented alike, and a comment behind it.
  void align_comments() {
    const auto indent = [](const Line& line) { return line.code.find_first_not_of(' '); };
    for (size_t begin = 0; begin < lines_.size();) {
      size_t end = begin;
      size_t column = 0;
      while (end < lines_.size() && !is_comment(lines_[end]) && !lines_[end].comment.empty() &&
             (end == begin || !lines_[end].blank_before) &&
             indent(lines_[end]) == indent(lines_[begin])) {
        column = std::max(column, width(lines_[end++].code) + 2);
      }
      for (size_t i = begin; i < end; ++i) {
        lines_[i].code.append(column - width(lines_[i].code), ' ');
      }
      begin = std::max(end, begin + 1);
    }
  }

  std::string text() const {
    std::string result;
    for (const Line& line : lines_) {
      if (line.blank_before) result += '\n';
      result += line.code + line.comment + '\n';
    }
    return result;
  }

  const SourceFile& file_;
  std::vector<Token> tokens_;
  std::vector<bool> tall_;  // by token: a brace of a block that has lines of its own
  std::vector<Line> lines_;
  std::vector<Bracket> brackets_;  // open ( and [
  size_t at_ = 0;
  size_t blocks_ = 0;       // open {
  size_t indent_ = 0;       // of the last line
  bool in_header_ = false;  // from `cell`, `network` and `for` to `{`, from `fn` to `=`
};

}  // namespace

std::string format_source(const SourceFile& file) {
  return Formatter(file).run();
}

}  // namespace rnnc
