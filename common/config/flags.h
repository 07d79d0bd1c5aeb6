#pragma once

// Flags and environment into plain structs, once, at start. Flag --max_batch is also read from BATON_MAX_BATCH; the
// command line wins. Unknown flags, wrong types and values out of range end in one line that names flag, value and
// limits.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

class Flags {
 public:
  Flags(std::string program, std::string description);
  ~Flags();

  // Each binds a flag to a field whose current value is the default shown by --help.
  void Add(const std::string& name, std::string* field, const std::string& help);
  void Add(const std::string& name, bool* field, const std::string& help);  // --name, --name=false
  void Add(const std::string& name, uint16_t* field, const std::string& help);
  void Add(const std::string& name, uint32_t* field, const std::string& help, uint32_t low, uint32_t high);
  void Add(const std::string& name, double* field, const std::string& help, double low, double high);
  // Without a default: none when it is not given.
  void Add(const std::string& name, std::optional<double>* field, const std::string& help, double low, double high);
  // Comma-separated or repeated.
  void Add(const std::string& name, std::vector<std::string>* field, const std::string& help);
  // One of `choices`.
  void AddChoice(const std::string& name, std::string* field, const std::vector<std::string>& choices,
                 const std::string& help);
  // Must be given.
  void Require(const std::string& name);

  // nullopt: go on. A number: exit with it (--help and --version were printed to stdout, an error to stderr).
  std::optional<int> Parse(int argc, const char* const* argv);

  // After Parse: the names of those that command line or environment set, be it to their default.
  std::vector<std::string> Given() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton
