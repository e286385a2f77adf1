#include "frontend/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "frontend/utf8.h"

namespace rnnc {
namespace {

constexpr size_t kLargestFile = 16 << 20;
constexpr size_t kLongestName = 255;

struct Spelling {
  TokenKind kind;
  std::string_view text;
};

constexpr auto kWords = std::to_array<Spelling>({
    {TokenKind::Cell, "cell"},
    {TokenKind::Network, "network"},
    {TokenKind::Fn, "fn"},
    {TokenKind::Const, "const"},
    {TokenKind::Import, "import"},
    {TokenKind::State, "state"},
    {TokenKind::Param, "param"},
    {TokenKind::Blocks, "blocks"},
    {TokenKind::For, "for"},
    {TokenKind::In, "in"},
    {TokenKind::Reverse, "reverse"},
    {TokenKind::As, "as"},
});

// Longer ones first where one starts another.
constexpr auto kPunctuation = std::to_array<Spelling>({
    {TokenKind::DotDot, ".."},       {TokenKind::Arrow, "->"},     {TokenKind::LessEqual, "<="},
    {TokenKind::GreaterEqual, ">="}, {TokenKind::Equal, "=="},     {TokenKind::NotEqual, "!="},
    {TokenKind::LeftParen, "("},     {TokenKind::RightParen, ")"}, {TokenKind::LeftBracket, "["},
    {TokenKind::RightBracket, "]"},  {TokenKind::LeftBrace, "{"},  {TokenKind::RightBrace, "}"},
    {TokenKind::Comma, ","},         {TokenKind::Colon, ":"},      {TokenKind::Assign, "="},
    {TokenKind::Plus, "+"},          {TokenKind::Minus, "-"},      {TokenKind::Star, "*"},
    {TokenKind::Slash, "/"},         {TokenKind::At, "@"},         {TokenKind::Less, "<"},
    {TokenKind::Greater, ">"},
});

/// What people write out of habit, and what it is called here.
constexpr auto kHabits = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"^", "a power is `pow(a, b)`"},
    {"%", "the remainder is `mod(a, b)`"},
    {"#", "a comment starts with `//`"},
    {";", "a statement ends with its line"},
    {"&", "for comparisons, `a * b` is \"and\""},
    {"|", "for comparisons, `max(a, b)` is \"or\""},
    {"!", "for comparisons, `1 - a` is \"not\""},
    {"?", "a choice is `where(condition, a, b)`"},
    {"'", "a state's new value is `h[t]`, its old one `h[t-1]`; `transpose(W)` transposes"},
    {".", "a number has digits on both sides of the dot; elementwise product is `*`"},
    {"×", "elementwise product is `*`"},
    {"·", "elementwise product is `*`, matrix product is `@`"},
    {"⊙", "elementwise product is `*`"},
    {"∘", "elementwise product is `*`"},
    {"−", "this is a typographic minus; write `-`"},
});

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  Lexer(const SourceFile& file, uint32_t file_index, Diagnostics& diagnostics)
      : text_(file.text()), file_(file_index), diagnostics_(diagnostics) {}

  std::vector<Token> run() {
    if (is_text()) {
      while (skip_blanks()) next_token();
    }
    at_ = text_.size();
    add(TokenKind::End, 0);
    return std::move(tokens_);
  }

 private:
  SourceLocation here(size_t length) const {
    return {file_, static_cast<uint32_t>(at_), static_cast<uint32_t>(at_ + length)};
  }
  std::string_view rest() const { return text_.substr(at_); }
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  bool is_text() {
    if (text_.size() > kLargestFile) {
      diagnostics_.error({file_, 0, 0}, fmt::format("the file has {} bytes, more than {} MiB",
                                                    text_.size(), kLargestFile >> 20));
      return false;
    }
    for (at_ = 0; at_ < text_.size();) {
      const uint32_t length = text_[at_] == '\0' ? 0 : utf8::decode(rest()).length;
      if (length == 0) {
        const auto byte = static_cast<unsigned char>(text_[at_]);
        diagnostics_.error(here(1), fmt::format("not a text file: byte {} is 0x{:02x}, "
                                                "which UTF-8 text does not have here",
                                                at_, byte));
        return false;
      }
      at_ += length;
    }
    at_ = text_.starts_with("\xEF\xBB\xBF") ? 3 : 0;  // a byte order mark
    return true;
  }

  /// Blanks, line ends and comments. False at the end of the text.
  bool skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        starts_line_ = true;
        // A blank line parts a comment from what follows.
        if (!doc_.empty() && rest().find_first_not_of(" \t\r", 1) == rest().find('\n', 1)) {
          doc_.clear();
        }
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (rest().starts_with("//")) {
        skip_comment();
      } else {
        return true;
      }
    }
    return false;
  }

  void skip_comment() {
    std::string_view comment = rest().substr(0, rest().find('\n'));
    at_ += comment.size();
    if (!comment.starts_with("///")) return;
    comment.remove_prefix(3);
    if (comment.starts_with(' ')) comment.remove_prefix(1);
    if (comment.ends_with('\r')) comment.remove_suffix(1);
    doc_ += comment;
    doc_ += '\n';
  }

  void next_token() {
    const bool after_import = !tokens_.empty() && tokens_.back().kind == TokenKind::Import;
    if (after_import && !starts_line_ && peek(0) != '"') return unquoted();
    if (is_digit(peek(0))) return number();
    if (name_length() > 0) return name();
    if (peek(0) == '"') return string();
    for (const Spelling& punctuation : kPunctuation) {
      if (rest().starts_with(punctuation.text)) {
        return add(punctuation.kind, punctuation.text.size());
      }
    }
    bad_character();
  }

  void add(TokenKind kind, size_t length) {
    Token token;
    token.kind = kind;
    token.location = here(length);
    token.starts_line = std::exchange(starts_line_, false);
    token.indented = at_ > 0 && text_[at_ - 1] != '\n';
    token.text = rest().substr(0, length);
    token.doc = std::exchange(doc_, {});
    tokens_.push_back(std::move(token));
    at_ += length;
  }

  void bad(size_t length, std::string message, std::string hint = {}) {
    diagnostics_.error(here(length), std::move(message), std::move(hint));
    add(TokenKind::Bad, length);
  }

  /// Bytes of the name or word that starts here, 0 if none does.
  size_t name_length(size_t from = 0) const {
    size_t length = from;
    while (at_ + length < text_.size()) {
      const char c = text_[at_ + length];
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      if (letter || (is_digit(c) && length > 0)) {
        ++length;
        continue;
      }
      const utf8::Character character = utf8::decode(rest().substr(length));
      if (character.length < 2 || !utf8::is_letter(character.code_point)) break;
      length += character.length;
    }
    return length - from;
  }

  void name() {
    const size_t length = name_length();
    if (length > kLongestName) {
      return bad(length, fmt::format("a name of {} bytes, more than {}", length, kLongestName));
    }
    const std::string_view text = rest().substr(0, length);
    const auto* word = std::ranges::find(kWords, text, &Spelling::text);
    add(word == kWords.end() ? TokenKind::Name : word->kind, length);
  }

  // NUMBER := DIGITS [ "." DIGITS ] [ ("e" | "E") [ "+" | "-" ] DIGITS ]
  void number() {
    const auto digits = [&](size_t from) {
      while (is_digit(peek(from))) ++from;
      return from;
    };
    size_t length = digits(0);
    if (peek(length) == '.' && peek(length + 1) != '.') {
      if (!is_digit(peek(length + 1))) {
        return bad(length + 1, "a number has digits on both sides of the dot",
                   fmt::format("write `{}.0`", rest().substr(0, length)));
      }
      length = digits(length + 1);
    }
    if (peek(length) == 'e' || peek(length) == 'E') {
      const size_t sign = peek(length + 1) == '+' || peek(length + 1) == '-' ? 1 : 0;
      if (is_digit(peek(length + 1 + sign))) length = digits(length + 1 + sign);
    }
    if (const size_t letters = name_length(length); letters > 0) {
      return bad(length + letters,
                 fmt::format("`{}` is neither a number nor a name",
                             rest().substr(0, std::min(length + letters, kLongestName))),
                 "a name does not start with a digit, and a product is written with `*`");
    }
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + length, value);
    if (error == std::errc::result_out_of_range && !is_tiny(rest().substr(0, length))) {
      return bad(length, "the number is too large for a float64");
    }
    add(TokenKind::Number, length);
    tokens_.back().number = value;
  }

  /// Whether a number out of float64's range is too small, not too large. It counts as 0 then.
  static bool is_tiny(std::string_view text) {
    const size_t exponent = text.find_first_of("eE");
    if (exponent != std::string_view::npos) return text[exponent + 1] == '-';
    return text.starts_with("0.");
  }

  void string() {
    const std::string_view line = rest().substr(0, rest().find('\n'));
    const size_t close = line.find('"', 1);
    if (close == std::string_view::npos) {
      return bad(line.size(), "the text in quotes has no end on this line");
    }
    for (size_t i = 1; i < close;) {
      const utf8::Character character = utf8::decode(line.substr(i));
      if (!utf8::is_printable(character.code_point)) {
        return bad(close + 1, "the text in quotes has a control character");
      }
      i += character.length;
    }
    add(TokenKind::String, close + 1);
    tokens_.back().text = tokens_.back().text.substr(1, close - 1);
  }

  /// `import lstm.rnn`: one mistake, whatever the name is made of.
  void unquoted() {
    const std::string_view name = rest().substr(0, rest().find_first_of(" \t\r\n"));
    bad(name.size(), "the file to import stands in quotes", "write `import \"file.rnn\"`");
  }

  void bad_character() {
    const utf8::Character decoded = utf8::decode(rest());
    const std::string_view character = rest().substr(0, decoded.length);
    const auto* habit =
        std::ranges::find(kHabits, character, [](const auto& pair) { return pair.first; });
    size_t length = character.size();  // `&&` is one mistake, not two
    while (rest().substr(length).starts_with(character)) length += character.size();
    bad(length,
        utf8::is_printable(decoded.code_point)
            ? fmt::format("`{}` has no meaning here", rest().substr(0, length))
            : fmt::format("a control character (U+{:04X})",
                          static_cast<uint32_t>(decoded.code_point)),
        habit == kHabits.end() ? "" : std::string(habit->second));
  }

  std::string_view text_;
  uint32_t file_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  bool starts_line_ = true;
  std::string doc_;
  std::vector<Token> tokens_;
};

}  // namespace

std::string spelling(TokenKind kind) {
  switch (kind) {
    case TokenKind::End:
      return "the end of the file";
    case TokenKind::Name:
      return "a name";
    case TokenKind::Number:
      return "a number";
    case TokenKind::String:
      return "text in quotes";
    case TokenKind::Bad:
      return "something unreadable";
    default:
      break;
  }
  for (const Spelling& word : kWords) {
    if (word.kind == kind) return fmt::format("`{}`", word.text);
  }
  const auto* found = std::ranges::find(kPunctuation, kind, &Spelling::kind);
  return fmt::format("`{}`", found->text);
}

std::vector<Token> lex(const SourceFile& file, uint32_t file_index, Diagnostics& diagnostics) {
  return Lexer(file, file_index, diagnostics).run();
}

}  // namespace rnnc
