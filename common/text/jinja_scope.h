#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/text/jinja_ast.h"

namespace baton::jinja {

// Variables of one body: a whole template, one round of a loop, a call of a macro, a block that is captured. Names are
// looked up from the inside out; set writes to the innermost scope.
class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}

  // Null if no scope has it.
  const Value* Find(Symbol symbol) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      for (const auto& [known, value] : scope->variables_) {
        if (known == symbol) return &value;
      }
    }
    return nullptr;
  }

  void Set(Symbol symbol, Value value) {
    for (auto& [known, old_value] : variables_) {
      if (known == symbol) {
        old_value = std::move(value);
        return;
      }
    }
    variables_.emplace_back(symbol, std::move(value));
  }

  // A macro defined here may be called after this body has ended: this scope and those around it must stay.
  void Capture() {
    for (Scope* scope = this; scope != nullptr && !scope->is_captured_; scope = scope->parent_)
      scope->is_captured_ = true;
  }
  bool is_captured() const { return is_captured_; }

 private:
  Scope* const parent_;
  bool is_captured_ = false;
  std::vector<std::pair<Symbol, Value>> variables_;
};

}  // namespace baton::jinja
