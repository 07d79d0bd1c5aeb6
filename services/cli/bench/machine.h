#pragma once

// The machine a bench runs on.

#include <string>
#include <vector>

namespace baton::cli {

// "AMD EPYC 7763, 2 cores for this process, AVX2, 23.4 GiB".
std::string MachineLine();

// Cores that this process may use.
std::vector<int> AllowedCores();

}  // namespace baton::cli
