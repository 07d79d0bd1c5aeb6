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

// Defines a library's function, in parentheses its parameters and how they are handed on, as one that is found through
// Library() of the file when it is first called; it returns `missing` where there is no such library or function.
#define BATON_FORWARD(result, missing, name, parameters, arguments)     \
  result name parameters {                                              \
    static const auto function = Library().Find<decltype(name)>(#name); \
    return function == nullptr ? missing : function arguments;          \
  }
