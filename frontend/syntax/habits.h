/// What people write out of habit, from other languages and from papers, and how it is said here.
#pragma once

#include <string_view>

namespace rnnc::habits {

/// An operator or a character that is none here.
struct Operator {
  std::string_view written;
  std::string_view hint;   // may be empty where there is a `meant`
  std::string_view meant;  // what of the language stands for it, if that is all there is to say
};
/// The longest that `text` starts with; null if there is none.
const Operator* find_operator(std::string_view text);

/// Each gives the hint for a name that is not known, or "": called as a function; behind a dot; read
/// as a value; at the start of an item; where a statement or an operator stands.
std::string_view of_function(std::string_view name);
std::string_view of_member(std::string_view name);
std::string_view of_value(std::string_view name);
std::string_view of_item(std::string_view word);
std::string_view of_word(std::string_view word);

/// Whether functions are looked for in it elsewhere: `torch`, `np`.
bool is_module(std::string_view name);

}  // namespace rnnc::habits
