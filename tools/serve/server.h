/// The pages of `rnnc serve`, over HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ir/base/status.h"
#include "tools/serve/texts.h"

namespace rnnc::serve {

/// Serves one page to browsers of this machine, until SIGINT, SIGTERM or SIGHUP comes. Port 0 is
/// any that is free. `started` is told the page's address, which has a secret in it.
///
/// Below that address GET gives the page, and POST of JSON to the name of a question its answer
/// (answer.h): 200, 400 if the body is no such question, 422 with what is wrong in words, 503 and
/// 500 at limits. All else is refused, whatever it is; no request waits for another's.
Status serve(const Texts& texts, uint16_t port,
             const std::function<Status(const std::string& address)>& started);

}  // namespace rnnc::serve
