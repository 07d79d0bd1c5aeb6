#pragma once

// What a run has found so far: a JSON object a line, written at once, so that a program that hangs or dies loses
// nothing of what it had.

#include <fstream>
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton {

class Records {
 public:
  // Appends to `path`; shows on stdout what it writes.
  explicit Records(const std::string& path) : file_(path, std::ios::app) {}

  absl::Status Write(const nlohmann::ordered_json& record) {
    const std::string line = record.dump();
    std::cout << line << std::endl;
    file_ << line << std::endl;
    return file_ ? absl::OkStatus() : FailedPrecondition("a record could not be written");
  }

 private:
  std::ofstream file_;
};

}  // namespace baton
