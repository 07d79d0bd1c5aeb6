#pragma once

// A shared library that a program can do without until it uses it.

#include <string>

namespace baton {

// Loaded for as long as the process lives. Thread-safe once made.
class DynamicLibrary {
 public:
  // Looks where the system does, then in `folder`. Not found: Find gives null.
  DynamicLibrary(const std::string& name, const std::string& folder);

  template <typename Function>
  Function* Find(const char* symbol) const {
    return reinterpret_cast<Function*>(Address(symbol));
  }

 private:
  void* Address(const char* symbol) const;

  void* handle_ = nullptr;
};

}  // namespace baton
