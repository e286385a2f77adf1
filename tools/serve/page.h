/// The page of `rnnc serve`: page/page.html with its style and scripts, a string of the program.
#pragma once

#include <string_view>

namespace rnnc::serve {

extern const std::string_view kPage;

}  // namespace rnnc::serve
