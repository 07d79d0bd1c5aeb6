#pragma once

// The machine a bench ran on, in one line.

#include <string>

namespace baton::cli {

// "AMD EPYC 7763, 2 cores for this process, AVX2, 23.4 GiB".
std::string MachineLine();

}  // namespace baton::cli
